package imapsrc_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"postrider/internal/imapsrc"
	"postrider/internal/message"
	"postrider/internal/testserver/fakeimap"
)

// wantError checks the error's kind, and that its text is one line with all these parts.
func wantError(t *testing.T, err error, kind imapsrc.Kind, parts ...string) {
	t.Helper()
	var e *imapsrc.Error
	if !errors.As(err, &e) {
		t.Fatalf("error = %v; want an *Error of kind %s", err, kind)
	}
	if e.Kind != kind {
		t.Errorf("error is of kind %s (%v); want %s", e.Kind, err, kind)
	}
	text := err.Error()
	if !strings.HasPrefix(text, "imap ") || strings.ContainsAny(text, "\r\n\t\x00") {
		t.Errorf("error = %q; want one printable line that starts with imap and the host", text)
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("error = %q; want it to say %q", text, part)
		}
	}
}

// The beginning of most scripts: a server without extensions, and an INBOX with UIDVALIDITY 7.
var (
	greeting = fakeimap.Step{Reply: "* OK [CAPABILITY IMAP4rev1] hello\r\n"}
	loggedIn = fakeimap.Step{Expect: `LOGIN "ann" "sesame"`, Reply: "{tag} OK [CAPABILITY IMAP4rev1] in\r\n"}
	// The login to a server that has ID.
	loggedInWithID = fakeimap.Step{Expect: "LOGIN", Reply: "{tag} OK [CAPABILITY IMAP4rev1 ID] in\r\n"}
	// The answer of a server that has to be asked.
	offers   = fakeimap.Step{Expect: "CAPABILITY$", Reply: "* CAPABILITY IMAP4rev1\r\n{tag} OK done\r\n"}
	examined = fakeimap.Step{
		Expect: "EXAMINE INBOX$",
		Reply:  "* 3 EXISTS\r\n* OK [UIDVALIDITY 7] v\r\n* OK [UIDNEXT 10] n\r\n{tag} OK [READ-ONLY] done\r\n",
	}
	logout = fakeimap.Step{Expect: "LOGOUT", Reply: "* BYE\r\n{tag} OK bye\r\n"}
)

// fake starts a server that runs these steps, and returns an account on it.
func fake(t *testing.T, steps ...fakeimap.Step) imapsrc.Config {
	t.Helper()
	return fakeConfig(t, fakeimap.Script(steps...))
}

func fakeConfig(t *testing.T, handler func(*fakeimap.Conn)) imapsrc.Config {
	t.Helper()
	noLeaks(t)
	cfg := account(t)
	cfg.Port = fakeimap.Start(t, handler).Port()
	return cfg
}

// account is an account on a server without an address.
func account(t *testing.T) imapsrc.Config {
	t.Helper()
	return imapsrc.Config{
		Host: "127.0.0.1", Security: imapsrc.SecurityNone, Username: "ann", Password: "sesame",
		Proxy: "direct", DialTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxSize: 50 << 20,
		Spooler: &message.Spooler{Limit: 1 << 20, Budget: 4 << 20, Dir: t.TempDir()},
		Logger:  slog.New(slog.DiscardHandler),
	}
}

// shortIdle is the IdleTimeout of an impatient account. It is a time of a bubble's clock.
const shortIdle = 200 * time.Millisecond

// impatient is an account with a short IdleTimeout.
func impatient(t *testing.T) imapsrc.Config {
	t.Helper()
	cfg := account(t)
	cfg.IdleTimeout = shortIdle
	return cfg
}

// overPipe logs in to a server at the other end of a pipe. It is for tests in a bubble of
// testing/synctest, where timeouts are exact and take no time. The bubble fails a test that leaves
// goroutines.
func overPipe(t *testing.T, cfg imapsrc.Config, handler func(*fakeimap.Conn)) *imapsrc.Conn {
	t.Helper()
	c, err := imapsrc.DialOver(t.Context(), fakeimap.Pipe(t, handler), cfg)
	if err != nil {
		t.Fatalf("DialOver: %v; want a connection", err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// openImpatient is open for an impatient account, over a pipe. The server answers no LOGOUT.
func openImpatient(t *testing.T, steps ...fakeimap.Step) *imapsrc.Conn {
	t.Helper()
	c := overPipe(t, impatient(t), fakeimap.Script(append([]fakeimap.Step{greeting, loggedIn, examined}, steps...)...))
	selectInbox(t, c)
	return c
}

// open returns a connection with INBOX open, to a server that continues with these steps.
func open(t *testing.T, steps ...fakeimap.Step) *imapsrc.Conn {
	t.Helper()
	c := dial(t, fake(t, slices.Concat([]fakeimap.Step{greeting, loggedIn, examined}, steps,
		[]fakeimap.Step{logout})...))
	selectInbox(t, c)
	return c
}

// wantTook checks how long a call has taken by the bubble's clock.
func wantTook(t *testing.T, start time.Time, want time.Duration) {
	t.Helper()
	if took := time.Since(start); took != want {
		t.Errorf("it took %v; want %v", took, want)
	}
}

func selectInbox(t *testing.T, c *imapsrc.Conn) {
	t.Helper()
	if _, err := c.Select(t.Context(), "INBOX"); err != nil {
		t.Fatalf("Select(INBOX): %v", err)
	}
}

// noLeaks checks after all other cleanups that no goroutine is left.
func noLeaks(t *testing.T) {
	t.Helper()
	t.Cleanup(func() { goleak.VerifyNone(t) })
}

func isCanceled(err error) bool { return errors.Is(err, context.Canceled) }

// watchHeap measures the heap until grown is called, which returns the largest growth in octets.
func watchHeap(t *testing.T) (grown func() uint64) {
	t.Helper()
	percent := debug.SetGCPercent(20) // else most of it is garbage, also of the fake server
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	runtime.GC()
	var start runtime.MemStats
	runtime.ReadMemStats(&start)
	stop, peak := make(chan struct{}), make(chan uint64)
	go func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		highest := start.HeapAlloc
		for {
			select {
			case <-stop:
				peak <- highest - start.HeapAlloc
				return
			case <-tick.C:
				var now runtime.MemStats
				runtime.ReadMemStats(&now)
				highest = max(highest, now.HeapAlloc)
			}
		}
	}()
	return func() uint64 {
		close(stop)
		return <-peak
	}
}
