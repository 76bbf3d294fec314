package imapsrc_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/testserver/fakeimap"
)

// idling is the beginning of a script of a server with IDLE, and an INBOX with three messages open.
var idling = []fakeimap.Step{
	greeting, {Expect: "LOGIN", Reply: "{tag} OK [CAPABILITY IMAP4rev1 IDLE] in\r\n"}, examined,
}

var (
	idleBegins = fakeimap.Step{Expect: "IDLE$", Reply: "+ idling\r\n"}
	idleEnds   = fakeimap.Step{Expect: "^DONE$", Reply: "{tag} OK done\r\n"}
)

// openIdling is a connection to such a server, which goes on with these steps.
func openIdling(t *testing.T, steps ...fakeimap.Step) *imapsrc.Conn {
	t.Helper()
	c := dial(t, fake(t, slices.Concat(idling, steps)...))
	if !c.Idles() {
		t.Fatal("a server with IDLE: Idles is false")
	}
	selectInbox(t, c)
	return c
}

// TestNoIDLE: the IDLE of a server that is known not to tell what arrives is not used.
func TestNoIDLE(t *testing.T) {
	cfg := fake(t, idling[0], idling[1], logout)
	cfg.NoIDLE = true
	if dial(t, cfg).Idles() {
		t.Error("Idles is true, want false")
	}
}

// wantIdle checks what Idle says.
func wantIdle(t *testing.T, c *imapsrc.Conn, d time.Duration, want bool) {
	t.Helper()
	if arrived, err := c.Idle(t.Context(), d); arrived != want || err != nil {
		t.Errorf("Idle = %v, %v; want %v and no error", arrived, err, want)
	}
}

// TestIdle: a message that arrives ends it, and so it does at once when it arrived before; when the
// folder is opened again the answer says what is in it.
func TestIdle(t *testing.T) {
	arrives := idleBegins
	arrives.Reply += "* 4 EXISTS\r\n"
	c := openIdling(t, arrives, idleEnds, examined, idleBegins, idleEnds, logout)
	wantIdle(t, c, time.Hour, true)
	wantIdle(t, c, time.Hour, true)
	selectInbox(t, c)
	wantIdle(t, c, time.Millisecond, false)
}

// TestIdleArrivedWhileOpened: a message that arrives while the folder is being opened may not be in
// the UIDNEXT of the answer. A server that says the same number twice says nothing of one.
func TestIdleArrivedWhileOpened(t *testing.T) {
	for also, want := range map[string]bool{
		"* 4 EXISTS\r\n":                true,
		"* 4 EXISTS\r\n* 3 EXISTS\r\n":  true,
		"* 1 EXPUNGE\r\n* 3 EXISTS\r\n": true,
		"* 3 EXISTS\r\n* 3 EXISTS\r\n":  false,
		"* 3 exists\r\n* 1 RECENT\r\n":  false,
		"* 1 EXPUNGE\r\n* 2 EXISTS\r\n": false,
	} {
		t.Run(also, func(t *testing.T) {
			more := examined
			more.Reply = "* 3 EXISTS\r\n* OK [UIDVALIDITY 7] v\r\n* OK [UIDNEXT 10] n\r\n" + also +
				"{tag} OK [READ-ONLY] done\r\n"
			steps := []fakeimap.Step{idling[0], idling[1], more}
			if !want {
				steps = append(steps, idleBegins, idleEnds)
			}
			c := dial(t, fake(t, append(steps, logout)...))
			selectInbox(t, c)
			wantIdle(t, c, map[bool]time.Duration{true: time.Hour, false: time.Millisecond}[want], want)
		})
	}
}

// TestIdleRepeats: a server that says again how many messages there are says nothing of a new one,
// not even as one fewer than there were. One more than there are by then is one.
func TestIdleRepeats(t *testing.T) {
	for said, want := range map[string]bool{
		"* 3 EXISTS\r\n": false, "* 3 EXPUNGE\r\n* 2 EXISTS\r\n": false, "* 2 EXISTS\r\n": false,
		"* 3 EXPUNGE\r\n* 3 EXISTS\r\n": true, "* 2 EXISTS\r\n* 3 EXISTS\r\n": true,
	} {
		t.Run(said, func(t *testing.T) {
			begins := idleBegins
			begins.Reply += said
			c := openIdling(t, begins, idleEnds, logout)
			wantIdle(t, c, map[bool]time.Duration{true: time.Hour, false: time.Millisecond}[want], want)
		})
	}
}

// TestIdleChatter: a server that says it is still there, and what became of old messages, says
// nothing of a new one.
func TestIdleChatter(t *testing.T) {
	chatter := idleBegins
	chatter.Reply += "* OK still here\r\n* 2 FETCH (FLAGS (\\Seen))\r\n* 3 EXPUNGE\r\n* 0 RECENT\r\n"
	wantIdle(t, openIdling(t, chatter, idleEnds, logout), 20*time.Millisecond, false)
}

// TestIdleFlags: no limit of the library's holds for what is heard beside it.
func TestIdleFlags(t *testing.T) {
	flags := idleBegins
	flags.Reply += strings.Repeat("* 2 FETCH (FLAGS (\\Seen) X {3}\r\n* 4)\r\n", 1000) + "* 4 EXISTS\r\n"
	c := openIdling(t, flags, idleEnds, examined, logout)
	wantIdle(t, c, time.Hour, true)
	selectInbox(t, c)
}

// TestIdleHoldsLittle: the library's client, its goroutines and its buffers are gone while a
// connection waits.
func TestIdleHoldsLittle(t *testing.T) {
	c := openIdling(t, idleBegins, idleEnds, logout)
	ended := make(chan error, 1)
	go func() {
		_, err := c.Idle(t.Context(), time.Hour)
		ended <- err
	}()
	if all := stacksOfWait(); strings.Contains(all, "imapclient.") {
		t.Errorf("goroutines of the library while IDLE waits:\n%s", all)
	}
	interrupt(t, c, ended)
}

// stacksOfWait are the stacks of all goroutines, once Idle waits.
func stacksOfWait() string {
	for all := make([]byte, 1<<20); ; runtime.Gosched() {
		if stacks := string(all[:runtime.Stack(all, true)]); strings.Contains(stacks, "(*idle).wait(") {
			return stacks
		}
	}
}

// interrupt ends an Idle that has begun or begins soon.
func interrupt(t *testing.T, c *imapsrc.Conn, ended <-chan error) {
	t.Helper()
	for {
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
			return
		default:
			c.Interrupt()
		}
	}
}

// TestIdleStops when it is told to, and with its context. The connection is of use after both.
func TestIdleStops(t *testing.T) {
	c := openIdling(t, idleBegins, idleEnds, idleBegins, idleEnds, idleBegins, idleEnds, logout)
	ended := make(chan error, 1)
	go func() {
		arrived, err := c.Idle(t.Context(), time.Hour)
		if err == nil && arrived {
			err = errors.New("Idle that was interrupted says that a message has arrived")
		}
		ended <- err
	}()
	interrupt(t, c, ended)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		stacksOfWait()
		cancel()
	}()
	if arrived, err := c.Idle(ctx, time.Hour); arrived || err != nil {
		t.Errorf("Idle whose context ends = %v, %v; want false and no error", arrived, err)
	}
	wantIdle(t, c, time.Millisecond, false)
}

// TestIdleLost: a connection that ends while it waits says why.
func TestIdleLost(t *testing.T) {
	bye := idleBegins
	bye.Reply, bye.Close = bye.Reply+"* BYE [UNAVAILABLE] down for maintenance\r\n", true
	c := openIdling(t, bye)
	_, err := c.Idle(t.Context(), time.Hour)
	wantError(t, err, imapsrc.KindUnavailable, "down for maintenance")
}

// TestByeEndsTheConnection: a BYE that names a limit has the kind of the limit, and says that the
// connection is over, at the first command and at later ones. A NO does not say so.
func TestByeEndsTheConnection(t *testing.T) {
	for text, kind := range map[string]imapsrc.Kind{
		"[OVERQUOTA] x": imapsrc.KindLimit, "[INUSE] x": imapsrc.KindInUse, "[EXPIRED] x": imapsrc.KindExpired,
		"Too many connections": imapsrc.KindLimit, "x": imapsrc.KindUnavailable,
	} {
		t.Run(text, func(t *testing.T) {
			c := open(t, fakeimap.Step{Expect: "FETCH", Reply: "* BYE " + text + "\r\n", Close: true})
			for range 2 {
				_, err := c.UIDs(t.Context(), 1, 2)
				wantEnded(t, err, kind, true)
			}
		})
	}
	t.Run("while bodies are fetched", func(t *testing.T) {
		const one = "* 1 FETCH (UID 1 BODY[] {3}\r\nabc)\r\n"
		c := open(t, fakeimap.Step{
			Expect: "FETCH", Reply: one + "* BYE Suggested Backoff Time: 2000 milliseconds\r\n", Close: true,
		})
		_, _, err := collect(t, c, []uint32{1, 2})
		wantEnded(t, err, imapsrc.KindLimit, true)
		if d := imapsrc.BackOffOf(err); d != 2*time.Second {
			t.Errorf("the server asks to wait for %v, want 2s", d)
		}
	})
	t.Run("while IDLE waits", func(t *testing.T) {
		ends := idleBegins
		ends.Reply, ends.Close = ends.Reply+"* BYE [LIMIT] x\r\n", true
		_, err := openIdling(t, ends).Idle(t.Context(), time.Hour)
		wantEnded(t, err, imapsrc.KindLimit, true)
	})
	t.Run("NO", func(t *testing.T) {
		_, err := open(t, fakeimap.Step{Expect: "FETCH", Reply: "{tag} NO [LIMIT] x\r\n"}).UIDs(t.Context(), 1, 2)
		wantEnded(t, err, imapsrc.KindLimit, false)
	})
}

// wantEnded checks the kind of an error, and whether it says that the connection is over.
func wantEnded(t *testing.T, err error, kind imapsrc.Kind, ended bool) {
	t.Helper()
	var e *imapsrc.Error
	if !errors.As(err, &e) || e.Kind != kind || e.Ended != ended {
		t.Errorf("the error is %+v; want kind %s, ended: %v", err, kind, ended)
	}
}

// TestIdleDead: a connection that leads nowhere any more shows when IDLE ends.
func TestIdleDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { idleDead(t, idleBegins) })
}

// idleDead checks what Idle says of a server that begins IDLE and does not end it. It is for a
// bubble of testing/synctest.
func idleDead(t *testing.T, begins fakeimap.Step) {
	t.Helper()
	steps := slices.Concat(idling, []fakeimap.Step{begins, {Expect: "^DONE$"}, {Expect: "never"}})
	c := overPipe(t, impatient(t), fakeimap.Script(steps...))
	selectInbox(t, c)
	start := time.Now()
	_, err := c.Idle(t.Context(), time.Millisecond)
	wantTook(t, start, time.Millisecond+shortIdle)
	wantError(t, err, imapsrc.KindNetwork, "end IDLE in", "silent for 200ms")
}

// TestIdleStalls: a server that stops within a response, or within a literal, holds nobody up.
func TestIdleStalls(t *testing.T) {
	for _, begun := range []string{"* 4 EXI", "* 2 FETCH (X {9}\r\n"} {
		t.Run(begun, func(t *testing.T) {
			stalls := idleBegins
			stalls.Reply += begun
			synctest.Test(t, func(t *testing.T) { idleDead(t, stalls) })
		})
	}
}

// TestIdleRefused: a server that offers IDLE and does not know it is polled.
func TestIdleRefused(t *testing.T) {
	c := openIdling(t, fakeimap.Step{Expect: "IDLE$", Reply: "{tag} BAD what?\r\n"}, logout)
	wantIdle(t, c, time.Hour, false)
	if c.Idles() {
		t.Error("a server refused IDLE: Idles is true")
	}
}

// TestIdleEndedByServer: a server that ends IDLE itself is polled from then on.
func TestIdleEndedByServer(t *testing.T) {
	for answer, works := range map[string]bool{"OK timeout": true, "NO no more": false} {
		t.Run(answer, func(t *testing.T) {
			ends := idleBegins
			ends.Reply += "{tag} " + answer + "\r\n"
			c := openIdling(t, ends, logout)
			arrived, err := c.Idle(t.Context(), time.Hour)
			if arrived || works != (err == nil) || c.Idles() {
				t.Errorf("Idle = %v, %v, and Idles is %v; want no arrival, success: %v, and no more IDLE",
					arrived, err, c.Idles(), works)
			}
		})
	}
}

// TestPoll: NOOP tells of the open folder, STATUS of the others. One that the server does not open,
// or does not tell about under its name, is left out.
func TestPoll(t *testing.T) {
	const numbers = " (MESSAGES 2 UIDNEXT 9 UIDVALIDITY 5)\r\n{tag} OK done\r\n"
	c := open(t,
		fakeimap.Step{Expect: "NOOP$", Reply: "* 4 EXISTS\r\n{tag} OK done\r\n"},
		fakeimap.Step{Expect: "STATUS \"?Junk", Reply: "* STATUS Junk" + numbers},
		fakeimap.Step{Expect: "STATUS \"?Gone", Reply: "{tag} NO gone\r\n"},
		fakeimap.Step{Expect: "STATUS \"?Spam", Reply: "* STATUS INBOX/Spam" + numbers})
	arrived, state, err := c.Poll(t.Context(), []string{"Junk", "Gone", "Spam"})
	want := []imapsrc.Folder{{Name: "Junk", UIDValidity: 5, UIDNext: 9, Messages: 2}}
	if !arrived || err != nil || !slices.Equal(state, want) {
		t.Errorf("Poll = %v, %v, %v; want true, %v and no error", arrived, state, err, want)
	}
}

// TestIdleDovecot: a real server reports what arrives while IDLE runs.
func TestIdleDovecot(t *testing.T) {
	s, cfg := dovecotConfig(t)
	c := dial(t, cfg)
	selectInbox(t, c)
	waited := make(chan error, 1)
	go func() {
		arrived, err := c.Idle(t.Context(), time.Minute)
		if err == nil && !arrived {
			err = errors.New("waited in vain")
		}
		waited <- err
	}()
	s.Append(t, "ann", "INBOX", mail(1))
	if err := <-waited; err != nil {
		t.Error(err)
	}
}
