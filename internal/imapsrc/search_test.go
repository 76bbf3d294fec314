package imapsrc_test

import (
	"fmt"
	"testing"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/testserver/fakeimap"
)

func TestSinceFails(t *testing.T) {
	c := open(t, fakeimap.Step{
		Expect: "SEARCH", Reply: "* ESEARCH (TAG \"{tag}\") UID ALL 1:4294967295\r\n{tag} OK\r\n",
	})
	_, err := c.Since(t.Context(), 1, 1<<32-1, time.Now())
	wantError(t, err, imapsrc.KindProtocol, `search folder "INBOX": `, "claims more than")
}

// TestFirstSince: the last message is looked at before a server is believed that finds none.
func TestFirstSince(t *testing.T) {
	for name, tc := range map[string]struct{ received, says string }{
		"all are older": {"31-Jan-2024 23:59:59 -1200", ""},
		"one was not found": {
			" 2-Feb-2024 12:00:01 +1200",
			"the server finds no message since 2024-02-01, but that with UID 17 arrived on 2024-02-02",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t,
				fakeimap.Step{Expect: "UID SEARCH SINCE", Reply: "* SEARCH\r\n" + tagOK},
				fakeimap.Step{Expect: `UID SEARCH UID \*$`, Reply: "* SEARCH 17\r\n" + tagOK},
				fakeimap.Step{
					Expect: "UID FETCH 17 ",
					Reply:  `* 3 FETCH (UID 17 RFC822.SIZE 500 INTERNALDATE "` + tc.received + "\")\r\n" + tagOK,
				})
			got, err := c.FirstSince(t.Context(), 20, time.Date(2024, 2, 1, 0, 0, 0, 0, time.UTC))
			if tc.says != "" {
				wantError(t, err, imapsrc.KindProtocol, tc.says)
			} else if err != nil || got != 0 {
				t.Errorf("FirstSince = %v, %v; want none", got, err)
			}
		})
	}
}

// TestHighestUID: a server whose SEARCH finds nothing is asked for all messages. 0 is the answer of
// an empty folder alone, because the cursor begins there.
func TestHighestUID(t *testing.T) {
	for name, tc := range map[string]struct {
		messages int
		listed   string // the answer to a list of all; empty if it is not asked for
		want     uint32
		says     string
	}{
		"found in the list": {messages: 3, listed: uids(3, 17), want: 17},
		"found nowhere": {
			messages: 3, listed: "* 1 EXPUNGE\r\n",
			says: `search folder "INBOX": it has 3 messages, and the server lists none`,
		},
		"one, and nowhere": {
			messages: 1, listed: "* 1 EXPUNGE\r\n",
			says: `folder "INBOX": it has 1 message, and`,
		},
		"empty": {},
	} {
		t.Run(name, func(t *testing.T) {
			exist := fmt.Sprintf("* %d EXISTS\r\n", tc.messages)
			steps := []fakeimap.Step{
				greeting, loggedIn,
				{Expect: "EXAMINE", Reply: exist + "* OK [UIDVALIDITY 7] v\r\n* OK [UIDNEXT 18] n\r\n" + tagOK},
				{Expect: `UID SEARCH UID \*$`, Reply: "* SEARCH\r\n{tag} OK\r\n"},
			}
			if tc.listed != "" {
				steps = append(steps, fakeimap.Step{
					Expect: `UID FETCH 1:4294967295 \(UID\)$`, Reply: tc.listed + "{tag} OK\r\n",
				})
			}
			c := dial(t, fake(t, append(steps, logout)...))
			selectInbox(t, c)
			uid, err := c.HighestUID(t.Context())
			if tc.says != "" {
				wantError(t, err, imapsrc.KindProtocol, tc.says)
			} else if err != nil || uid != tc.want {
				t.Errorf("HighestUID = %d, %v; want %d", uid, err, tc.want)
			}
		})
	}
}
