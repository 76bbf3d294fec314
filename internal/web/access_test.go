package web_test

import (
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"postrider/internal/testserver"
	"postrider/internal/web"
)

// usersFile has anna, who operates in the tests, and ben. The password of each is the name and 1.
func usersFile(t *testing.T) string {
	t.Helper()
	var lines strings.Builder
	for _, name := range []string{"anna", "ben"} {
		hash, err := bcrypt.GenerateFromPassword([]byte(name+"1"), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		lines.WriteString(name + ":" + strings.Replace(string(hash), "$2a$", "$2y$", 1) + "\n")
	}
	return write(t, "users", "# who may\n\n"+lines.String())
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// withUsers has people log in; anna operates.
func withUsers(s *site) {
	s.settings.UsersFile, s.settings.Operators = usersFile(s.t), []string{"anna"}
}

// certificateFiles has a certificate and its key.
func certificateFiles(t *testing.T) (cert, key string) {
	t.Helper()
	pair, _, err := testserver.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	keyBlock := &pem.Block{Type: "PRIVATE KEY", Bytes: der}
	certBlock := &pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}
	return write(t, "cert.pem", string(pem.EncodeToMemory(certBlock))),
		write(t, "key.pem", string(pem.EncodeToMemory(keyBlock)))
}

// TestOpen: what others could reach without a login is refused, with the fix.
func TestOpen(t *testing.T) {
	cert, key := certificateFiles(t)
	users := usersFile(t)
	writable := usersFile(t)
	if err := os.Chmod(writable, 0o666); err != nil {
		t.Fatal(err)
	}
	proxy := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	const local = "127.0.0.1:0"
	for _, tt := range []struct {
		name string
		s    web.Settings
		want string // of the error; empty for none
	}{
		{"loopback", web.Settings{Listen: "127.0.0.1:8420"}, ""},
		{"loopback, IPv6", web.Settings{Listen: "[::1]:8420"}, ""},
		{"localhost", web.Settings{Listen: "localhost:8420"}, ""},
		{"all addresses", web.Settings{Listen: ":8420"}, "set web.users and web.tls, or web.proxy"},
		{"another address", web.Settings{Listen: "192.0.2.1:8420"}, "no login would be needed"},
		{"a name", web.Settings{Listen: "mail.firm.example:8420"}, "no login would be needed"},
		{"no port", web.Settings{Listen: "127.0.0.1"}, "write it like 127.0.0.1:8420"},
		{"users without TLS", web.Settings{Listen: ":8420", UsersFile: users}, "passwords would be sent unencrypted"},
		{"TLS without users", web.Settings{Listen: ":8420", CertFile: cert, KeyFile: key}, "no login would be needed"},
		{"users and TLS", web.Settings{Listen: ":8420", UsersFile: users, CertFile: cert, KeyFile: key}, ""},
		{"users on loopback", web.Settings{Listen: "127.0.0.1:8420", UsersFile: users}, ""},
		{"a proxy", web.Settings{Listen: ":8420", ProxyFrom: proxy, ProxyHeader: "X-Remote-User"}, ""},
		{
			"a proxy and users",
			web.Settings{Listen: ":8420", ProxyFrom: proxy, ProxyHeader: "X-Remote-User", UsersFile: users},
			"exclude each other",
		},
		{"users that others can write", web.Settings{Listen: local, UsersFile: writable}, "chmod go-w " + writable},
		{"no users file", web.Settings{Listen: local, UsersFile: users + "x"}, "htpasswd -B -c"},
		{
			"an empty users file",
			web.Settings{Listen: local, UsersFile: write(t, "u", "# none\n")},
			"there is no user in",
		},
		{"MD5", web.Settings{Listen: local, UsersFile: write(t, "u", "anna:$apr1$x$y\n")}, "line 1 of"},
		{"no colon", web.Settings{Listen: local, UsersFile: write(t, "u", "anna\n")}, "is not NAME:PASSWORD"},
		{
			"no certificate",
			web.Settings{Listen: local, CertFile: cert + "x", KeyFile: key},
			"there is no file " + cert + "x; correct its name",
		},
		{
			"the key of another",
			web.Settings{Listen: local, CertFile: cert, KeyFile: users},
			"are not a certificate and its key",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.s.Now = time.Now
			_, err := web.Open(tt.s)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Fatalf("Open returned %v, want %q", err, tt.want)
			}
		})
	}
	t.Run("expired", func(t *testing.T) {
		_, err := web.Open(web.Settings{
			Listen: ":0", UsersFile: users, CertFile: cert, KeyFile: key,
			Now: func() time.Time { return time.Now().AddDate(200, 0, 0) },
		})
		if err == nil || !strings.Contains(err.Error(), "expired on") {
			t.Fatalf("Open returned %v, want that the certificate has expired", err)
		}
	})
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestMethods: a page that is not for a method names those that it is for.
func TestMethods(t *testing.T) {
	s := newSite(t)
	for _, tt := range []struct {
		method, path string
		code         int
		allow, says  string
	}{
		{"POST", "/messages", 405, "GET, HEAD", "This page takes GET, HEAD, and not POST."},
		{"DELETE", "/api/v1/status", 405, "GET, HEAD", `{"error":"This page takes GET, HEAD, and not DELETE."}`},
		{"PUT", "/login", 405, "GET, HEAD, POST", "and not PUT"},
		{"POST", "/nothing", 404, "", "There is no such page."},
		{"GET", "/messages/1/retry", 404, "", "There is no such page."},
	} {
		got := s.do(client(t), tt.method, tt.path, "")
		got.has(t, tt.code, tt.says)
		if allow := got.header.Get("Allow"); allow != tt.allow {
			t.Errorf("%s %s is answered with Allow: %q, want %q", tt.method, tt.path, allow, tt.allow)
		}
	}
}

func TestProxy(t *testing.T) {
	s := newSite(t, func(s *site) {
		s.settings.Listen, s.settings.ProxyHeader, s.settings.Operators = ":0", "X-Remote-User", []string{"anna"}
		s.settings.ProxyFrom = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	})
	as := func(name string) answer {
		return s.get("/", "X-Remote-User", name, "Host", "mail.firm.example")
	}
	as("anna").has(t, http.StatusOK, "anna")
	as("anna").lacks(t, "read only", "Log out")
	as("ben").has(t, http.StatusOK, "read only")
	as("a\u202eb").has(t, http.StatusForbidden)
	s.get("/").has(t, http.StatusForbidden, "does not say who you are")
	s.get("/api/v1/status").has(t, http.StatusForbidden)
	elsewhere := newSite(t, func(s *site) {
		s.settings.Listen, s.settings.ProxyHeader = ":0", "X-Remote-User"
		s.settings.ProxyFrom = []netip.Prefix{netip.MustParsePrefix("192.0.2.7/32")}
	})
	elsewhere.get("/", "X-Remote-User", "anna").has(t, http.StatusForbidden, "through its proxy")
	elsewhere.get("/healthz").has(t, http.StatusOK)
}

// TestRebinding: without a login the page answers to names of this host alone.
func TestRebinding(t *testing.T) {
	s := newSite(t)
	for _, host := range []string{
		"localhost", "localhost:8420", "LOCALHOST", "127.0.0.1", "127.1.2.3:80", "[::1]:8420", "[::1]",
	} {
		if got := s.get("/", "Host", host); got.code != http.StatusOK {
			t.Errorf("host %s: %d, want 200", host, got.code)
		}
	}
	for _, host := range []string{
		"evil.example", "evil.example:8420", "127.0.0.1.evil.example", "192.0.2.1", "localhost.evil.example",
	} {
		got := s.get("/", "Host", host)
		got.has(t, http.StatusMisdirectedRequest, "only at localhost", "set web.users or web.proxy")
		got.lacks(t, "Overview</h1>", "smtp.firm.example")
	}
}

// TestCrossOrigin: another site can make nobody's browser change anything.
func TestCrossOrigin(t *testing.T) {
	s := newSite(t, withUsers)
	s.firm()
	dead := s.number(`SELECT id FROM monitored_emails_tasks WHERE status = 'dead'`)
	anna := s.logIn("anna")
	paths := []string{
		"/messages/" + itoa(dead) + "/retry", "/inboxes/office@firm.example/disable",
		"/inboxes/office@firm.example/audit", "/login", "/logout",
	}
	for _, path := range paths {
		for _, from := range [][]string{
			{"Sec-Fetch-Site", "cross-site"},
			{"Sec-Fetch-Site", "same-site"},
			{"Origin", "https://evil.example"},
			{"Origin", "null"},
		} {
			got := s.do(anna, http.MethodPost, path, form("why", "x", "name", "ben", "password", "ben1"), from...)
			got.has(t, http.StatusForbidden, "another site")
		}
	}
	if got := s.number(`SELECT COUNT(*) FROM monitored_emails_tasks WHERE status = 'dead'`); got != 1 {
		t.Errorf("%d tasks are dead, want 1 as before", got)
	}
	s.do(anna, http.MethodGet, "/messages/"+itoa(dead)+"/retry?why=x", "").has(t, http.StatusNotFound)
}

// TestHeaders: each answer forbids what is not ours.
func TestHeaders(t *testing.T) {
	const csp = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; " +
		"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	s := newSite(t, withUsers)
	for _, path := range []string{
		"/", "/login", "/healthz", "/readyz", "/nothing", "/api/v1/status", "/assets/style.css",
	} {
		h := s.get(path).header
		for name, want := range map[string]string{
			"Content-Security-Policy": csp,
			"Referrer-Policy":         "same-origin", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		if got := h.Get("Cache-Control"); got != "no-store" && !strings.HasPrefix(path, "/assets/") {
			t.Errorf("%s: Cache-Control is %q, want no-store", path, got)
		}
	}
}

// TestRenewedCertificate: a certificate that is replaced is used at once, a broken one is not,
// which is logged once.
func TestRenewedCertificate(t *testing.T) {
	users := usersFile(t)
	cert, key := certificateFiles(t)
	var log strings.Builder
	a, err := web.Open(web.Settings{
		Listen: ":0", UsersFile: users, CertFile: cert, KeyFile: key, Now: time.Now,
		Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	shown := func() string {
		pair, err := a.TLS().GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return string(pair.Certificate[0])
	}
	old := shown()
	replace := func(path string, text []byte, at time.Time) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	later := time.Now().Add(time.Hour)
	logged := func(n int, says string) {
		t.Helper()
		if got := strings.Count(log.String(), "level=ERROR"); got != n || !strings.Contains(log.String(), says) {
			t.Errorf("the log has %d errors, want %d, with %q:\n%s", got, n, says, log.String())
		}
	}
	logged(0, "")
	replace(cert, []byte("half a certif"), later)
	for range 2 { // it is logged once
		if shown() != old {
			t.Error("a broken certificate is used")
		}
	}
	logged(1, "are not a certificate and its key")
	logged(1, "previous_expires=2")
	if err := os.Remove(cert); err != nil {
		t.Fatal(err)
	}
	if shown() != old {
		t.Error("without a file the old certificate is not used")
	}
	logged(2, "there is no file")
	newCert, newKey := certificateFiles(t)
	replace(key, read(t, newKey), later)
	replace(cert, read(t, newCert), later.Add(time.Hour))
	if shown() == old {
		t.Error("the old certificate is still used")
	}
	logged(2, "")
}
