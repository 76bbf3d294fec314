package imapsrc_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/testserver/fakeimap"
)

// toChange is a session in a folder of a server that offers UIDPLUS and answers as the steps say.
func toChange(t *testing.T, steps ...fakeimap.Step) *imapsrc.Conn {
	t.Helper()
	return toChangeOn(t, "UIDPLUS", "", steps...)
}

// toChangeOn is toChange on a server that offers some capability, and tells more of the folder.
func toChangeOn(t *testing.T, offers, folder string, steps ...fakeimap.Step) *imapsrc.Conn {
	t.Helper()
	s := fakeimap.Start(t, fakeimap.Script(append([]fakeimap.Step{
		{Reply: "* OK [CAPABILITY IMAP4rev1 " + offers + "] hello\r\n"},
		{Expect: "LOGIN", Reply: "{tag} OK [CAPABILITY IMAP4rev1 " + offers + "] in\r\n"},
		{Expect: "SELECT", Reply: folder + "* 3 EXISTS\r\n* OK [UIDVALIDITY 7] v\r\n* OK [UIDNEXT 10] n\r\n" + tagOK},
	}, steps...)...))
	cfg := account(t)
	cfg.Port, cfg.IdleTimeout = s.Port(), 10*time.Second
	c, err := imapsrc.Dial(t.Context(), cfg)
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
			c := toChange(t,
				fakeimap.Step{Expect: "UID STORE", Reply: "{tag} OK done\r\n"},
				fakeimap.Step{Expect: "UID EXPUNGE 5", Reply: tt.answer})
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
		fakeimap.Step{Expect: `UID STORE 6 \+FLAGS.SILENT \(\\Seen\)`, Reply: "{tag} NO Server Unavailable. 15\r\n"},
	)
	for what, err := range map[string]error{
		"Expunge": c.Expunge(t.Context(), []uint32{5}),
		"AddFlag": c.AddFlag(t.Context(), []uint32{5}, `\Seen`),
		// of Exchange; no message may hold up all others
		"AddFlag, unavailable": c.AddFlag(t.Context(), []uint32{6}, `\Seen`),
	} {
		var e *imapsrc.Error
		if !errors.As(err, &e) || e.Kind != imapsrc.KindMessage {
			t.Errorf("%s = %v, want a refusal of the message", what, err)
		}
	}
}

// TestMoveWithoutMOVE: the library would send a plain EXPUNGE.
func TestMoveWithoutMOVE(t *testing.T) {
	c := toChange(t)
	err := c.Move(t.Context(), []uint32{5}, "Done")
	if err == nil || !strings.Contains(err.Error(), "does not offer MOVE") {
		t.Errorf("Move = %v, want that the server does not offer it", err)
	}
}

// TestKeeps: a flag that a folder does not keep is known before it is set. Exchange keeps no
// keywords. Dovecot answers OK to a STORE of a flag that the login may not set, and does nothing.
func TestKeeps(t *testing.T) {
	for _, tt := range []struct {
		name, folder    string
		seen, forwarded bool
	}{
		{"says nothing", "", true, true},
		{"all", "* OK [PERMANENTFLAGS (\\Answered \\Seen \\*)] f\r\n", true, true},
		{"this keyword", "* OK [PERMANENTFLAGS (\\Seen $forwarded)] f\r\n", true, true},
		{"SurgeMail", "* OK [PERMANENTFLAGS (\\Deleted  \\Seen $Forwarded )] f\r\n", true, true},
		{
			"Gmail", "* OK [PERMANENTFLAGS (OIB-Seen-[Gmail]/Trash OIB-[Gmail]/All Mail " +
				"\\Seen Gr\xfcn a\"b \\ $Forwarded)] [f]\r\n",
			true, true,
		},
		{"Gmail, all", "* OK [PERMANENTFLAGS (\\Seen OIB-Seen-[Gmail]/Trash \\*)] f\r\n", true, true},
		{"go-imap", "* OK [PERMANENTFLAGS (\\*)] f\r\n", true, true},
		{
			"Dovecot, where the login may not mark as read",
			"* OK [PERMANENTFLAGS (\\Answered \\Flagged \\Draft \\*)] f\r\n", false, true,
		},
		{"none that can be read", "* OK [PERMANENTFLAGS (OIB-Seen-[Gmail]/Trash)] f\r\n", true, true},
		{
			"Exchange", "* OK [PERMANENTFLAGS (\\Seen \\Answered \\Flagged \\Deleted \\Draft $MDNSent)] f\r\n",
			true, false,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := toChangeOn(t, "UIDPLUS", tt.folder)
			seen, forwarded := c.Keeps(`\Seen`), c.Keeps("$Forwarded")
			if seen != tt.seen || forwarded != tt.forwarded {
				t.Errorf("it keeps \\Seen: %t, $Forwarded: %t; want %t, %t", seen, forwarded, tt.seen, tt.forwarded)
			}
		})
	}
}

// TestReadOnly: Dovecot opens a folder read-only if the login may only read it, and then answers OK
// to STORE and does nothing.
func TestReadOnly(t *testing.T) {
	readOnly := "* 3 EXISTS\r\n* OK [UIDVALIDITY 7] v\r\n* OK [UIDNEXT 10] n\r\n{tag} OK [READ-ONLY] done\r\n"
	c := dial(t, fake(t, greeting, loggedIn, fakeimap.Step{Expect: "SELECT INBOX$", Reply: readOnly}, examined, logout))
	_, err := c.SelectToChange(t.Context(), "INBOX")
	wantError(t, err, imapsrc.KindNoFolder, `folder "INBOX"`, "read-only")
	selectInbox(t, c) // to read it is no error
}

// TestGmail: Google's server is known, and so is its folder for deleted messages, in any language.
func TestGmail(t *testing.T) {
	list := "* LIST (\\HasNoChildren) \"/\" INBOX\r\n" +
		"* LIST (\\HasNoChildren \\Trash) \"/\" \"[Gmail]/Papierkorb\"\r\n{tag} OK done\r\n"
	for offers, tt := range map[string]struct {
		gmail       bool
		list, trash string
	}{
		"X-GM-EXT-1 UIDPLUS MOVE": {true, list, "[Gmail]/Papierkorb"},
		"UIDPLUS MOVE":            {false, "* LIST () \"/\" Trash\r\n{tag} OK done\r\n", ""},
	} {
		c := toChangeOn(t, offers, "", fakeimap.Step{Expect: "LIST", Reply: tt.list})
		trash, err := c.Trash(t.Context())
		if err != nil || trash != tt.trash || c.IsGmail() != tt.gmail {
			t.Errorf("%s: Gmail: %t, the folder for deleted messages %q, %v; want %t, %q",
				offers, c.IsGmail(), trash, err, tt.gmail, tt.trash)
		}
	}
}
