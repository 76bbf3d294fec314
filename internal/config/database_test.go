package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDatabaseTLS(t *testing.T) {
	const database = `database: {driver: mysql, dsn: "u@tcp(db.firm.example:3306)/mail"`
	for _, tt := range []struct{ name, text, want, wantErr string }{
		{"nothing", "", "", ""},
		{"none", ", tls: none", "none", ""},
		{"require", ", tls: require", "require", ""},
		{"verify", ", tls: verify", "verify", ""},
		{"a file", ", tls: ca.pem", "ca.pem", ""},
		{"a file without a certificate", ", tls: empty.pem", "", "database.tls: there is no certificate in"},
		{
			"neither", ", tls: required", "",
			"database.tls: is not none, require or verify, and cannot be read as a file",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := write(t, database+tt.text+"}\n"+minimal)
			dir := filepath.Dir(path)
			for name, content := range map[string][]byte{"ca.pem": certificate(t), "empty.pem": []byte("a key\n")} {
				if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			c, err := loadFile(path, variables())
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Errorf("Load = %v, want an error with %q", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if tt.name == "a file" {
				tt.want = filepath.Join(dir, tt.want)
			}
			if c.Database.TLS != tt.want {
				t.Errorf("database.tls is %q, want %q", c.Database.TLS, tt.want)
			}
			if got := c.Database.Roots; (got != nil) != (tt.name == "a file") {
				t.Errorf("it has certificates: %v, want them only for a file", got != nil)
			}
		})
	}
}
