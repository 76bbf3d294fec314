package imapsrc_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/testserver/fakeimap"
)

// TestIDComesBeforeSelect is a server that offers ID, and one that does not say so, but needs it.
func TestIDComesBeforeSelect(t *testing.T) {
	for _, needs := range []bool{false, true} {
		t.Run(fmt.Sprint("needs ", needs), func(t *testing.T) { idComesBeforeSelect(t, needs) })
	}
}

func idComesBeforeSelect(t *testing.T, needs bool) {
	t.Helper()
	offered := map[bool]string{false: "* CAPABILITY IMAP4rev1 ID\r\n", true: "* CAPABILITY IMAP4rev1\r\n"}
	replies := map[string]string{
		"LOGIN":      "", // without the capabilities, which differ now
		"CAPABILITY": offered[needs],
		"ID":         "* ID (\"name\" \"Cour\x07ier\" \"version\" \"4\")\r\n",
		"EXAMINE":    "* OK [UIDVALIDITY 7] v\r\n* OK [UIDNEXT 10] n\r\n",
	}
	cfg := fakeConfig(t, func(c *fakeimap.Conn) {
		c.Send(greeting.Reply)
		identified := false
		for line, ok := c.ReadLine(); ok; line, ok = c.ReadLine() {
			command := strings.Fields(line)[1]
			identified = identified || strings.HasSuffix(line, `ID ("name" "postrider" "version" "1.2")`)
			if command == "EXAMINE" && !identified {
				c.T.Error("EXAMINE came before ID; want ID first")
			}
			c.Send(replies[command] + tagOK)
		}
	})
	cfg.ClientName, cfg.ClientVersion, cfg.NeedsID = "postrider", "1.2", needs
	c := dial(t, cfg)
	selectInbox(t, c)
	if c.ServerName() != "Cour ier 4" {
		t.Errorf("ServerName() = %q; want the name and version, printable", c.ServerName())
	}
}

// TestIDWithNIL: each value may be NIL, and so may the whole list (RFC 2971 4).
func TestIDWithNIL(t *testing.T) {
	for reply, want := range map[string]string{
		`("name" "x" "vendor" NIL)`: "x", `("name" NIL "version" nil "vendor" "NIL")`: "",
		`("vendor" NIL "name" "a NIL \" (NIL)")`: `a NIL " (NIL)`, "(\"name\" {3}\r\nNIL \"version\" NIL)": "NIL",
		"NIL": "", "nil": "", "()": "", `("name"  " x "  "vendor" NIL )`: "x",
	} {
		t.Run(reply, func(t *testing.T) {
			cfg := fake(t, greeting, loggedInWithID,
				fakeimap.Step{Expect: "ID", Reply: "* ID " + reply + "\r\n{tag} OK done\r\n"}, examined, logout)
			cfg.ClientName = "postrider"
			c := dial(t, cfg)
			selectInbox(t, c)
			if c.ServerName() != want {
				t.Errorf("ServerName() = %q; want %q", c.ServerName(), want)
			}
		})
	}
}

func TestIDRefusedDoesNotMatter(t *testing.T) {
	cfg := fake(t, greeting, loggedInWithID, fakeimap.Step{Expect: "ID", Reply: "{tag} BAD no\r\n"}, examined, logout)
	cfg.ClientName = "postrider"
	c := dial(t, cfg)
	selectInbox(t, c)
	if c.ServerName() != "" {
		t.Errorf("ServerName() = %q; want none", c.ServerName())
	}
}

// TestIDUnanswered: the command that ID went out with does not succeed.
func TestIDUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := impatient(t)
		cfg.ClientName = "postrider"
		c := overPipe(t, cfg, fakeimap.Script(greeting, loggedInWithID, fakeimap.Step{Expect: "ID"}, examined))
		start := time.Now()
		_, err := c.Select(t.Context(), "INBOX")
		wantTook(t, start, shortIdle)
		wantError(t, err, imapsrc.KindNetwork, `open folder "INBOX": the server was silent for`)
	})
}
