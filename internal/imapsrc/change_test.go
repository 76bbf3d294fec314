package imapsrc_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/message"
	"postrider/internal/testserver/fakeimap"
)

// toChange is a session in a folder of a server that offers UIDPLUS and answers as the steps say.
func toChange(t *testing.T, steps ...fakeimap.Step) *imapsrc.Conn {
	t.Helper()
	s := fakeimap.Start(t, fakeimap.Script(append([]fakeimap.Step{
		{Reply: "* OK [CAPABILITY IMAP4rev1 UIDPLUS] hello\r\n"},
		{Expect: "LOGIN", Reply: "{tag} OK [CAPABILITY IMAP4rev1 UIDPLUS] in\r\n"},
		{Expect: "SELECT", Reply: "* 3 EXISTS\r\n* OK [UIDVALIDITY 7] v\r\n* OK [UIDNEXT 10] n\r\n{tag} OK done\r\n"},
	}, steps...)...))
	c, err := imapsrc.Dial(t.Context(), imapsrc.Config{
		Host: "127.0.0.1", Port: s.Port(), Security: imapsrc.SecurityNone, Username: "ann", Password: "sesame", Proxy: "direct",
		Spooler: &message.Spooler{Limit: 1 << 20, Budget: 4 << 20, Dir: t.TempDir()}, IdleTimeout: 10 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := c.SelectToChange(t.Context(), "INBOX"); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestExpunge: a server that answers oddly does not hold up the caller.
func TestExpunge(t *testing.T) {
	for name, tt := range map[string]struct{ answer, want string }{
		"message 0": {"* 0 EXPUNGE\r\n" + strings.Repeat("* 1 EXPUNGE\r\n", 500) + "{tag} OK done\r\n", "is not IMAP"},
		"many":      {strings.Repeat("* 1 EXPUNGE\r\n", 500) + "{tag} OK done\r\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := toChange(t, fakeimap.Step{Expect: "UID STORE", Reply: "{tag} OK done\r\n"}, fakeimap.Step{Expect: "UID EXPUNGE 5", Reply: tt.answer})
			err := c.Expunge(t.Context(), []uint32{5})
			if (tt.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Expunge = %v, want an error with %q", err, tt.want)
			}
		})
	}
}

// TestExpungeRefused: nothing stays marked as deleted that is not.
func TestExpungeRefused(t *testing.T) {
	c := toChange(t,
		fakeimap.Step{Expect: `UID STORE 5 \+FLAGS.SILENT \(\\Deleted\)`, Reply: "{tag} OK done\r\n"},
		fakeimap.Step{Expect: "UID EXPUNGE 5", Reply: "{tag} NO not today\r\n"},
		fakeimap.Step{Expect: `UID STORE 5 -FLAGS.SILENT \(\\Deleted\)`, Reply: "{tag} OK done\r\n"},
		fakeimap.Step{Expect: `UID STORE 5 \+FLAGS.SILENT \(\\Seen\)`, Reply: "{tag} BAD what\r\n"},
	)
	for what, err := range map[string]error{"Expunge": c.Expunge(t.Context(), []uint32{5}), "AddFlag": c.AddFlag(t.Context(), []uint32{5}, `\Seen`)} {
		var e *imapsrc.Error
		if !errors.As(err, &e) || e.Kind != imapsrc.KindMessage {
			t.Errorf("%s = %v, want a refusal of the message", what, err)
		}
	}
}

// TestMoveWithoutMOVE: the library would send a plain EXPUNGE.
func TestMoveWithoutMOVE(t *testing.T) {
	c := toChange(t)
	if err := c.Move(t.Context(), []uint32{5}, "Done"); err == nil || !strings.Contains(err.Error(), "does not offer MOVE") {
		t.Errorf("Move = %v, want that the server does not offer it", err)
	}
}
