package imapsrc_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/message"
	"postrider/internal/testserver/fakeimap"
)

// flooding returns an account on a server that answers the command after EXAMINE with start, then
// with part without end.
func flooding(t *testing.T, start, part string) *imapsrc.Conn {
	t.Helper()
	c := dial(t, fakeConfig(t, flood(start, part)))
	selectInbox(t, c)
	return c
}

func flood(start, part string) func(c *fakeimap.Conn) {
	part = strings.Repeat(part, 64<<10/len(part)+1)
	return func(c *fakeimap.Conn) {
		c.Send(greeting.Reply)
		for _, reply := range []string{loggedIn.Reply, examined.Reply, start} {
			c.ReadLine()
			c.Send(reply)
		}
		for _, err := io.WriteString(c, part); err == nil; _, err = io.WriteString(c, part) {
			continue
		}
	}
}

// TestNesting: the library calls itself for each parenthesis, and a stack that overflows ends the
// process.
func TestNesting(t *testing.T) {
	fetch := func(c *imapsrc.Conn) error { return bodiesOf1(t.Context(), c) }
	search := func(c *imapsrc.Conn) error { _, err := c.Since(t.Context(), 1, 9, time.Unix(0, 0)); return err }
	list := func(c *imapsrc.Conn) error { _, err := c.Folders(t.Context()); return err }
	for name, tc := range map[string]struct {
		start, part, says string
		call              func(c *imapsrc.Conn) error
	}{
		"BODYSTRUCTURE": {"* 1 FETCH (BODYSTRUCTURE ", "(", "more than 100 deep", fetch},
		"in a search":   {"* 1 FETCH (UID 1 BODYSTRUCTURE ", "(", "more than 100 deep", search},
		"in a list":     {"* 1 FETCH (BODY ", "(", "more than 100 deep", list},
		"of messages": {
			"* 1 FETCH (BODY ", `("message" "rfc822" NIL NIL NIL "7bit" 1 (NIL NIL NIL NIL NIL NIL NIL NIL NIL NIL) `,
			"deep", fetch,
		},
		"a thread":        {"* THREAD ", "(1 ", "more than 100 deep", search},
		"after text":      {"* OK \"{10}\r\n* 1 FETCH (BODY ", "(", "more than 100 deep", list},
		"after a literal": {"* LIST () \"/\" {6}\r\n\"\"\" (\"\r\n* 1 FETCH (BODY ", "(", "more than 100 deep", list},
	} {
		t.Run(name, func(t *testing.T) {
			c := flooding(t, tc.start, tc.part)
			wantError(t, tc.call(c), imapsrc.KindProtocol, tc.says)
		})
	}
}

// TestNestingIsAllowed up to what real messages have.
func TestNestingIsAllowed(t *testing.T) {
	part := `"text" "plain" NIL NIL NIL "7bit" 1 1`
	parts := strings.Repeat("(", 90) + part + strings.Repeat(`) "mixed"`, 89) + ")"
	c := open(t, fakeimap.Step{Expect: "FETCH", Reply: fetched(1, 1, "BODYSTRUCTURE "+parts+" "+body("a")) + tagOK})
	if got, _, err := collect(t, c, []uint32{1}); err != nil || got[1] != "a" {
		t.Errorf("Bodies = %v, %v; want the message: the server may describe 90 levels of parts", got, err)
	}
}

// TestAmbiguousAnswers are refused: the library would read them in another way than the guard.
func TestAmbiguousAnswers(t *testing.T) {
	for name, answer := range map[string]string{
		"a line end in a response code": "* OK [X a\n* 1 FETCH (UID 1 BODY[] {9}\r\n",
		"a line end in a string":        "* LIST () \"a\r\nb\" c\r\n",
		"a line end after a backslash":  "* LIST () \"a\\\r\nb\" c\r\n",
		"a line end in a list":          "* NAMESPACE ((\r\n* LIST () \"/\" c\r\n",
		"no length":                     "* LIST () {}\r\nx\r\n",
		"a length that is none":         "* LIST () {5+}\r\nxxxxx\r\n",
		"a length without end":          "* LIST () {99999999999999999999999}\r\nxxxxx\r\n",
		"text after a length":           "* LIST () {1}x\r\nx\r\n",
		"one ) too many":                "* NAMESPACE ()) x\r\n",
		"no type":                       "*  (\r\n",
		"a list of capabilities":        "* CAPABILITY (\"x\")\r\n",
		"another":                       "* 1 enabled(x)\r\n",
		"a list of them in a code":      "* OK [CAPABILITY (x)] x\r\n",
		"a list in lower case":          "* OK [capability (x)] x\r\n",
		"a list of them in a tagged OK": "{tag} OK [CAPABILITY(x)] x\r\n",
		"a type that is not ASCII":      "* CAPAB\u0131LITY (x)\r\n",
		"a type without end":            "* " + strings.Repeat("x", 100) + "\r\n",
		"a literal among flags":         "* FLAGS ({5}\r\nxxxxx)\r\n",
		"and among those of a message":  "* 1 FETCH (UID 1 FLAGS ({5}\r\nxxxxx))\r\n",
		"a number without end":          "* " + strings.Repeat("0", 100) + "1 OK x\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t, fakeimap.Step{Expect: "LIST", Reply: answer})
			_, err := c.Folders(t.Context())
			wantError(t, err, imapsrc.KindProtocol, "is not IMAP")
		})
	}
}

// TestAnnouncedSize: a body of 20 GiB whose RFC822.SIZE is 80 is not read.
func TestAnnouncedSize(t *testing.T) {
	const literal = "BODY[] {21474836480}\r\n"
	for name, tc := range map[string]struct {
		uids  []uint32
		start string
		known bool // which message it is
	}{
		"one":              {[]uint32{1}, "* 1 FETCH (UID 1 RFC822.SIZE 80 " + literal, true},
		"one of three":     {[]uint32{1, 2, 3}, "* 1 FETCH (UID 1 RFC822.SIZE 80 " + literal, true},
		"no UID, one":      {[]uint32{1}, "* 1 FETCH (RFC822.SIZE 80 " + literal, true},
		"no UID, of three": {[]uint32{1, 2, 3}, "* 1 FETCH (RFC822.SIZE 80 " + literal, false},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := fakeConfig(t, flood(tc.start, "a"))
			cfg.MaxSize = 1 << 20
			cfg.Spooler = &message.Spooler{Dir: "/nowhere/at/all"} // nothing can be spooled
			c := dial(t, cfg)
			selectInbox(t, c)
			got, result, err := collect(t, c, tc.uids)
			wantError(t, err, imapsrc.KindProtocol, "announces a body of 21474836480 octets", "has 1048576")
			var large *imapsrc.TooLargeError
			if tc.known != errors.As(result.Failed[1], &large) || tc.known && large.Size != 20<<30 || len(got) > 0 {
				t.Errorf("Bodies = %v, %+v; want message 1 in Failed as too large: %v", got, result, tc.known)
			}
		})
	}
}

// TestWrongLength: a message that has another length than the server announced before it is not
// taken for a whole one.
func TestWrongLength(t *testing.T) {
	const text = "Subject: a\r\n\r\none\r\ntwo (2) three\r\n"
	const other = 40 // octets of the response after it
	for wrong := -len(text); wrong <= other; wrong++ {
		if wrong == 0 {
			continue
		}
		t.Run(fmt.Sprint(wrong), func(t *testing.T) {
			announced := fmt.Sprintf("BODY[] {%d}\r\n", len(text)+wrong)
			reply := fetched(1, 1, announced+text) + fetched(2, 2, body("b")) + tagOK
			c := open(t, fakeimap.Step{Expect: "FETCH", Reply: reply})
			got, result, err := collect(t, c, []uint32{1, 2})
			wantError(t, err, imapsrc.KindProtocol)
			if len(got) > 0 || len(result.Vanished) > 0 {
				t.Errorf("Bodies = %v, %+v; want no message", got, result)
			}
		})
	}
}

// TestHeaderOfAnnouncedSize: a header of 1 MiB is read however small the largest body is.
func TestHeaderOfAnnouncedSize(t *testing.T) {
	const size = 1 << 20
	header := "Subject: a\r\nX: " + strings.Repeat("x", size-20) + "\r\n\r\n"
	for n, wantErr := range map[int]bool{len(header): false, 2 * size: true} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			cfg := fake(t, greeting, loggedIn, examined, fakeimap.Step{
				Expect: "FETCH",
				Reply:  fmt.Sprintf("* 1 FETCH (UID 1 BODY[HEADER]<0> {%d}\r\n", n) + header + ")\r\n" + tagOK,
			}, logout)
			cfg.MaxSize = 10
			c := dial(t, cfg)
			selectInbox(t, c)
			_, err := c.Headers(t.Context(), []uint32{1}, func(_ uint32, m *message.Message) error { return m.Close() })
			if (err != nil) != wantErr {
				t.Errorf("a header of %d octets: %v; want an error: %v", n, err, wantErr)
			}
		})
	}
}

// TestUnwanted: a server that sends more than was asked for does not fill the disk, and does not
// take for ever.
func TestUnwanted(t *testing.T) {
	const big, notAsked = 100 << 10, "messages that were not asked for"
	huge := fmt.Sprintf("BODY[] {%d}\r\n%s", big, strings.Repeat("a", big))
	for name, tc := range map[string]struct{ part, says string }{
		"other messages":         {fetched(2, 2, body("b")), notAsked},
		"large other messages":   {fetched(2, 2, huge), "a literal where none was asked for"},
		"messages without a UID": {"* 2 FETCH (" + body("b") + ")\r\n", notAsked},
		"the same message":       {fetched(1, 1, huge), "a literal where none was asked for"},
		"flags":                  {"* 1 FETCH (FLAGS ())\r\n", notAsked},
		"flags of the message":   {"* 1 FETCH (UID 1 FLAGS ())\r\n", notAsked},
		"counts":                 {"* 3 EXISTS\r\n", endless},
		"capabilities":           {"* CAPABILITY IMAP4rev1\r\n", endless},
	} {
		t.Run(name, func(t *testing.T) {
			c := flooding(t, "", tc.part)
			grown := watchHeap(t)
			wantError(t, bodiesOf1(t.Context(), c), imapsrc.KindProtocol, tc.says)
			if n := grown(); n > 64<<20 {
				t.Errorf("the heap grew by %d octets; want less than 64 MiB", n)
			}
		})
	}
}

// TestBeforeLogin: at most 64 KiB are read in answer to a command until the login is done.
func TestBeforeLogin(t *testing.T) {
	endlessly := strings.Repeat("* OK hello\r\n", 64<<10)
	for name, steps := range map[string][]fakeimap.Step{
		"greeting": {{Reply: "* OK " + strings.Repeat("x", 1<<20)}},
		"capabilities": {
			{Reply: "* OK hi\r\n"},
			{Expect: "CAPABILITY", Reply: "* CAPABILITY" + strings.Repeat(" x", 1<<20)},
		},
		"login": {greeting, {Expect: "LOGIN", Reply: endlessly}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := fake(t, steps...)
			cfg.ClientName = "postrider"
			_, err := imapsrc.Dial(t.Context(), cfg)
			wantError(t, err, imapsrc.KindProtocol, endless)
		})
	}
}

// TestIDWithoutEnd: what the server sends in answer to ID counts for the command that ID goes out
// with.
func TestIDWithoutEnd(t *testing.T) {
	for name, reply := range map[string]string{
		"one response": "* ID (\"name\" \"" + strings.Repeat("x", 1<<20),
		"many":         strings.Repeat("* ID (\"name\" \"x\")\r\n", 1<<16),
	} {
		t.Run(name, func(t *testing.T) {
			cfg := fake(t, greeting, loggedInWithID, fakeimap.Step{Expect: "ID", Reply: reply})
			cfg.ClientName = "postrider"
			_, err := dial(t, cfg).Select(t.Context(), "INBOX")
			wantError(t, err, imapsrc.KindProtocol, endless)
		})
	}
}

// TestManyUIDs: the answer to a search is read in linear time, in whatever order the UIDs come.
func TestManyUIDs(t *testing.T) {
	var down strings.Builder
	const many = 300_000
	for uid := 2 * many; uid > 0; uid -= 2 {
		fmt.Fprintf(&down, " %d", uid)
	}
	set := strings.ReplaceAll(down.String()[1:], " ", ",")
	for name, reply := range map[string]string{
		"SEARCH":  "* SEARCH" + down.String() + "\r\n" + tagOK,
		"ESEARCH": "* ESEARCH (TAG \"{tag}\") UID ALL " + set + "\r\n" + tagOK,
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t, fakeimap.Step{Expect: "SEARCH", Reply: reply})
			start := time.Now()
			uids, err := c.Since(t.Context(), 1, 1<<32-1, time.Unix(0, 0))
			if err != nil || len(uids) != many || uids[0] != 2 {
				t.Fatalf("Since = %d UIDs, %v; want %d", len(uids), err, many)
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("Since took %v for %d UIDs; want a fraction of a second", took, many)
			}
		})
	}
}

// TestSearchAnswers that no server should give.
func TestSearchAnswers(t *testing.T) {
	for name, tc := range map[string]struct{ reply, says string }{
		"all numbers":    {"* ESEARCH UID ALL 1:4294967295\r\n" + tagOK, "more than 8388608 messages"},
		"words":          {"* SEARCH one two\r\n" + tagOK, "not a list of numbers"},
		"large numbers":  {"* SEARCH 4294967296\r\n" + tagOK, "not a list of numbers"},
		"a dynamic set":  {"* ESEARCH UID ALL 1:*\r\n" + tagOK, "not a list of numbers"},
		"a list":         {"* SEARCH 1 (2\r\n" + tagOK, "not a list of numbers"},
		"a range in two": {"* ESEARCH UID ALL 1:2:3\r\n" + tagOK, "not a list of numbers"},
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t, fakeimap.Step{Expect: "SEARCH", Reply: tc.reply})
			_, err := c.Since(t.Context(), 1, 1<<32-1, time.Unix(0, 0))
			wantError(t, err, imapsrc.KindProtocol, tc.says)
		})
	}
}

// TestManyFolders: the list is bounded, and names that cannot be opened are left out.
func TestManyFolders(t *testing.T) {
	long := "* LIST () \"/\" " + strings.Repeat("x", 2000) + "\r\n* LIST () \"/\" a\r\n" + tagOK
	c := open(t, fakeimap.Step{Expect: "LIST", Reply: long}, fakeimap.Step{
		Expect: "LIST", Reply: strings.Repeat("* LIST () NIL a\r\n", 100_001) + tagOK,
	})
	if names, err := c.Folders(t.Context()); err != nil || len(names) != 1 || names[0] != "a" {
		t.Errorf("Folders = %.100q, %v; want a alone", names, err)
	}
	_, err := c.Folders(t.Context())
	wantError(t, err, imapsrc.KindProtocol, "lists more than 100000 folders")
}

// TestTrickle: one octet at a time is not progress.
func TestTrickle(t *testing.T) {
	for name, start := range map[string]string{
		"a line": "* OK ", "a body": "* 1 FETCH (UID 1 BODY[] {1000000}\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := overPipe(t, impatient(t), func(c *fakeimap.Conn) {
					c.Send(greeting.Reply)
					for _, reply := range []string{loggedIn.Reply, examined.Reply, start} {
						c.ReadLine()
						c.Send(reply)
					}
					for _, err := io.WriteString(c, "x"); err == nil; _, err = io.WriteString(c, "x") {
						time.Sleep(shortIdle / 20)
					}
				})
				selectInbox(t, c)
				start := time.Now()
				err := bodiesOf1(t.Context(), c)
				if took := time.Since(start); took < 5*shortIdle || took > 6*shortIdle { // a body has a bit more time
					t.Errorf("Bodies took %v; want about %v", took, 5*shortIdle)
				}
				wantError(t, err, imapsrc.KindNetwork, "the server took longer than 1s for its answer")
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("the error is %v; want os.ErrDeadlineExceeded in it", err)
				}
			})
		})
	}
}
