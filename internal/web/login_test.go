package web_test

import (
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// enter sends the form of the login; more are its other fields.
func (s *site) enter(c *http.Client, name, password string, more ...string) answer {
	s.t.Helper()
	return s.do(c, http.MethodPost, "/login", form(append([]string{"name", name, "password", password}, more...)...))
}

// logIn returns a client with the session of a user.
func (s *site) logIn(name string) *http.Client {
	s.t.Helper()
	c := client(s.t)
	s.enter(c, name, name+"1").has(s.t, http.StatusSeeOther)
	return c
}

func TestLogin(t *testing.T) {
	s := newSite(t, withUsers)
	s.get("/messages?q=x").has(t, http.StatusSeeOther)
	if got := s.get("/messages?q=x").header.Get("Location"); got != "/login?next=%2Fmessages%3Fq%3Dx" {
		t.Errorf("without a session a page leads to %q, want the login that comes back to it", got)
	}
	for _, path := range []string{"/healthz", "/login", "/assets/style.css"} {
		s.get(path).has(t, http.StatusOK)
	}
	s.get("/api/v1/status").has(t, http.StatusUnauthorized, "Log in first")
	c := client(t)
	for _, wrong := range []string{
		form("name", "anna", "password", "ben1"), form("name", "eve", "password", "nobody"), form("name", "anna"), "",
	} {
		s.do(c, http.MethodPost, "/login", wrong).has(t, http.StatusUnauthorized, "The name or the password is wrong.")
	}
	s.do(c, http.MethodGet, "/", "").has(t, http.StatusSeeOther)
	in := s.enter(c, "anna", "anna1", "next", "/inboxes")
	in.has(t, http.StatusSeeOther)
	if got := in.header.Get("Location"); got != "/inboxes" {
		t.Errorf("after the login comes %q, want /inboxes", got)
	}
	cookie := in.header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Lax", "Path=/"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("the cookie is %q, want %s in it", cookie, want)
		}
	}
	s.do(c, http.MethodGet, "/", "").has(t, http.StatusOK, "anna", "Log out")
	s.do(c, http.MethodGet, "/api/v1/status", "").has(t, http.StatusOK)
	s.do(c, http.MethodPost, "/logout", "").has(t, http.StatusSeeOther)
	s.do(c, http.MethodGet, "/", "").has(t, http.StatusSeeOther)
}

// TestLoginLeadsNowhereElse: what comes after a login is a page of ours.
func TestLoginLeadsNowhereElse(t *testing.T) {
	s := newSite(t, withUsers)
	for _, next := range []string{
		"https://evil.example/", "//evil.example/", "///evil.example/", `/\evil.example`, "javascript:alert(1)",
		"x", "", "/\tx", "http:/x",
	} {
		in := s.enter(client(t), "anna", "anna1", "next", next)
		if got := in.header.Get("Location"); got != "/" {
			t.Errorf("with next %q the login leads to %q, want /", next, got)
		}
	}
}

// TestForgedSessions: only what we signed, for that user, password and time, is a session.
func TestForgedSessions(t *testing.T) {
	s := newSite(t, withUsers)
	in := s.enter(client(t), "ben", "ben1")
	good, _, _ := strings.Cut(strings.TrimPrefix(in.header.Get("Set-Cookie"), "postrider="), ";")
	parts := strings.Split(good, ".")
	with := func(value string) int { return s.get("/", "Cookie", value).code }
	if got := with("postrider=" + good); got != http.StatusOK {
		t.Fatalf("the session that was given answers %d, want 200", got)
	}
	for name, value := range map[string]string{
		"another user":  "postrider=YW5uYQ." + parts[1] + "." + parts[2],
		"longer":        "postrider=" + parts[0] + ".99999999999." + parts[2],
		"no signature":  "postrider=" + parts[0] + "." + parts[1] + ".",
		"two parts":     "postrider=" + parts[0] + "." + parts[1],
		"given twice":   "postrider=" + good + "; postrider=" + good,
		"no base64":     "postrider=" + good + "!",
		"empty":         "postrider=",
		"an empty user": "postrider=.99999999999.",
	} {
		if got := with(value); got != http.StatusSeeOther {
			t.Errorf("%s: %d, want the login", name, got)
		}
	}
	s.now = s.now.Add(12 * time.Hour)
	if got := with("postrider=" + good); got != http.StatusSeeOther {
		t.Errorf("after twelve hours the session answers %d, want the login", got)
	}
	s.now = noon
	changed := strings.Replace(string(read(t, s.settings.UsersFile)), "ben:", "bob:", 1)
	if err := os.WriteFile(s.settings.UsersFile, []byte(changed+"#\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := with("postrider=" + good); got != http.StatusSeeOther {
		t.Errorf("when the user is gone the session answers %d, want the login", got)
	}
}

// TestUsersFileSpoilt: nobody can log in while others can write the file.
func TestUsersFileSpoilt(t *testing.T) {
	s := newSite(t, withUsers)
	anna := s.logIn("anna")
	if err := os.Chmod(s.settings.UsersFile, 0o666); err != nil {
		t.Fatal(err)
	}
	s.do(anna, http.MethodGet, "/", "").has(t, http.StatusSeeOther)
	const want = "Nobody can log in: the file of users cannot be used."
	s.enter(client(t), "anna", "anna1").has(t, http.StatusServiceUnavailable, want)
	s.get("/api/v1/status", "Authorization", "Basic YW5uYTphbm5hMQ==").has(t, http.StatusServiceUnavailable, want)
}

// TestTooManyLogins: after ten wrong passwords from one place there is a pause.
func TestTooManyLogins(t *testing.T) {
	s := newSite(t, withUsers)
	try := func(password string) answer { return s.enter(client(t), "anna", password) }
	for range 10 {
		try("wrong").has(t, http.StatusUnauthorized)
	}
	page := try("anna1")
	page.has(t, http.StatusTooManyRequests, "too many attempts")
	req := s.get("/api/v1/status", "Authorization", "Basic YW5uYTphbm5hMQ==")
	req.has(t, http.StatusTooManyRequests)
	for _, got := range []answer{page, req} {
		if after := got.header.Get("Retry-After"); after != "600" {
			t.Errorf("it is to be tried again after %q seconds, want 600", after)
		}
	}
	s.now = s.now.Add(10 * time.Minute)
	try("anna1").has(t, http.StatusSeeOther)
}

// lines are those of a log.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// TestBasic: programs log in with each request; pages do not take that. Logins that fail are
// logged.
func TestBasic(t *testing.T) {
	log := make(lines, 10)
	s := newSite(t, withUsers, func(s *site) { s.settings.Log = slog.New(slog.NewTextHandler(log, nil)) })
	s.get("/api/v1/messages", "Authorization", "Basic YmVuOmJlbjE=").has(t, http.StatusOK, `"messages":[]`)
	s.get("/api/v1/messages", "Authorization", "Basic ZXZlOm5vYm9keQ==").has(t, http.StatusUnauthorized) // eve, nobody
	refused := s.get("/api/v1/messages", "Authorization", "Basic YmVuOmJlbjI=")
	refused.has(t, http.StatusUnauthorized)
	if got := refused.header.Get("WWW-Authenticate"); !strings.HasPrefix(got, "Basic ") {
		t.Errorf("WWW-Authenticate is %q, want Basic", got)
	}
	if len(log) != 2 || !strings.Contains(<-log, "user=eve ") || !strings.Contains(<-log, "user=ben ") {
		t.Error("the log does not have two logins that failed, of eve and ben")
	}
	s.get("/", "Authorization", "Basic YmVuOmJlbjE=").has(t, http.StatusSeeOther)
}
