package cmd

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestServeAnotherDatabaseFile: `serve` ends at the first request after another file is in the
// place of its database, and says so.
func TestServeAnotherDatabaseFile(t *testing.T) {
	a, configure, migrate := watchedApp(t, "http://127.0.0.1:1")
	configure("crm", "dead")
	migrate()
	said, stderr := io.Pipe()
	server := &app{in: &bytes.Buffer{}, out: io.Discard, err: stderr, env: a.env}
	code := make(chan int, 1)
	go func() {
		code <- server.run(t.Context(), []string{"-c", a.config, "-v", "serve", "--listen", "127.0.0.1:0"})
		_ = stderr.Close()
	}()
	lines := bufio.NewReader(said)
	page := ""
	for page == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("serve does not say where the page is: %v", err)
		}
		page = regexp.MustCompile(`address=http://[^/]+/`).FindString(line)
	}
	page = strings.TrimPrefix(page, "address=")
	rest := make(chan []byte, 1)
	go func() {
		text, _ := io.ReadAll(lines)
		rest <- text
	}()
	get := func() int {
		t.Helper()
		answer, err := http.Get(page)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	if got := get(); got != http.StatusOK {
		t.Fatalf("the page answers %d, want 200", got)
	}
	path := filepath.Join(filepath.Dir(a.config), "p.db")
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	migrate()
	if got := get(); got != http.StatusServiceUnavailable {
		t.Errorf("with another file, the page answers %d, want 503", got)
	}
	select {
	case got := <-code:
		if text := <-rest; got != exitFailed || !bytes.Contains(text, []byte("was replaced")) {
			t.Errorf("serve ends with %d\n%s\nwant 1, because the file was replaced", got, text)
		}
	case <-time.After(10 * time.Second):
		t.Error("serve goes on with the file that was replaced")
	}
}

// TestServeEndsWithItsReason: the file may be in its place again when the last request has ended.
func TestServeEndsWithItsReason(t *testing.T) {
	ctx, end := context.WithCancelCause(t.Context())
	gone := errors.New("it was moved")
	over := func() error {
		if ctx.Err() != nil {
			return nil
		}
		return gone
	}
	h := endsIf(over, http.NotFoundHandler(), end)
	for range 2 {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	}
	if why := context.Cause(ctx); !errors.Is(why, gone) {
		t.Errorf("the page ends because of %v, want %v", why, gone)
	}
}
