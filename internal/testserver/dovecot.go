package testserver

import (
	"embed"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"text/template"
	"time"
)

//go:embed dovecot*.conf
var dovecotConfigs embed.FS

const dovecotMissing = "dovecot is not installed: apt-get install dovecot-imapd, or run scripts/test"

// IMAP is a running Dovecot with Maildir folders.
type IMAP struct {
	Host     string // 127.0.0.1, which the certificate names, like localhost
	Port     int    // plain, and STARTTLS
	TLSPort  int    // TLS from the first octet
	AuthPort int    // where another server asks about its users
	CAFile   string // the certificate to trust, in PEM

	dir       string
	as        *account
	provider  *OIDC    // of access tokens; nil for none
	bearer    []string // the mechanisms for them
	offers    string   // its capabilities; empty for its own
	passwords sync.Map // by user
}

// Dovecot starts a server of the test's own, without users, and stops it when the test is over.
func Dovecot(t testing.TB) *IMAP { return startDovecot(t, &IMAP{}) }

// DovecotOffering is Dovecot with these capabilities after the login: "IMAP4rev1 UIDPLUS".
func DovecotOffering(t testing.TB, capabilities string) *IMAP {
	return startDovecot(t, &IMAP{offers: capabilities})
}

// DovecotWithTokens takes access tokens, too, which it has the provider check (RFC 7662). It offers
// these mechanisms; without any, xoauth2 and oauthbearer.
func DovecotWithTokens(t testing.TB, provider *OIDC, mechanisms ...string) *IMAP {
	if len(mechanisms) == 0 {
		mechanisms = []string{"xoauth2", "oauthbearer"}
	}
	return startDovecot(t, &IMAP{provider: provider, bearer: mechanisms})
}

func startDovecot(t testing.TB, s *IMAP) *IMAP {
	t.Helper()
	binary, version := findDovecot(t)
	if (s.provider != nil || s.offers != "") && version != "2.3" {
		t.Skip("the configuration for access tokens and for capabilities is that of Dovecot 2.3")
	}
	as, err := plainAccount()
	if err != nil {
		t.Fatal(err)
	}
	ports, err := freePorts(3)
	if err != nil {
		t.Fatal(err)
	}
	s.Host, s.Port, s.TLSPort, s.AuthPort, s.as = loopback, ports[0], ports[1], ports[2], as
	if err := s.prepare(t, version); err != nil {
		t.Fatalf("prepare a Dovecot: %v", err)
	}
	config := filepath.Join(s.dir, "dovecot.conf")
	p, err := startProcess(filepath.Join(s.dir, "dovecot.log"), as, binary, "-F", "-c", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill) // it takes a second to stop, and nothing of it is needed any more
	for _, port := range ports {
		if err := p.waitListening(port); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// findDovecot returns the binary and its version, "2.3" or "2.4"; they do not share a configuration
// language.
func findDovecot(t testing.TB) (binary, version string) {
	t.Helper()
	binary = findBinary("dovecot")
	if binary == "" {
		missing(t, dovecotMissing)
	}
	out, err := exec.Command(binary, "--version").Output()
	if err != nil {
		t.Fatalf("ask %s for its version: %v", binary, err)
	}
	if strings.HasPrefix(string(out), "2.3.") {
		return binary, "2.3"
	}
	return binary, "2.4"
}

// findBinary looks where servers are installed too, which is not on every user's PATH.
func findBinary(name string) string {
	dirs := append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/usr/local/sbin", "/opt/homebrew/sbin")
	for _, dir := range dirs {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	return ""
}

// prepare makes the server's folder.
func (s *IMAP) prepare(t testing.TB, version string) error {
	dir, err := newDir("dovecot")
	if err != nil {
		return err
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the folder of a Dovecot: %v", err)
		}
	})
	s.dir, s.CAFile = dir, filepath.Join(dir, "cert.pem")
	for _, sub := range []string{"", "run", "state", "users", "mail"} {
		if err := s.mkdir(filepath.Join(dir, sub)); err != nil {
			return err
		}
	}
	certPEM, keyPEM, err := certificatePEM()
	if err != nil {
		return err
	}
	config, err := s.config(version)
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		"cert.pem": certPEM, "key.pem": keyPEM, "dovecot.conf": config, "dovecot.log": nil,
		"oauth2.conf": s.provider.introspection(),
	} {
		if err := s.writeFile(filepath.Join(dir, name), data); err != nil {
			return err
		}
	}
	return nil
}

func (s *IMAP) config(version string) ([]byte, error) {
	name := "dovecot" + strings.ReplaceAll(version, ".", "") + ".conf"
	tmpl, err := template.ParseFS(dovecotConfigs, name)
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	err = tmpl.Execute(&text, map[string]any{
		"Dir": s.dir, "User": s.as.name, "Group": s.as.group, "UID": s.as.uid, "GID": s.as.gid,
		"Port": s.Port, "TLSPort": s.TLSPort, "AuthPort": s.AuthPort,
		"Bearer": s.bearer, "Offers": s.offers,
	})
	return []byte(text.String()), err
}

func (s *IMAP) mkdir(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	return s.as.own(path)
}

// writeFile replaces the file in one step: Dovecot may be reading it.
func (s *IMAP) writeFile(path string, data []byte) error {
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	if err := s.as.own(path + ".new"); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// AddUser makes an account that can log in at once, and has an empty INBOX.
func (s *IMAP) AddUser(t testing.TB, user, password string) {
	t.Helper()
	s.SetPassword(t, user, password)
}

// SetPassword changes the user's password and returns when the server knows.
func (s *IMAP) SetPassword(t testing.TB, user, password string) {
	t.Helper()
	entry := fmt.Sprintf("%s:{PLAIN.b64}%s\n", user, base64.StdEncoding.EncodeToString([]byte(password)))
	if err := s.writeFile(filepath.Join(s.dir, "users", user), []byte(entry)); err != nil {
		t.Fatalf("set the password of %s: %v", user, err)
	}
	deadline := time.Now().Add(startTimeout)
	for {
		c, err := s.dial(user, password)
		if err == nil {
			_ = c.Close()
			s.passwords.Store(user, password)
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("set the password of %s: the server does not take it: %v", user, err)
		}
	}
}
