package config

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestSecrets(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no file modes")
	}
	t.Setenv("H5_PASSWORD", "hunter2")
	tests := []struct {
		name, ref string
		mode      os.FileMode
		want      string // the password, or a part of the error
	}{
		{"plain, mine alone", "hunter2", 0o600, "hunter2"},
		{
			"plain, the group's too", "hunter2", 0o640,
			"this password is plain text, and other users can read this file; run: chmod 600",
		},
		{"variable, readable by all", "env:H5_PASSWORD", 0o644, "hunter2"},
		{"variable not set", "env:H5_NONE", 0o600, "smtp.password: environment variable H5_NONE is not set"},
		{
			"variable in capitals", "ENV:hunter2", 0o600,
			"begins with capital letters; write env:, file: or command: instead",
		},
		{"file beside", "file:pw", 0o644, "hunter2"},
		{"file that is not there", "file:none", 0o644, "there is no file"},
		{"file that others can read", "file:open", 0o644, "other users can access"},
		{"two lines", `"hunter2\nlogin: u"`, 0o600, "smtp.password: has 2 lines, and must have one"},
		{"empty", `""`, 0o600, "is empty"},
		{"null", "", 0o600, "has no value"},
		{"a list", "[hunter2]", 0o600, "has to be text, not a list"},
		{"a section", "{hunter2: x}", 0o600, "has to be text, not a section"},
		{"a tag", "!hunter2", 0o600, "smtp.password"},
		{"an anchor", "&hunter2", 0o600, "has no value"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			login := "smtp:\n  host: h\n  username: u\n  password: " + tt.ref
			path := write(t, strings.Replace(minimal, "smtp: {host: smtp.example.com}", login, 1))
			for name, mode := range map[string]os.FileMode{"pw": 0o600, "open": 0o644} {
				if err := os.WriteFile(filepath.Join(filepath.Dir(path), name), []byte("hunter2\n"), mode); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(path, tt.mode); err != nil {
				t.Fatal(err)
			}
			c, err := loadFile(path, variables())
			got := ""
			if err != nil {
				got = err.Error()
				if strings.Contains(got, "hunter2") {
					t.Errorf("the error shows the password: %s", got)
				}
			} else {
				got = string(c.SMTP.Password)
			}
			if !strings.Contains(got, tt.want) {
				t.Errorf("password or error is %q, want %q in it", got, tt.want)
			}
		})
	}
}

// TestLoginHalfGiven is a login of which one half is missing, or only looks so: then its own error
// is all there is to say.
func TestLoginHalfGiven(t *testing.T) {
	const together = "smtp.username: and smtp.password go together"
	tests := []struct {
		name, login, want string
		mode              os.FileMode
	}{
		{"no password", "username: u", together, 0o600},
		{"no username", "password: p", together, 0o600},
		{"no password for plain", "username: u, auth: plain", together, 0o600},
		{
			"another mechanism", "username: u, password: hunter2, auth: cram-md5",
			`smtp.auth: "cram-md5" is not one of password, plain, login, oauth`, 0o600,
		},
		{
			"login in plain text", "username: u, password: hunter2, auth: login, security: none",
			"smtp.security: none would send the password unencrypted", 0o600,
		},
		{
			"variable not set", "username: u, password: env:H5_NONE",
			"smtp.password: environment variable H5_NONE is not set", 0o600,
		},
		{"a list", "username: u, password: [hunter2]", "smtp.password: has to be text, not a list", 0o600},
		{
			"readable by all", "username: u, password: hunter2",
			"smtp.password: this password is plain text", 0o644,
		},
		{
			"misspelt", "username: u, pasword: hunter2",
			"smtp.pasword: unknown key; did you mean smtp.password?", 0o600,
		},
		{
			"username misspelt", "usrname: u, password: hunter2",
			"smtp.usrname: unknown key; did you mean smtp.username?", 0o600,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if runtime.GOOS == "windows" && tt.mode != 0o600 {
				t.Skip("Windows has no file modes")
			}
			path := write(t, strings.Replace(minimal, "host: smtp.example.com", "host: h, "+tt.login, 1))
			if err := os.Chmod(path, tt.mode); err != nil {
				t.Fatal(err)
			}
			if got := loadErrors(t, path, variables()); !strings.Contains(got, tt.want) || strings.Contains(got, "\n") {
				t.Errorf("errors are\n%s\nwant one line with %q", got, tt.want)
			}
		})
	}
}

// TestLoginWithoutHost has a host that cannot be read, so nobody knows whether it is this one.
func TestLoginWithoutHost(t *testing.T) {
	const login = `username: u, password: p, security: none`
	for _, host := range []string{`host: "127.0.0.1:25", `, "hots: 127.0.0.1, "} {
		got := loadErrors(t, write(t, strings.Replace(minimal, "host: smtp.example.com", host+login, 1)), variables())
		if !strings.Contains(got, "smtp.host") || strings.Contains(got, "smtp.security") {
			t.Errorf("with %s the errors are\n%s\nwant nothing of smtp.security", host, got)
		}
	}
}

func TestHoldsPassword(t *testing.T) {
	tests := []struct {
		key, text string
		want      bool
	}{
		{"smtp.password", "x", true},
		{"srs.secret", "x", true},
		{"bounces.secret", "x", true},
		{"oauth.corp.client_secret", "x", true},
		{"oauth.corp.service_account", "x", true},
		{"events.crm.secrets[0]", "x", true},
		{"events.crm.url", "https://crm.example/hook", false},
		{"events.crm.url", "nats://user:pw@h/s", true},
		{"events.crm.proxy", "direct", false},
		{"imap.proxy", "socks5://127.0.0.1:1080", false},
		{"imap.proxy", "socks5://user@h:1080", false},
		{"imap.proxy", "http://user:pw@h:3128", true},
		{"database.dsn", "root@tcp(h:3306)/d", false},
		{"database.dsn", "user:p@ss@tcp(h:3306)/d", true},
	}
	for _, tt := range tests {
		if got := holdsPassword(tt.key, tt.text); got != tt.want {
			t.Errorf("holdsPassword(%s, %s) = %v, want %v", tt.key, tt.text, got, tt.want)
		}
	}
}

func TestProxyIsNotShown(t *testing.T) {
	for _, proxy := range []string{
		"http://u:hunter2@h:x/", "http://u:1#hunter2@h:3128", "http://u:1?hunter2@h:3128", "http://u:1/hunter2@h:3128",
	} {
		for _, key := range []string{"imap.proxy", "smtp.proxy"} {
			got := loadErrors(t, write(t, minimal), variables(variable(key), proxy))
			if strings.Contains(got, "hunter2") || !strings.Contains(got, key+": is not the URL of a proxy") {
				t.Errorf("errors of %s are %q, want an error of %s without the password", proxy, got, key)
			}
		}
	}
}

// TestMisplacedSecretIsNotShown: a password may stand where YAML takes it for a part of a key, or
// in a value that is no secret.
func TestMisplacedSecretIsNotShown(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{
			"no space after the colon", "smtp: {host: h, password:hunter2}",
			"smtp.password: unknown key; write a space after the colon, as in password: VALUE",
		},
		{
			"with dots", `database: {driver: mysql, "dsn:root:hunter2@tcp(h.example:3306)/d": x}`,
			"database.dsn: unknown key; write a space after the colon, as in dsn: VALUE",
		},
		{
			"an equals sign", "smtp: {host: h, password=hunter2}",
			"smtp.password: unknown key; write a space after the colon, as in password: VALUE",
		},
		{
			"misspelt, too", "smtp: {host: h, passwort:hunter2}",
			"smtp.passwort: unknown key; did you mean smtp.password?",
		},
		{"twice", "smtp: {host: h, password:hunter2, password:hunter2}", "smtp.password: appears twice"},
		{"as a name", "oauth: {client_secret:hunter2}", "oauth.client_secret: is not a valid name"},
		{"in the host", `smtp: {host: "smtp://u:hunter2@h"}`, "smtp.host: the value is not a host"},
		{
			"in the issuer", `oauth: {corp: {client_id: x, issuer: "https://u:hunter2@id.example"}}`,
			"oauth.corp.issuer: the value is not an https URL without a username",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := loadErrors(t, write(t, tt.text+"\n"+rest(tt.text)), variables())
			if strings.Contains(got, "hunter2") || !strings.Contains(got, tt.want) {
				t.Errorf("errors are\n%s\nwant %q in them, and no password", got, tt.want)
			}
		})
	}
}
