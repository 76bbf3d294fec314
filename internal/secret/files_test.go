package secret

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestFiles(t *testing.T) {
	top := t.TempDir()
	conf, run := filepath.Join(top, "conf"), filepath.Join(top, "run")
	for name, content := range map[string]string{
		"conf/pw": "beside", "conf/sub/pw": "below", "run/pw": "allowed", "pw": "above", "conf-2/pw": "similar name",
	} {
		path := filepath.Join(top, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct{ name, path, want, wantErr string }{
		{"beside", "conf/pw", "beside", ""},
		{"below", "conf/sub/pw", "below", ""},
		{"allowed", "run/pw", "allowed", ""},
		{"with dots", "conf/../run/pw", "allowed", ""},
		{"above", "pw", "", "secrets.files_in"},
		{"out by dots", "conf/../pw", "", "secrets.files_in"},
		{"a directory with a similar name", "conf-2/pw", "", "secrets.files_in"},
		{"not there", "conf/none", "", "there is no file"},
		{"not there, and elsewhere", "none/none", "", "secrets.files_in"},
		{"the directory itself", "conf", "", "is a directory"},
	}
	if runtime.GOOS != "windows" { // where links need a privilege
		links := map[string]string{
			"conf/in": "sub/pw", "conf/out": "../pw", "conf/over": "../run/pw",
			"into": "conf/pw", "again": "conf",
		}
		for name, to := range links {
			if err := os.Symlink(to, filepath.Join(top, filepath.FromSlash(name))); err != nil {
				t.Fatal(err)
			}
		}
		tests = append(tests, []struct{ name, path, want, wantErr string }{
			{"a link within", "conf/in", "below", ""},
			{"a link out", "conf/out", "", "secrets.files_in"},
			{"a link to an allowed directory", "conf/over", "allowed", ""},
			{"a link into it", "into", "beside", ""},
			{"through a linked directory", "again/pw", "beside", ""},
		}...)
	}
	dirs := Files{conf, filepath.Join(top, "no such directory"), run}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ref := "file:" + filepath.Join(top, filepath.FromSlash(tt.path))
			got, err := dirs.Resolve(ref)
			if got != tt.want || (err == nil) != (tt.wantErr == "") ||
				err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("Resolve = %q, %v; want %q, an error with %q", got, err, tt.want, tt.wantErr)
			}
			if err := dirs.Check(ref); (err != nil) != (tt.wantErr == "secrets.files_in") {
				t.Errorf("Check = %v; want an error only for what lies elsewhere", err)
			}
		})
	}
	if err := (Files{}).Check("env:X"); err != nil {
		t.Errorf("Check of env:X = %v, want none: it is no file", err)
	}
}
