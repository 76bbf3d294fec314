package fakeimap

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-imap/v2/imapclient"
)

var greeting = Step{Reply: "* OK [CAPABILITY IMAP4rev1] ready\r\n"}

func TestScript(t *testing.T) {
	s := Start(t,
		Script(greeting,
			Step{Expect: `LOGIN "?ann"? "?x"?`, Reply: "{tag} OK [CAPABILITY IMAP4rev1] in\r\n"},
			Step{Expect: "SELECT", Reply: "* 3 EX", Close: true}),
		Script(greeting, Step{Expect: "LOGIN", Reply: "{tag} NO [AUTHENTICATIONFAILED] no\r\n"}, Step{Expect: "NOOP"}),
	)
	first, err := imapclient.DialInsecure(s.Addr(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close() }()
	if err := first.Login("ann", "x").Wait(); err != nil {
		t.Errorf("login: %v; the script says OK", err)
	}
	if _, err := first.Select("INBOX", nil).Wait(); err == nil {
		t.Error("select succeeds; the script hangs up in the middle")
	}
	for range 2 { // the last script serves all further connections
		c, err := imapclient.DialInsecure(s.Addr(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Login("ann", "x").Wait(); err == nil || !strings.Contains(err.Error(), "AUTHENTICATIONFAILED") {
			t.Errorf("login = %v; the script says NO", err)
		}
		_ = c.Close()
	}
	if s.Connections() != 3 {
		t.Errorf("Connections() = %d; want 3", s.Connections())
	}
}

func TestScriptFallsSilent(t *testing.T) {
	s := Start(t, Script(greeting))
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Read(make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	_, err = conn.Read(make([]byte, 1))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read after the last step = %v; want the server to stay connected and silent", err)
	}
}

// failures takes what would fail a test.
type failures struct {
	testing.TB
	c chan string
}

func (f failures) Errorf(format string, args ...any) { f.c <- fmt.Sprintf(format, args...) }

func TestUnexpectedCommandFailsTheTest(t *testing.T) {
	f := failures{TB: t, c: make(chan string, 1)}
	s := Start(f, Script(greeting, Step{Expect: "LOGIN"}))
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("a1 NOOP\r\n")); err != nil {
		t.Fatal(err)
	}
	if got := <-f.c; !strings.Contains(got, `step 2: the client sent "a1 NOOP"; want a match of "LOGIN"`) {
		t.Errorf("the test would fail with %q", got)
	}
}
