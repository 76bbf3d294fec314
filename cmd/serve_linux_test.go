package cmd

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestServe: the page is up, knows the relay, explains a message by the current routes, audits an
// inbox, and ends with exit code 0 when it is stopped.
func TestServe(t *testing.T) {
	for _, command := range []string{"serve", "watch"} {
		t.Run(command, func(t *testing.T) { shows(t, command) })
	}
}

var pageAt = regexp.MustCompile(`address=(http://127\.0\.0\.1:\d+)/`)

// shows runs a command that shows the page.
func shows(t *testing.T, command string) {
	dir := newTerminalWorld(t, t.TempDir(), idle)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	log, shown := io.Pipe()
	a := &app{in: strings.NewReader(""), out: shown, err: shown, env: noEnv}
	ended := make(chan int, 1)
	go func() {
		config := filepath.Join(dir, "postrider.yaml")
		ended <- a.run(ctx, []string{"-c", config, "-v", command, "--listen", "127.0.0.1:0"})
		_ = shown.Close()
	}()
	var found []string
	for lines := bufio.NewScanner(log); found == nil && lines.Scan(); {
		found = pageAt.FindStringSubmatch(lines.Text())
	}
	if found == nil {
		t.Fatal("it does not log its address")
	}
	go func() { _, _ = io.Copy(io.Discard, log) }()
	ask := func(method, path string) (code int, body string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, found[1]+path, strings.NewReader("why=x"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(text)
	}
	for _, tt := range []struct {
		method, path string
		code         int
		has          string
	}{
		{"GET", "/", 200, "1 ok"},
		{"GET", "/metrics", 200, "postrider_"},
		{"GET", "/readyz", 200, `"relay":"ok"`},
		{"GET", "/messages?q=clerk", 200, "intake@firm.example"},
		{"POST", "/messages/1/explain", 200, "no match"},
		{"GET", "/api/v1/messages/1", 200, `"status":"forwarded"`},
		{"POST", "/inboxes/" + deskUser + "/audit", 200, "The audit was started."},
	} {
		if code, body := ask(tt.method, tt.path); code != tt.code || !strings.Contains(body, tt.has) {
			t.Errorf("%s %s: %d, want %d and %q in it:\n%s", tt.method, tt.path, code, tt.code, tt.has, body)
		}
	}
	const clean = `"clean":true,"summary":"Every message is accounted for`
	const result = `"by":"the status page (no login)"`
	for until := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		_, body := ask("GET", "/api/v1/inboxes/"+deskUser)
		if strings.Contains(body, result) && strings.Contains(body, clean) {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("the inbox is %s, want an audit that accounts for everything, with %s", body, result)
		}
	}
	stop()
	if code := <-ended; code != exitOK {
		t.Errorf("stopped, it ends with %d, want 0", code)
	}
}
