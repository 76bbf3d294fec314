package imapsrc_test

import (
	"slices"
	"testing"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/testserver/fakeimap"
)

func TestSelect(t *testing.T) {
	examine := func(reply string) fakeimap.Step { return fakeimap.Step{Expect: "EXAMINE INBOX", Reply: reply} }
	const noUIDNext = "* 2 EXISTS\r\n* OK [UIDVALIDITY 7] v\r\n{tag} OK [READ-ONLY]\r\n"
	full := imapsrc.Folder{Name: "INBOX", UIDValidity: 7, UIDNext: 10, Messages: 2}
	unknown := full
	unknown.UIDNext = 0
	for name, tc := range map[string]struct {
		steps []fakeimap.Step
		want  imapsrc.Folder
		kind  imapsrc.Kind
		says  string
	}{
		"UIDNEXT from STATUS": {
			steps: []fakeimap.Step{
				examine(noUIDNext),
				{Expect: `STATUS INBOX \(UIDNEXT\)`, Reply: "* STATUS inbox (UIDNEXT 10)\r\n{tag} OK\r\n"},
			}, want: full,
		},
		"no UIDNEXT at all": {steps: []fakeimap.Step{
			examine(noUIDNext),
			{Expect: "STATUS", Reply: "* STATUS INBOX ()\r\n{tag} OK\r\n"},
		}, want: unknown},
		"STATUS refused": {
			steps: []fakeimap.Step{examine(noUIDNext), {Expect: "STATUS", Reply: "{tag} NO\r\n"}},
			want:  unknown,
		},
		"no UIDVALIDITY": {
			steps: []fakeimap.Step{examine("* 2 EXISTS\r\n{tag} OK\r\n")},
			kind:  imapsrc.KindNoCursor, says: "cannot be monitored",
		},
		"UIDs are not persistent": {
			steps: []fakeimap.Step{examine("* OK [UIDVALIDITY 7] v\r\n" +
				"* NO [UIDNOTSTICKY] no persistent UIDs\r\n{tag} OK\r\n")},
			kind: imapsrc.KindNoCursor, says: `open folder "INBOX": the folder's UIDs are not persistent`,
		},
		"not there": {
			steps: []fakeimap.Step{examine("{tag} NO [NONEXISTENT] none\r\n"), {Expect: `LIST "" "\*"`, Reply: `* LIST (\Noselect) "/" INBOY` + "\r\n" +
				`* LIST () "/" Inbax` + "\r\n" + `* LIST () "/" "Sent Items"` + "\r\n{tag} OK\r\n"}},
			kind: imapsrc.KindNoFolder, says: `(NO [NONEXISTENT] none); did you mean Inbax?`,
		},
		"not there, and no list": {
			steps: []fakeimap.Step{examine("{tag} NO none\r\n"), {Expect: "LIST", Reply: "{tag} NO\r\n"}},
			kind:  imapsrc.KindNoFolder, says: "the server refused (NO none)",
		},
		"unavailable": {
			steps: []fakeimap.Step{examine("{tag} NO [UNAVAILABLE] later\r\n")},
			kind:  imapsrc.KindUnavailable, says: "later",
		},
		"in use": {
			steps: []fakeimap.Step{examine("{tag} NO [INUSE] locked\r\n")}, kind: imapsrc.KindInUse,
			says: "locked",
		},
		"hangs up": {
			steps: []fakeimap.Step{{Expect: "EXAMINE", Reply: "* 2 EXISTS\r\n", Close: true}},
			kind:  imapsrc.KindNetwork, says: "closed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			steps := slices.Concat([]fakeimap.Step{greeting, loggedIn, offers}, tc.steps, []fakeimap.Step{logout})
			got, err := dial(t, fake(t, steps...)).Select(t.Context(), "Inbox")
			if tc.kind != "" {
				wantError(t, err, tc.kind, tc.says)
			} else if err != nil || got != tc.want {
				t.Errorf("Select = %+v, %v; want %+v", got, err, tc.want)
			}
		})
	}
}

func TestSearch(t *testing.T) {
	day := time.Date(2024, 2, 1, 23, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		command, reply string
		call           func(c *imapsrc.Conn) ([]uint32, error)
		want           []uint32
	}{
		"out of order, twice, in two lines": {
			`UID SEARCH UID 5:9$`, "* SEARCH 7 5 9\r\n* SEARCH 5 6\r\n{tag} OK\r\n",
			func(c *imapsrc.Conn) ([]uint32, error) { return c.UIDs(t.Context(), 5, 9) },
			[]uint32{5, 6, 7, 9},
		},
		"a liar": {
			`UID SEARCH UID 10:20$`, "* SEARCH 0 9 21 4294967295\r\n{tag} OK\r\n",
			func(c *imapsrc.Conn) ([]uint32, error) { return c.UIDs(t.Context(), 10, 20) }, nil,
		},
		"nothing": {
			`UID SEARCH UID 10:20$`, "* SEARCH\r\n{tag} OK\r\n",
			func(c *imapsrc.Conn) ([]uint32, error) { return c.UIDs(t.Context(), 10, 20) }, nil,
		},
		"the end of the numbers": {
			`UID SEARCH UID 1:4294967295$`, "* SEARCH 4294967295 1\r\n{tag} OK\r\n",
			func(c *imapsrc.Conn) ([]uint32, error) { return c.UIDs(t.Context(), 0, 1<<32-1) },
			[]uint32{1, 1<<32 - 1},
		},
		"since a day": {
			`UID SEARCH UID 1:9 SINCE "1-Feb-2024"$`, "* SEARCH 3 4\r\n{tag} OK\r\n",
			func(c *imapsrc.Conn) ([]uint32, error) { return c.Since(t.Context(), 1, 9, day) },
			[]uint32{3, 4},
		},
		"an extended answer": {
			`UID SEARCH UID 1:9$`, "* ESEARCH (TAG \"{tag}\") UID ALL 2:4,8:12\r\n{tag} OK\r\n",
			func(c *imapsrc.Conn) ([]uint32, error) { return c.UIDs(t.Context(), 1, 9) },
			[]uint32{2, 3, 4, 8, 9},
		},
		"the highest": {
			`UID SEARCH UID \*$`, "* SEARCH 17\r\n{tag} OK\r\n",
			func(c *imapsrc.Conn) ([]uint32, error) {
				uid, err := c.HighestUID(t.Context())
				return []uint32{uid}, err
			},
			[]uint32{17},
		},
		"the highest of none": {
			`UID SEARCH UID \*$`, "* SEARCH\r\n{tag} OK\r\n",
			func(c *imapsrc.Conn) ([]uint32, error) {
				uid, err := c.HighestUID(t.Context())
				return []uint32{uid}, err
			},
			[]uint32{0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.call(open(t, fakeimap.Step{Expect: tc.command, Reply: tc.reply}))
			if err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("found %v, %v; want %v", got, err, tc.want)
			}
		})
	}
}

func TestSearchNothingIsNotAsked(t *testing.T) {
	c := open(t)
	for _, bounds := range [][2]uint32{{5, 4}, {1, 0}, {0, 0}} {
		if uids, err := c.UIDs(t.Context(), bounds[0], bounds[1]); err != nil || len(uids) != 0 {
			t.Errorf("UIDs(%v) = %v, %v; want none", bounds, uids, err)
		}
	}
}

func TestSearchFails(t *testing.T) {
	for name, tc := range map[string]struct {
		step fakeimap.Step
		kind imapsrc.Kind
		says string
	}{
		"hangs up after half an answer": {
			fakeimap.Step{Reply: "* SEARCH 1 2", Close: true},
			imapsrc.KindNetwork,
			"closed the connection",
		},
		"hangs up before the tagged OK": {
			fakeimap.Step{Reply: "* SEARCH 1 2\r\n", Close: true},
			imapsrc.KindNetwork, "closed the connection",
		},
		"says goodbye": {
			fakeimap.Step{Reply: "* BYE shutting down\r\n", Close: true},
			imapsrc.KindUnavailable, "(BYE shutting down)",
		},
		"refuses": {
			fakeimap.Step{Reply: "* SEARCH 1\r\n{tag} NO cannot\r\n"},
			imapsrc.KindUnavailable, "NO cannot",
		},
		"claims four thousand million": {
			fakeimap.Step{Reply: "* ESEARCH (TAG \"{tag}\") UID ALL 1:4294967295\r\n{tag} OK\r\n"},
			imapsrc.KindProtocol, "claims more than",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.step.Expect = "SEARCH"
			uids, err := open(t, tc.step).UIDs(t.Context(), 1, 1<<32-1)
			wantError(t, err, tc.kind, `search folder "INBOX": `, tc.says)
			if uids != nil {
				t.Errorf("UIDs returned %d of them together with the error; want none", len(uids))
			}
		})
	}
}
