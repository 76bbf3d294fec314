package imapsrc_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/testserver/fakeimap"
)

func TestSelect(t *testing.T) {
	const ok = "{tag} OK\r\n" // without a text
	examine := func(reply string) fakeimap.Step { return fakeimap.Step{Expect: "EXAMINE INBOX", Reply: reply} }
	noUIDNext := examine("* 2 EXISTS\r\n* OK [UIDVALIDITY 7] v\r\n{tag} OK [READ-ONLY]\r\n")
	status := func(reply string) []fakeimap.Step {
		return []fakeimap.Step{noUIDNext, {Expect: `STATUS INBOX \(UIDNEXT\)`, Reply: reply}}
	}
	refused := func(answer, list string) []fakeimap.Step {
		return []fakeimap.Step{examine("{tag} " + answer + "\r\n"), {Expect: `LIST "" "\*"`, Reply: list}}
	}
	listed := func(folders ...string) (list string) {
		for _, f := range folders {
			list += "* LIST " + f + "\r\n"
		}
		return list + ok
	}
	full := imapsrc.Folder{Name: "INBOX", UIDValidity: 7, UIDNext: 10, Messages: 2}
	unknown := full
	unknown.UIDNext = 0
	for name, tc := range map[string]struct {
		steps []fakeimap.Step
		want  imapsrc.Folder
		kind  imapsrc.Kind
		says  string
		gone  bool // Error.Unlisted
	}{
		"UIDNEXT from STATUS": {steps: status("* STATUS inbox (UIDNEXT 10)\r\n" + ok), want: full},
		"codes in other cases": {steps: []fakeimap.Step{
			examine("* 2 EXISTS\r\n* OK [UidValidity 7] v\r\n* OK [uidnext 10] n\r\n" +
				"* OK [unknown Arg] n\r\n{tag} OK [read-only]\r\n"),
		}, want: full},
		"DavMail: a space too many": {steps: []fakeimap.Step{
			examine("*  2 EXISTS\r\n*  OK [UIDVALIDITY  7 ] v\r\n* OK [UIDNEXT 10] n  n\r\n{tag} OK [READ-ONLY]\r\n"),
		}, want: full},
		"and in STATUS":     {steps: status("* STATUS  INBOX  ( UIDNEXT  10 ) \r\n" + ok), want: full},
		"no UIDNEXT at all": {steps: status("* STATUS INBOX ()\r\n" + ok), want: unknown},
		"STATUS refused":    {steps: status("{tag} NO\r\n"), want: unknown},
		"no UIDVALIDITY": {
			steps: []fakeimap.Step{examine("* 2 EXISTS\r\n" + ok)},
			kind:  imapsrc.KindNoCursor, says: "cannot be monitored",
		},
		"UIDs are not persistent": {
			steps: []fakeimap.Step{
				examine("* OK [UIDVALIDITY 7] v\r\n* NO [UIDNOTSTICKY] no persistent UIDs\r\n" + ok),
			},
			kind: imapsrc.KindNoCursor, says: `open folder "INBOX": the folder's UIDs are not persistent`,
		},
		"not there": {
			steps: refused("NO [NONEXISTENT] none",
				listed(`(\Noselect) "/" INBOY`, `() "/" Inbax`, `() "/" "Sent Items"`)),
			kind: imapsrc.KindNoFolder, says: `(NO [NONEXISTENT] none); did you mean Inbax?`, gone: true,
		},
		"not there, says Dovecot": {
			steps: refused("NO Mailbox doesn't exist: INBOX", listed(`() "/" Sent`)),
			kind:  imapsrc.KindNoFolder, says: "doesn't exist", gone: true,
		},
		"not listed, and forbidden": {
			steps: refused("NO [NOPERM] no", listed(`() "/" Sent`)),
			kind:  imapsrc.KindNoFolder, says: "NOPERM",
		},
		"not listed, and BAD": {
			steps: refused("BAD Folder could not be found.", listed(`() "/" Sent`)),
			kind:  imapsrc.KindNoFolder, says: "BAD",
		},
		"there, and refused": {
			steps: refused("NO not now", listed(`() "/" Inbox`)),
			kind:  imapsrc.KindNoFolder, says: "the server refused (NO not now)",
		},
		"not for this user": {
			steps: refused("NO [AUTHORIZATIONFAILED] no", listed(`() "/" INBOX`)),
			kind:  imapsrc.KindNoFolder, says: "the server refused (NO [AUTHORIZATIONFAILED] no)",
		},
		"not there, and no list": {
			steps: refused("NO none", "{tag} NO\r\n"),
			kind:  imapsrc.KindNoFolder, says: "the server refused (NO none)",
		},
		"not there, says hMailServer": {
			steps: refused("BAD Folder could not be found.", listed(`() "/" INBOX`)),
			kind:  imapsrc.KindNoFolder, says: "(BAD Folder could not be found.)",
		},
		"out of order": {
			steps: refused("BAD User is authenticated but not connected.",
				"{tag} BAD User is authenticated but not connected.\r\n"),
			kind: imapsrc.KindProtocol,
			says: "not connected.; check that IMAP is allowed for the mailbox of ann, and that the account",
		},
		"unavailable": {
			steps: []fakeimap.Step{examine("{tag} NO [UNAVAILABLE] later\r\n")},
			kind:  imapsrc.KindUnavailable, says: "later",
		},
		"in use": {
			steps: []fakeimap.Step{examine("{tag} NO [INUSE] locked\r\n")},
			kind:  imapsrc.KindInUse, says: "locked",
		},
		"hangs up": {
			steps: []fakeimap.Step{{Expect: "EXAMINE", Reply: "* 2 EXISTS\r\n", Close: true}},
			kind:  imapsrc.KindNetwork, says: "closed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			steps := slices.Concat([]fakeimap.Step{greeting, loggedIn}, tc.steps, []fakeimap.Step{logout})
			got, err := dial(t, fake(t, steps...)).Select(t.Context(), "Inbox")
			if tc.kind != "" {
				wantError(t, err, tc.kind, tc.says)
				if e := new(imapsrc.Error); errors.As(err, &e) && e.Unlisted != tc.gone {
					t.Errorf("unlisted %t, want %t", e.Unlisted, tc.gone)
				}
			} else if err != nil || got != tc.want {
				t.Errorf("Select = %+v, %v; want %+v", got, err, tc.want)
			}
		})
	}
}

// TestSuggest: a folder without the prefix that it has on its server is found, however many there
// are.
func TestSuggest(t *testing.T) {
	list := strings.Repeat("* LIST () \".\" INBOX.Archive.Something\r\n", 20)
	for name, path := range map[string]string{"Work": "INBOX.Work", "Clients": "Work/Clients"} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, fake(t, greeting, loggedIn,
				fakeimap.Step{Expect: "EXAMINE", Reply: "{tag} NO [NONEXISTENT] none\r\n"},
				fakeimap.Step{Expect: "LIST", Reply: list + "* LIST () \".\" \"" + path + "\"\r\n" + tagOK}, logout))
			_, err := c.Select(t.Context(), name)
			wantError(t, err, imapsrc.KindNoFolder, "none); did you mean "+path+"?")
		})
	}
}

// uids are the FETCH responses of messages.
func uids(of ...uint32) string {
	var out strings.Builder
	for i, uid := range of {
		fmt.Fprintf(&out, "* %d FETCH (UID %d)\r\n", i+1, uid)
	}
	return out.String()
}

func TestList(t *testing.T) {
	day := time.Date(2024, 2, 1, 23, 0, 0, 0, time.UTC)
	between := func(from, to uint32) func(c *imapsrc.Conn) ([]uint32, error) {
		return func(c *imapsrc.Conn) ([]uint32, error) { return c.UIDs(t.Context(), from, to) }
	}
	since := func(c *imapsrc.Conn) ([]uint32, error) { return c.Since(t.Context(), 1, 9, day) }
	highest := func(c *imapsrc.Conn) ([]uint32, error) {
		uid, err := c.HighestUID(t.Context())
		return []uint32{uid}, err
	}
	for name, tc := range map[string]struct {
		command, reply string
		call           func(c *imapsrc.Conn) ([]uint32, error)
		want           []uint32
	}{
		"out of order, twice, and flags": {
			`UID FETCH 5:9 \(UID\)$`, uids(7, 5, 9, 5, 6) + "* 2 FETCH (FLAGS (\\Seen))\r\n{tag} OK\r\n",
			between(5, 9),
			[]uint32{5, 6, 7, 9},
		},
		"a liar":  {`UID FETCH 10:20 `, uids(9, 21, 4294967295) + "{tag} OK\r\n", between(10, 20), nil},
		"nothing": {`UID FETCH 10:20 `, "{tag} OK\r\n", between(10, 20), nil},
		"the end of the numbers": {
			`UID FETCH 1:4294967295 `, uids(4294967295, 1) + "{tag} OK\r\n",
			between(0, 1<<32-1),
			[]uint32{1, 1<<32 - 1},
		},
		"since a day": {`UID SEARCH SINCE "1-Feb-2024"$`, "* SEARCH 3 4 10\r\n{tag} OK\r\n", since, []uint32{3, 4}},
		"since a day, in an extended answer": {
			`UID SEARCH SINCE`, "* ESEARCH (TAG \"{tag}\") UID ALL 2:4,8:12\r\n{tag} OK\r\n",
			since,
			[]uint32{2, 3, 4, 8, 9},
		},
		"the highest": {`UID SEARCH UID \*$`, "* SEARCH 17\r\n{tag} OK\r\n", highest, []uint32{17}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.call(open(t, fakeimap.Step{Expect: tc.command, Reply: tc.reply}))
			if err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("found %v, %v; want %v", got, err, tc.want)
			}
		})
	}
}

// TestListChangedFlags: a message whose flags changed meanwhile is asked for again. It may be gone
// by then, or the server always sends the flags.
func TestListChangedFlags(t *testing.T) {
	flags := func(uid uint32) string { return fmt.Sprintf("* 1 FETCH (UID %d FLAGS (\\Deleted))\r\n", uid) }
	c := open(t,
		fakeimap.Step{
			Expect: "UID FETCH 1:9 ",
			Reply:  flags(2) + uids(3, 4) + flags(3) + flags(6) + "* 1 EXPUNGE\r\n" + tagOK,
		},
		fakeimap.Step{Expect: "UID FETCH 2,6 ", Reply: flags(6) + tagOK})
	if got, err := c.UIDs(t.Context(), 1, 9); err != nil || !slices.Equal(got, []uint32{3, 4, 6}) {
		t.Errorf("UIDs = %v, %v; want 3, 4 and 6", got, err)
	}
}

// TestFlagsOfGmail: they may have what no flag may have.
func TestFlagsOfGmail(t *testing.T) {
	const odd = `(\Seen OIB-Seen-[Gmail]/All Mail "a) b" \)`
	unread := fakeimap.Step{Expect: "EXAMINE", Reply: "* FLAGS " + odd + "\r\n" + examined.Reply}
	c := dial(t, fake(t, greeting, loggedIn, unread, fakeimap.Step{
		Expect: "UID FETCH 1:9 ",
		Reply: "* 1 FETCH (UID 2 FLAGS " + odd + ")\r\n" +
			"* 2 FETCH (flags " + odd + " UID 3)\r\n" + uids(4) + tagOK,
	}, fakeimap.Step{Expect: "UID FETCH 2:3 ", Reply: uids(2) + tagOK}, logout))
	selectInbox(t, c)
	if got, err := c.UIDs(t.Context(), 1, 9); err != nil || !slices.Equal(got, []uint32{2, 4}) {
		t.Errorf("UIDs = %v, %v; want 2 and 4", got, err)
	}
}

// TestUnusualAnswersToExamine: no space after a code, and NIL for the flags.
func TestUnusualAnswersToExamine(t *testing.T) {
	c := dial(t, fake(t, greeting, loggedIn, fakeimap.Step{
		Expect: "EXAMINE",
		Reply: "* FLAGS NIL\r\n* 3 EXISTS\r\n* OK [UIDVALIDITY 7]x\r\n* OK [UIDNEXT 10](y)\r\n" +
			"{tag} OK [READ-ONLY]\r\n",
	}, logout))
	want := imapsrc.Folder{Name: "INBOX", UIDValidity: 7, UIDNext: 10, Messages: 3}
	if got, err := c.Select(t.Context(), "INBOX"); err != nil || got != want {
		t.Errorf("Select = %+v, %v; want %+v", got, err, want)
	}
}

// TestListEmptyFolder: a server may refuse every FETCH in a folder without messages.
func TestListEmptyFolder(t *testing.T) {
	empty := fakeimap.Step{
		Expect: "EXAMINE",
		Reply:  "* 0 EXISTS\r\n* OK [UIDVALIDITY 7] v\r\n* OK [UIDNEXT 10] n\r\n{tag} OK done\r\n",
	}
	c := dial(t, fake(t, greeting, loggedIn, empty,
		fakeimap.Step{Expect: "UID FETCH 1:9 ", Reply: "{tag} BAD no messages\r\n"}, logout))
	selectInbox(t, c)
	if got, err := c.UIDs(t.Context(), 1, 9); err != nil || len(got) > 0 {
		t.Errorf("UIDs = %v, %v; want none", got, err)
	}
}

// TestDescribed asks for the messages of a range in one command, and one by one when the server
// refuses to describe one of them.
func TestDescribed(t *testing.T) {
	ask := func(what, reply string) fakeimap.Step {
		return fakeimap.Step{Expect: "UID FETCH " + what, Reply: reply}
	}
	five := fetched(1, 5, `RFC822.SIZE 50 INTERNALDATE "01-Jan-2024 00:00:00 +0000"`)
	for name, tc := range map[string]struct {
		steps []fakeimap.Step
		want  []string
	}{
		"all": {
			[]fakeimap.Step{ask("4:6 ", fetched(2, 6, "RFC822.SIZE 60")+five+fetched(9, 9, "RFC822.SIZE 90")+tagOK)},
			[]string{"5 50", "6 60"},
		},
		"one is refused": {
			[]fakeimap.Step{
				ask("4:6 .*RFC822.SIZE", five+"{tag} NO broken\r\n"), ask(`4:6 \(UID\)$`, uids(5, 6)+tagOK),
				ask("5:6 ", five+"{tag} NO broken\r\n"), ask("6 ", "{tag} NO broken\r\n"),
			},
			[]string{"5 50", "6 0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			metas, err := open(t, tc.steps...).Described(t.Context(), 4, 6)
			var got []string
			for _, m := range metas {
				got = append(got, fmt.Sprintf("%d %d", m.UID, m.Size))
			}
			if err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("Described = %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

// TestSpaces: imap.free.fr, imap.qq.com, iCloud and others send one too many. Those in strings and
// literals stay.
func TestSpaces(t *testing.T) {
	for _, items := range []string{
		"UID 5 RFC822.SIZE 10 ", " UID 5  RFC822.SIZE 10", "FLAGS (\\Seen $NotJunk ) MODSEQ (4 ) UID 5 RFC822.SIZE 10",
		`UID 5 RFC822.SIZE 10 INTERNALDATE " 1-Jan-2024 00:00:00 +0000" `,
	} {
		t.Run(items, func(t *testing.T) {
			c := open(t, fakeimap.Step{Expect: "FETCH", Reply: "* 1 FETCH  (" + items + ")\r\n" + tagOK})
			metas, err := c.Described(t.Context(), 1, 9)
			if err != nil || len(metas) != 1 || metas[0].UID != 5 || metas[0].Size != 10 {
				t.Errorf("Described = %v, %v; want message 5 of 10 octets", metas, err)
			}
		})
	}
	t.Run("names of folders", func(t *testing.T) {
		list := `* LIST ( \HasNoChildren  \Junk )  "/"  "a  ( b ) " ` + "\r\n" +
			"* LIST () \"/\" {8}\r\nc  ( d) \r\n" + tagOK
		got, err := open(t, fakeimap.Step{Expect: "LIST", Reply: list}).Folders(t.Context())
		if want := []string{"a  ( b ) ", "c  ( d) "}; err != nil || !slices.Equal(got, want) {
			t.Errorf("Folders = %q, %v; want %q", got, err, want)
		}
	})
}

// TestNamesThatCannotBeRead: a folder with one is left out, and the others are not.
func TestNamesThatCannotBeRead(t *testing.T) {
	for line, want := range map[string]string{
		`() "/" "Sales & Marketing"`: "", `() "|" "&BBAEMQQyACYEMwQ0BDU-"`: "", "() \"/\" \"Entw\xfcrfe\"": "",
		`() "/" "a&AOQ"`: "", `() "" a`: "", `() "//" a`: "", `() / a`: "", `() "/" a b`: "",
		`() "\" "a\b"`: "", `(\X[a]) "/" a`: "", `NIL "/" a`: "", "() \"/\" \"a\tb\"": "",
		"() \"/\" Da\tOggetto\t": "", `() "\\" a\b 1`: "", "() \"/\" \xc3\x84": "", `() "/" &2D0-`: "",
		`() "/" &AOQ-&AOQ-`: "", `() "/" &AOQ=-`: "", `() "/" 100%`: "", `() "/" a)`: "", `() "/" "a`: "",

		`() "/" a&AOQ-&-&AOQ-`: "a\u00e4&\u00e4", `() "/" "&2D3eAA-"`: "\U0001f600",
		"() \"/\" \"\u00c4 \u00fc\"": "\u00c4 \u00fc", "() \"/\" a\u00fc": "a\u00fc",
		`(\HasNoChildren \Sent) "\\" "a\\b\"c"`: `a\b"c`, `() NIL [Gmail]/All`: "[Gmail]/All",
		`() "." inbox.a`: "inbox.a", `() "/" a ("CHILDINFO" ("SUBSCRIBED"))`: "a",
		"() \"/\" {3}\r\na b": "a b", "() \"/\" {1}\r\nb (\"X\" {3}\r\na&b)": "b",
	} {
		t.Run(line, func(t *testing.T) {
			c := open(t, fakeimap.Step{
				Expect: "LIST",
				Reply: "* CAPABILITY IMAP4rev1\r\n* LIST () NIL INBOX\r\n* LIST " + line + "\r\n" +
					"* LIST (\\Trash) NIL zzz\r\n" + tagOK,
			})
			names := slices.DeleteFunc([]string{"INBOX", want, "zzz"}, func(s string) bool { return s == "" })
			slices.Sort(names)
			if got, err := c.Folders(t.Context()); err != nil || !slices.Equal(got, names) {
				t.Errorf("Folders = %q, %v; want %q", got, err, names)
			}
		})
	}
}

// TestStatusOfANameThatCannotBeRead: nothing is known of the folder.
func TestStatusOfANameThatCannotBeRead(t *testing.T) {
	c := open(t, fakeimap.Step{Expect: "STATUS", Reply: "* STATUS \"a & b\" (MESSAGES 3)\r\n{tag} OK\r\n"},
		fakeimap.Step{Expect: "STATUS", Reply: "* STATUS c (MESSAGES 4)\r\n{tag} OK\r\n"})
	if got, err := c.Counts(t.Context(), []string{"a & b", "c"}); err != nil || len(got) != 1 || got["c"] != 4 {
		t.Errorf("Counts = %v, %v; want 4 messages in c alone", got, err)
	}
}

func TestListNothingIsNotAsked(t *testing.T) {
	c := open(t)
	for _, bounds := range [][2]uint32{{5, 4}, {1, 0}, {0, 0}} {
		if uids, err := c.UIDs(t.Context(), bounds[0], bounds[1]); err != nil || len(uids) != 0 {
			t.Errorf("UIDs(%v) = %v, %v; want none", bounds, uids, err)
		}
	}
}

func TestListFails(t *testing.T) {
	for name, tc := range map[string]struct {
		step fakeimap.Step
		kind imapsrc.Kind
		says string
	}{
		"hangs up after half an answer": {
			fakeimap.Step{Reply: uids(1) + "* 2 FETCH (UID 2", Close: true},
			imapsrc.KindNetwork, "closed the connection",
		},
		"hangs up before the tagged OK": {
			fakeimap.Step{Reply: uids(1, 2), Close: true},
			imapsrc.KindNetwork, "closed the connection",
		},
		"says goodbye": {
			fakeimap.Step{Reply: "* BYE shutting down\r\n", Close: true},
			imapsrc.KindUnavailable, "(BYE shutting down)",
		},
		"refuses": {
			fakeimap.Step{Reply: uids(1) + "{tag} NO cannot\r\n"},
			imapsrc.KindUnavailable, "NO cannot",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.step.Expect = "UID FETCH"
			uids, err := open(t, tc.step).UIDs(t.Context(), 1, 1<<32-1)
			wantError(t, err, tc.kind, `list the messages of folder "INBOX": `, tc.says)
			if uids != nil {
				t.Errorf("UIDs returned %d of them together with the error; want none", len(uids))
			}
		})
	}
}
