package imapsrc_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/message"
	"postrider/internal/testserver/fakeimap"
)

// body is the part of a FETCH response that carries a message.
func body(subject string) string {
	text := "Subject: " + subject + "\r\n\r\nx\r\n"
	return fmt.Sprintf("BODY[] {%d}\r\n%s", len(text), text)
}

func fetched(seq, uid int, items string) string {
	return fmt.Sprintf("* %d FETCH (UID %d %s)\r\n", seq, uid, items)
}

const tagOK = "{tag} OK done\r\n"

func fetch(set, reply string) fakeimap.Step {
	return fakeimap.Step{Expect: `UID FETCH ` + set + ` \(UID RFC822.SIZE BODY.PEEK\[\]\)$`, Reply: reply}
}

func search(uid, reply string) fakeimap.Step {
	return fakeimap.Step{Expect: `UID SEARCH .*UID ` + uid + `$`, Reply: reply}
}

func TestBodies(t *testing.T) {
	for name, tc := range map[string]struct {
		steps    []fakeimap.Step
		got      map[uint32]string
		vanished []uint32
		failed   map[uint32]string // a part of the error's text
	}{
		"all come": {
			steps: []fakeimap.Step{fetch("1:3",
				fetched(1, 1, body("a"))+fetched(2, 2, body("b"))+fetched(3, 3, body("c"))+tagOK)},
			got: map[uint32]string{1: "a", 2: "b", 3: "c"},
		},
		"out of order, with others that were not requested": {
			steps: []fakeimap.Step{fetch("1:3",
				fetched(9, 9, body("z"))+fetched(3, 3, body("c"))+"* 7 EXISTS\r\n"+fetched(1, 1, body("a"))+
					fetched(2, 2, body("b"))+fetched(1, 1, body("again"))+"* 1 EXPUNGE\r\n"+tagOK)},
			got: map[uint32]string{1: "a", 2: "b", 3: "c"},
		},
		"UID after the body": {
			steps: []fakeimap.Step{fetch("1:3",
				"* 1 FETCH ("+body("a")+" UID 1)\r\n* 2 FETCH (RFC822.SIZE 9 "+body("b")+" UID 2)\r\n"+
					fetched(3, 3, body("c"))+tagOK)},
			got: map[uint32]string{1: "a", 2: "b", 3: "c"},
		},
		"flags come first": {
			steps: []fakeimap.Step{fetch("1:3",
				fetched(1, 1, `FLAGS (\Seen)`)+fetched(1, 1, body("a"))+fetched(2, 2, `FLAGS ()`)+
					fetched(2, 2, body("b"))+fetched(3, 3, body("c"))+tagOK)},
			got: map[uint32]string{1: "a", 2: "b", 3: "c"},
		},
		"one comes when it is asked for alone": {
			steps: []fakeimap.Step{
				fetch("1:3", fetched(1, 1, body("a"))+fetched(3, 3, body("c"))+tagOK),
				fetch("2", fetched(2, 2, body("b"))+tagOK),
			},
			got: map[uint32]string{1: "a", 2: "b", 3: "c"},
		},
		"one has vanished": {
			steps: []fakeimap.Step{
				fetch("1:3", fetched(1, 1, body("a"))+fetched(3, 3, body("c"))+tagOK),
				fetch("2", tagOK),
			},
			got:      map[uint32]string{1: "a", 3: "c"},
			vanished: []uint32{2},
		},
		"only flags, again and again": {
			steps: []fakeimap.Step{fetch("1:3",
				fetched(1, 1, body("a"))+fetched(2, 2, `FLAGS ()`)+fetched(3, 3, body("c"))+tagOK), fetch("2", tagOK)},
			got:    map[uint32]string{1: "a", 3: "c"},
			failed: map[uint32]string{2: "without its body"},
		},
		"NO for one": {
			steps: []fakeimap.Step{
				fetch("1:3", fetched(1, 1, body("a"))+"{tag} NO [SERVERBUG] cannot\r\n"),
				fetch("2", "{tag} NO [SERVERBUG] cannot\r\n"), fetch("3", fetched(3, 3, body("c"))+tagOK),
			},
			got:    map[uint32]string{1: "a", 3: "c"},
			failed: map[uint32]string{2: `fetch from folder "INBOX": NO [SERVERBUG] cannot`},
		},
		"BAD for one": {
			steps: []fakeimap.Step{
				fetch("1:3", "{tag} BAD no\r\n"), fetch("1", fetched(1, 1, body("a"))+tagOK),
				fetch("2", "{tag} BAD no\r\n"),
				fetch("3", tagOK),
			},
			got:      map[uint32]string{1: "a"},
			vanished: []uint32{3},
			failed:   map[uint32]string{2: "BAD no"},
		},
		"limit, in use and too many for one each": {
			steps: []fakeimap.Step{
				fetch("1:3", "{tag} NO [LIMIT] too large\r\n"),
				fetch("1", "{tag} NO [LIMIT] too large\r\n"), search("1", "* SEARCH 1\r\n"+tagOK),
				fetch("2", "{tag} NO [INUSE] locked\r\n"), search("2", "* SEARCH\r\n"+tagOK),
				fetch("3", "{tag} NO it has too many parts\r\n"),
			},
			failed: map[uint32]string{
				1: `fetch from folder "INBOX": NO [LIMIT] too large`, 2: "NO [INUSE] locked",
				3: "NO it has too many parts",
			},
		},
		"limit for one, and the others come": {
			steps: []fakeimap.Step{
				fetch("1:3", fetched(1, 1, body("a"))+"{tag} NO [LIMIT] too large\r\n"),
				fetch("2", "{tag} NO [LIMIT] too large\r\n"), search("2", tagOK),
				fetch("3", fetched(3, 3, body("c"))+tagOK),
			},
			got:    map[uint32]string{1: "a", 3: "c"},
			failed: map[uint32]string{2: "NO [LIMIT] too large"},
		},
		"NIL, empty and quoted": {
			steps: []fakeimap.Step{fetch("1:3",
				fetched(1, 1, "BODY[] NIL")+fetched(2, 2, "BODY[] {0}\r\n")+fetched(3, 3, `BODY[] "Subject: c"`)+
					tagOK)},
			got:    map[uint32]string{3: "c"},
			failed: map[uint32]string{1: "empty message", 2: "empty message"},
		},
		"empty, and the UID after it": {
			steps: []fakeimap.Step{fetch("1:3",
				"* 1 FETCH (BODY[] \"\" UID 1)\r\n"+fetched(2, 2, body("b"))+fetched(3, 3, body("c"))+tagOK)},
			got:    map[uint32]string{2: "b", 3: "c"},
			failed: map[uint32]string{1: "empty message"},
		},
		"a part is not the message": {
			steps: []fakeimap.Step{fetch("1:3",
				fetched(1, 1, "BODY[HEADER] {3}\r\nX\r\n "+body("a"))+fetched(2, 2, "BODY[1] {1}\r\nx "+body("b"))+
					fetched(3, 3, "BODY[]<0> {1}\r\nx "+body("c"))+tagOK)},
			got: map[uint32]string{1: "a", 2: "b", 3: "c"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t, tc.steps...)
			got, result, err := collect(t, c, []uint32{3, 1, 2, 3})
			if err != nil {
				t.Fatalf("Bodies: %v; want no error", err)
			}
			if !maps.Equal(got, tc.got) {
				t.Errorf("each got %v; want %v", got, tc.got)
			}
			if !slices.Equal(result.Vanished, tc.vanished) {
				t.Errorf("Vanished = %v; want %v", result.Vanished, tc.vanished)
			}
			if len(result.Failed) != len(tc.failed) {
				t.Errorf("Failed = %v; want %v", result.Failed, tc.failed)
			}
			for uid, says := range tc.failed {
				if result.Failed[uid] == nil || !strings.Contains(result.Failed[uid].Error(), says) {
					t.Errorf("Failed[%d] = %v; want %q", uid, result.Failed[uid], says)
				}
			}
		})
	}
}

func TestBodiesEndWithoutTheRest(t *testing.T) {
	for name, tc := range map[string]struct {
		steps []fakeimap.Step
		kind  imapsrc.Kind
		says  string
		uid   uint32
	}{
		"hangs up in a literal": {
			[]fakeimap.Step{{Reply: "* 2 FETCH (UID 2 BODY[] {100}\r\nSubj", Close: true}},
			imapsrc.KindNetwork, "closed the connection", 2,
		},
		"hangs up in a literal before its UID": {
			[]fakeimap.Step{{Reply: "* 2 FETCH (BODY[] {100}\r\nSubj", Close: true}},
			imapsrc.KindNetwork,
			"closed the connection", 0,
		},
		"hangs up between two": {
			[]fakeimap.Step{{Close: true}},
			imapsrc.KindNetwork,
			"closed the connection", 0,
		},
		"hangs up before the tagged OK": {
			[]fakeimap.Step{{Reply: fetched(2, 2, body("b")) + fetched(3, 3, body("c")), Close: true}},
			imapsrc.KindNetwork, "closed", 0,
		},
		"hangs up when asked again": {
			[]fakeimap.Step{{Reply: fetched(3, 3, body("c")) + tagOK}, {Expect: "FETCH 2 ", Close: true}},
			imapsrc.KindNetwork, "closed", 2,
		},
		"is throttled": {
			[]fakeimap.Step{{Reply: "{tag} NO [THROTTLED] slow down\r\n"}},
			imapsrc.KindLimit,
			"slow down", 0,
		},
		"is over a limit": {
			[]fakeimap.Step{{Reply: "{tag} NO [LIMIT] Rate limit hit\r\n"}},
			imapsrc.KindLimit,
			"Rate limit", 0,
		},
		"is over its traffic": {
			[]fakeimap.Step{{Reply: "{tag} NO [OVERQUOTA] Bandwidth exceeded\r\n"}},
			imapsrc.KindLimit, "Bandwidth", 0,
		},
		"says nonsense": {
			[]fakeimap.Step{{Reply: "* 2 FETCH (UID 2 SESAME sesame)\r\n"}},
			imapsrc.KindProtocol, "unsupported msg-att name", 0,
		},
		"says other nonsense": {
			[]fakeimap.Step{{Reply: "* WHATEVER \x1b[31m\r\n"}},
			imapsrc.KindProtocol,
			"WHATEVER", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			first := fakeimap.Step{Expect: "UID FETCH 1:3", Reply: fetched(1, 1, body("a"))}
			c := open(t, append([]fakeimap.Step{first}, tc.steps...)...)
			got, result, err := collect(t, c, []uint32{1, 2, 3})
			wantError(t, err, tc.kind, `fetch from folder "INBOX": `, tc.says)
			var e *imapsrc.Error
			if errors.As(err, &e); e.UID != tc.uid {
				t.Errorf("the error's UID = %d; want %d", e.UID, tc.uid)
			}
			if got[1] != "a" || len(result.Vanished) != 0 || len(result.Failed) != 0 {
				t.Errorf("Bodies = %v, %+v; want the first message, and nothing in Result about the others",
					got, result)
			}
		})
	}
}

func TestBodiesEndWhenMoreThanTheMessageIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		no   string // to the search; the fetch is refused with it as well
		kind imapsrc.Kind
	}{
		"limit":  {"NO [LIMIT] enough", imapsrc.KindLimit},
		"in use": {"NO [INUSE] locked", imapsrc.KindInUse},
	} {
		t.Run(name, func(t *testing.T) {
			no := "{tag} " + tc.no + "\r\n"
			c := open(t, fetch("1:2", no), fetch("1", no), search("1", no))
			got, result, err := collect(t, c, []uint32{1, 2})
			wantError(t, err, tc.kind, `search folder "INBOX": `+tc.no)
			if len(got)+len(result.Vanished)+len(result.Failed) != 0 {
				t.Errorf("Bodies = %v, %+v; want no message to be Failed or Vanished", got, result)
			}
		})
	}
}

func TestBackOffOfAFetch(t *testing.T) {
	c := open(t, fetch("1", "{tag} NO Suggested Backoff Time: 3000 milliseconds\r\n"))
	_, _, err := collect(t, c, []uint32{1})
	wantError(t, err, imapsrc.KindLimit, "Suggested Backoff Time")
	var e *imapsrc.Error
	if errors.As(err, &e); e.BackOff != 3*time.Second {
		t.Errorf("BackOff = %v; want the 3s that the server asks for", e.BackOff)
	}
}

func TestEachEndsTheCall(t *testing.T) {
	ours := errors.New("ours")
	for name, tail := range map[string]string{
		"last":                    tagOK,
		"another after":           fetched(2, 2, body("b")) + fetched(3, 3, body("c")) + tagOK,
		"a half one":              "* 2 FETCH (UID 2 BODY[] {100}\r\nSubj",
		"an unilateral one after": "* 2 FETCH (" + body("b") + " UID 2)\r\n" + tagOK,
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t, fetch("1:3", fetched(1, 1, body("a"))+tail))
			calls := 0
			_, err := c.Bodies(t.Context(), []uint32{1, 2, 3}, func(_ uint32, m *message.Message) error {
				calls++
				_ = m.Close()
				return ours
			})
			if !errors.Is(err, ours) || err.Error() != "ours" || calls != 1 {
				t.Errorf("Bodies = %v after %d calls; want the caller's own error after one", err, calls)
			}
			_, err = c.UIDs(t.Context(), 1, 2)
			wantError(t, err, imapsrc.KindNetwork, "list the messages")
		})
	}
}

func TestSpoolFails(t *testing.T) {
	for name, reply := range map[string]string{
		"in a literal":       fetched(1, 1, body("a")) + fetched(2, 2, body("b")) + tagOK,
		"in unilateral data": "* 1 FETCH (" + body("a") + " UID 1)\r\n" + fetched(2, 2, body("b")) + tagOK,
		"with more to come":  "* 1 FETCH (UID 1 BODY[] {1000000}\r\n" + strings.Repeat("x\r\n", 20000),
	} {
		t.Run(name, func(t *testing.T) {
			cfg := fake(t, greeting, loggedIn, examined, fetch("1:2", reply))
			cfg.Spooler = &message.Spooler{Dir: "/nowhere/at/all"}
			c := dial(t, cfg)
			selectInbox(t, c)
			got, result, err := collect(t, c, []uint32{1, 2})
			wantError(t, err, imapsrc.KindLocal, `fetch from folder "INBOX": spool a message`)
			if len(got)+len(result.Failed)+len(result.Vanished) != 0 {
				t.Errorf("Bodies = %v, %+v; want nothing settled", got, result)
			}
		})
	}
}

func TestCommandsStayShort(t *testing.T) {
	var uids []uint32
	for uid := uint32(4000000000); len(uids) < 500; uid += 2 {
		uids = append(uids, uid)
	}
	cfg := fakeConfig(t, func(c *fakeimap.Conn) {
		for _, step := range []fakeimap.Step{greeting, loggedIn, examined} {
			if step.Expect != "" {
				c.ReadLine()
			}
			c.Send(step.Reply)
		}
		for line, ok := c.ReadLine(); ok; line, ok = c.ReadLine() {
			if len(line) >= 1000 {
				c.T.Errorf("a command of %d octets; want fewer than 1000", len(line))
			}
			var reply strings.Builder
			if words := strings.Fields(line); len(words) > 3 && words[2] == "FETCH" {
				for uid := range strings.SplitSeq(words[3], ",") {
					reply.WriteString("* 1 FETCH (UID " + uid + " RFC822.SIZE 1)\r\n")
				}
			}
			c.Send(reply.String() + tagOK)
		}
	})
	c := dial(t, cfg)
	selectInbox(t, c)
	metas, err := c.Metadata(t.Context(), uids)
	if err != nil || len(metas) != len(uids) {
		t.Errorf("Metadata = %d, %v; want %d", len(metas), err, len(uids))
	}
}
