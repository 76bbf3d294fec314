package imapsrc_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/message"
	"postrider/internal/testserver"
	"postrider/internal/testserver/fakeimap"
)

func TestSilenceEndsTheConnection(t *testing.T) {
	for name, reply := range map[string]string{
		"at once":          "",
		"in a line":        "* 2 FET",
		"in a literal":     "* 2 FETCH (UID 2 BODY[] {100}\r\nSubj",
		"before tagged OK": fetched(2, 2, body("b")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := openImpatient(t, fakeimap.Step{Expect: "FETCH", Reply: reply})
				start := time.Now()
				_, result, err := collect(t, c, []uint32{2})
				wantTook(t, start, shortIdle)
				wantError(t, err, imapsrc.KindNetwork, "the server was silent for 200ms")
				if len(result.Vanished)+len(result.Failed) != 0 {
					t.Errorf("Bodies = %+v; want nothing settled", result)
				}
			})
		})
	}
}

func TestSilentLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := fakeimap.Pipe(t, fakeimap.Script(greeting, fakeimap.Step{Expect: "LOGIN"}))
		start := time.Now()
		_, err := imapsrc.DialOver(t.Context(), server, impatient(t))
		wantTook(t, start, shortIdle)
		wantError(t, err, imapsrc.KindNetwork, "log in as ann: the server was silent for 200ms")
	})
}

func TestCloseDoesNotHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openImpatient(t) // the server never answers LOGOUT
		start := time.Now()
		if err := c.Close(); err != nil || time.Since(start) > 2*time.Second {
			t.Errorf("Close = %v after %v; want nil, after IdleTimeout", err, time.Since(start))
		}
		if err := c.Close(); err != nil {
			t.Errorf("second Close = %v; want nil", err)
		}
		_, err := c.UIDs(t.Context(), 1, 2)
		wantError(t, err, imapsrc.KindNetwork, "list the messages")
	})
}

// IdleTimeout counts only while the client waits for the server, not between two calls and not
// while the callback works.
func TestIdleTimeoutExcludesTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openImpatient(t,
			fetch("1:2", fetched(1, 1, body("a"))+fetched(2, 2, body("b"))+tagOK),
			fakeimap.Step{Expect: "UID FETCH", Reply: "* 1 FETCH (UID 1)\r\n{tag} OK\r\n"}, logout)
		longer := func() { time.Sleep(3 * shortIdle / 2) }
		longer()
		_, err := c.Bodies(t.Context(), []uint32{1, 2}, func(_ uint32, m *message.Message) error {
			longer()
			return m.Close()
		})
		if err != nil {
			t.Fatalf("Bodies = %v; want no error, however long the callback takes", err)
		}
		longer()
		if _, err := c.UIDs(t.Context(), 1, 2); err != nil {
			t.Errorf("UIDs = %v; want the connection to survive a pause", err)
		}
	})
}

func TestSlowServerIsNotSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := overPipe(t, impatient(t), func(c *fakeimap.Conn) {
			c.Send(greeting.Reply)
			for _, step := range []fakeimap.Step{loggedIn, examined} {
				c.ReadLine()
				c.Send(step.Reply)
			}
			c.ReadLine()
			for i := range 10 { // takes longer than IdleTimeout in all
				c.Send([]string{
					"* 1 FETCH (UID 1 BODY[] {9}\r\n", "S", "u", "b", "j", ":", "\r", "\n", "\r",
					"\n)\r\n{tag} OK\r\n",
				}[i])
				time.Sleep(shortIdle / 2)
			}
			c.ReadLine()
		})
		selectInbox(t, c)
		if got, _, err := collect(t, c, []uint32{1}); err != nil || len(got) != 1 {
			t.Errorf("Bodies = %v, %v; want the message, because the server was never silent for long", got, err)
		}
	})
}

func TestCancel(t *testing.T) {
	for name, tc := range map[string]struct {
		reply string
		call  func(ctx context.Context, c *imapsrc.Conn) error
	}{
		"a list": {
			"* 1 FETCH (UID ",
			func(ctx context.Context, c *imapsrc.Conn) error { _, err := c.UIDs(ctx, 1, 2); return err },
		},
		"a literal":       {"* 1 FETCH (UID 1 BODY[] {100}\r\nSubj", bodiesOf1},
		"unilateral data": {"* 1 FETCH (BODY[] {100}\r\nSubj", bodiesOf1},
		"metadata": {
			"* 1 FETCH (UID 1 ",
			func(ctx context.Context, c *imapsrc.Conn) error { _, err := c.Metadata(ctx, []uint32{1}); return err },
		},
		"a list of folders": {
			"* LIST ",
			func(ctx context.Context, c *imapsrc.Conn) error { _, err := c.Folders(ctx); return err },
		},
		"a select": {
			"* 1 EXISTS",
			func(ctx context.Context, c *imapsrc.Conn) error { _, err := c.Select(ctx, "x"); return err },
		},
	} {
		t.Run(name, func(t *testing.T) {
			replied := make(chan struct{})
			cfg := fakeConfig(t, func(c *fakeimap.Conn) {
				c.Send(greeting.Reply)
				for _, reply := range []string{loggedIn.Reply, examined.Reply, tc.reply} {
					c.ReadLine()
					c.Send(reply)
				}
				close(replied)
				c.ReadLine()
			})
			c := dial(t, cfg)
			selectInbox(t, c)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-replied
				cancel()
			}()
			err := tc.call(ctx, c)
			wantError(t, err, imapsrc.KindNetwork, "context canceled")
			if !isCanceled(err) {
				t.Errorf("error = %v; want context.Canceled in it", err)
			}
			if err := tc.call(t.Context(), c); err == nil || isCanceled(err) {
				t.Errorf("a call after that = %v; want an error, because the connection is closed", err)
			}
		})
	}
}

func bodiesOf1(ctx context.Context, c *imapsrc.Conn) error {
	_, err := c.Bodies(ctx, []uint32{1}, func(uint32, *message.Message) error { return nil })
	return err
}

func TestDeadlineOfTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openImpatient(t, fakeimap.Step{Expect: "FETCH"})
		ctx, cancel := context.WithTimeout(t.Context(), shortIdle/2)
		defer cancel()
		start := time.Now()
		_, err := c.UIDs(ctx, 1, 2)
		wantTook(t, start, shortIdle/2)
		wantError(t, err, imapsrc.KindNetwork, context.DeadlineExceeded.Error())
	})
}

// A line of a message that looks like a BYE is not one, and is never printed.
func TestMessageDataIsNoStatusResponse(t *testing.T) {
	c := open(t, fakeimap.Step{
		Expect: "FETCH",
		Reply:  "* 1 FETCH (UID 1 BODY[] {100}\r\nSubject: x\r\n\r\n* BYE sesame\r\n", Close: true,
	})
	_, _, err := collect(t, c, []uint32{1})
	wantError(t, err, imapsrc.KindNetwork, "closed the connection")
	if strings.Contains(err.Error(), "sesame") {
		t.Errorf("error = %q; want it without what the message says", err)
	}
}

const endless = "the server sends without end"

// A hostile server may send any amount of data; memory does not grow with it.
func TestMemoryIsBounded(t *testing.T) {
	const limit = 16 << 20
	flood := strings.Repeat("a", 64<<10)
	list := func(c *imapsrc.Conn) error { _, err := c.Folders(t.Context()); return err }
	fetch := func(c *imapsrc.Conn) error { return bodiesOf1(t.Context(), c) }
	for name, tc := range map[string]struct {
		start string
		call  func(c *imapsrc.Conn) error
		says  string
	}{
		"a line without end":           {"* OK ", fetch, endless},
		"a quoted string":              {`* 1 FETCH (UID 1 BODY[] "`, fetch, endless},
		"a literal where none belongs": {"* LIST () \"/\" {1000000000000}\r\n", list, "a literal where none"},
		"a literal of flags":           {"* 1 FETCH (UID 1 BODYSTRUCTURE ({65537}\r\n", fetch, "a literal where none"},
		"flags":                        {"* 1 FETCH (UID 1 FLAGS (", fetch, endless},
		"attributes of a folder":       {`* LIST (`, list, endless},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := fakeConfig(t, func(c *fakeimap.Conn) {
				c.Send(greeting.Reply)
				for _, reply := range []string{loggedIn.Reply, examined.Reply, tc.start} {
					c.ReadLine()
					c.Send(reply)
				}
				for _, err := io.WriteString(c, flood); err == nil; _, err = io.WriteString(c, flood) {
					continue
				}
			})
			c := dial(t, cfg)
			selectInbox(t, c)
			grown := watchHeap(t)
			err := tc.call(c)
			wantError(t, err, imapsrc.KindProtocol, tc.says)
			if n := grown(); n > limit {
				t.Errorf("the heap grew by %d octets; want less than %d", n, limit)
			}
		})
	}
}

func TestLiteralLargerThanAnnounced(t *testing.T) {
	const size = 30 << 20
	cfg := fakeConfig(t, func(c *fakeimap.Conn) {
		c.Send(greeting.Reply)
		for _, reply := range []string{
			loggedIn.Reply, examined.Reply,
			fmt.Sprintf("* 1 FETCH (UID 1 RFC822.SIZE 10 BODY[] {%d}\r\n", size),
		} {
			c.ReadLine()
			c.Send(reply)
		}
		line := strings.Repeat("a", 1022) + "\r\n"
		for range size / len(line) {
			c.Send(line)
		}
		c.Send(")\r\n" + tagOK)
		c.ReadLine()
	})
	c := dial(t, cfg)
	selectInbox(t, c)
	grown := watchHeap(t)
	var got int64
	_, err := c.Bodies(t.Context(), []uint32{1}, func(_ uint32, m *message.Message) error {
		got = m.Body.Size()
		return m.Close()
	})
	if err != nil || got != size {
		t.Errorf("Bodies = %d octets, %v; want all %d", got, err, size)
	}
	if n := grown(); n > size/2 {
		t.Errorf("the heap grew by %d octets; want less than half of the message", n)
	}
}

func TestDovecotIsCutInALiteral(t *testing.T) {
	s, cfg := dovecotConfig(t)
	s.Append(t, "ann", "INBOX", mail(1), append(mail(2), strings.Repeat("x\r\n", 1<<20)...), mail(3))
	for name, end := range map[string]testserver.End{"FIN": testserver.FIN, "RST": testserver.RST} {
		for _, security := range []string{
			imapsrc.SecurityNone, imapsrc.SecurityStartTLS,
			imapsrc.SecurityTLS,
		} {
			t.Run(name+"/"+string(security), func(t *testing.T) {
				port := s.Port
				if security == imapsrc.SecurityTLS {
					port = s.TLSPort
				}
				p := testserver.NewCutProxy(t, net.JoinHostPort(s.Host, fmt.Sprint(port)))
				cfg := cfg
				cfg.Security, cfg.Port = security, p.Port
				p.CutAfter(1<<20, end)
				c := dial(t, cfg)
				selectInbox(t, c)
				got, result, err := collect(t, c, []uint32{1, 2, 3})
				wantError(t, err, imapsrc.KindNetwork)
				if len(got) != 1 || len(result.Vanished)+len(result.Failed) != 0 {
					t.Errorf("Bodies = %v, %+v; want the first message and nothing else settled", got, result)
				}
				whole := dial(t, cfg)
				selectInbox(t, whole)
				if got, _, err := collect(t, whole, []uint32{1, 2, 3}); err != nil || len(got) != 3 {
					t.Errorf("Bodies on a new connection = %v, %v; want all three", got, err)
				}
			})
		}
	}
}
