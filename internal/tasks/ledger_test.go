package tasks

import (
	"crypto/sha256"
	"strings"
	"testing"

	"postrider/internal/message"
)

// hash is the fingerprint of a content, or of "outline of " a content.
func hash(s string) message.Fingerprint {
	if content, ok := strings.CutPrefix(s, "outline of "); ok {
		return entry(1, content).Outline()
	}
	return sha256.Sum256([]byte(s))
}

func entry(uid uint32, content string) Entry {
	is := hash(content)
	return Entry{UID: uid, Identity: Identity{Fingerprint: is}, Stated: Stated{Size: int64(is[0])}}
}

// TestPlan decides on one message by what the ledger knows. The page is of folder 1 under epoch 5.
func TestPlan(t *testing.T) {
	row := func(folder, epoch, task int64, key string, status Status) Seen {
		return Seen{FolderID: folder, Epoch: epoch, TaskID: task, Fingerprint: hash(key), Status: status}
	}
	purged := func(as string) Seen {
		r := row(1, 4, 3, "a", "")
		r.PurgedAs = as
		return r
	}
	vanished := row(1, 4, 3, "a", Skipped)
	vanished.Skip = SkipVanished
	gone := map[uint32]Seen{9: vanished}
	before := row(1, 4, 0, "outline of a", "")
	unread := row(1, 4, 3, "outline of a", Skipped)
	again := row(1, 5, 0, "outline of a", "")
	isNew := Planned{Fate: New, Note: true}
	stays := Planned{Fate: Known, Note: true}
	moved := func(task int64) Planned { return Planned{Fate: Moved, TaskID: task, Note: true} }
	known := func(as string) Planned { return Planned{Fate: Known, TaskID: 3, Note: true, PurgedAs: as} }
	for _, c := range []struct {
		name  string
		seen  map[uint32]Seen
		found []Seen
		want  Planned // but for its entry
	}{
		{"nothing known", nil, nil, isNew},
		{"registered", map[uint32]Seen{9: {TaskID: 3}}, nil, Planned{Fate: Known, TaskID: 3}},
		{"there before the start", map[uint32]Seen{9: {}}, nil, Planned{Fate: Known}},
		{"vanished, under the same UID", gone, nil, Planned{Fate: Moved, TaskID: 3, Back: true}},
		{"another UID", map[uint32]Seen{8: {TaskID: 3}}, nil, isNew},
		{"in an older epoch", nil, []Seen{row(1, 4, 3, "a", Forwarded)}, moved(3)},
		{"the first of two", nil, []Seen{row(1, 4, 2, "a", Dead), row(1, 4, 3, "a", Forwarded)}, moved(2)},
		{"vanished", nil, []Seen{vanished}, Planned{Fate: Moved, TaskID: 3, Note: true, Back: true}},
		{"purged", nil, []Seen{purged("forwarded")}, known("forwarded")},
		{"purged, skipped", nil, []Seen{purged("skipped")}, known("skipped")},
		{"purged, vanished", nil, []Seen{purged(PurgedAs(Skipped, SkipVanished))}, isNew},
		{"deleted by others", nil, []Seen{purged("")}, known("")},
		{"unread", nil, []Seen{unread}, Planned{Fate: Moved, TaskID: 3, Note: true, Read: true}},
		{"by its content first", nil, []Seen{row(1, 4, 2, "outline of a", Dead), row(1, 4, 3, "a", Dead)}, moved(3)},
		{"before the start", nil, []Seen{before}, stays},
		{"before the start, found again", nil, []Seen{before, again}, isNew},
		{"before the start, one of two found again", nil, []Seen{before, before, again}, stays},
		{"before the start, in two epochs", nil, []Seen{before, row(1, 3, 0, "outline of a", ""), again}, isNew},
		{"found again already", nil, []Seen{row(1, 4, 3, "a", Forwarded), row(1, 5, 3, "a", Forwarded)}, isNew},
		{"older epoch of another folder", nil, []Seen{row(2, 4, 3, "a", Forwarded)}, isNew},
		{"equal in this epoch", nil, []Seen{row(1, 5, 3, "a", Received)}, isNew},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := entry(9, "a")
			for _, knownOnly := range []bool{false, true} {
				want := c.want
				want.Entry = e
				if knownOnly && want.Fate == New {
					want.Fate, want.Note = Known, false
				}
				page := Page{InboxID: 1, FolderID: 1, Epoch: 5, KnownOnly: knownOnly, Entries: []Entry{e}}
				if got := Plan(page, c.seen, c.found)[0]; got != want {
					t.Errorf("known only %t: %+v, want %+v", knownOnly, got, want)
				}
			}
		})
	}
}

// TestPlanOfWhatCannotBeRead: a message that is there again is not tried again and again while its
// content does not come.
func TestPlanOfWhatCannotBeRead(t *testing.T) {
	e := entry(9, "a")
	e.Identity.Fingerprint = e.Outline()
	got := Plan(Page{Entries: []Entry{e}}, map[uint32]Seen{9: {TaskID: 3, Skip: SkipVanished}}, nil)[0]
	if want := (Planned{Entry: e, Fate: Known, TaskID: 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestPlanPage: two equal messages of a page find two tasks, and a third is new.
func TestPlanPage(t *testing.T) {
	page := Page{InboxID: 1, FolderID: 1, Epoch: 5, Entries: []Entry{entry(1, "a"), entry(2, "a"), entry(3, "a")}}
	found := []Seen{
		{FolderID: 1, Epoch: 4, TaskID: 2, Fingerprint: hash("a"), Status: Forwarded},
		{FolderID: 1, Epoch: 4, TaskID: 3, Fingerprint: hash("a"), Status: Skipped, Skip: SkipDuplicate},
	}
	got := Plan(page, nil, found)
	if got[0].TaskID != 2 || got[1].TaskID != 3 || got[1].Back || got[2].Fate != New {
		t.Errorf("%+v; want tasks 2 and 3, and a new one", got)
	}
}

// TestPlanTurns: of equal messages only one is left. It is the one of the task that needs it most.
func TestPlanTurns(t *testing.T) {
	turns := []Seen{ // in this order, whatever their ids
		{Status: Error},
		{Status: Uncertain},
		{Status: Forwarded},
		{Status: Skipped, Skip: SkipVanished},
	}
	same := [][]Seen{
		{{Status: Received}, {Status: InProgress}, {Status: Error}},
		{{Status: Uncertain}, {Status: Dead}},
		{{Status: Forwarded}, {Status: SkippedNoMatch}, {Status: Skipped, Skip: SkipByRoute}, {PurgedAs: "dead"}},
	}
	find := func(rows ...Seen) int64 {
		for i := range rows {
			rows[i].FolderID, rows[i].Epoch, rows[i].TaskID, rows[i].Fingerprint = 1, 4, int64(i+1), hash("a")
		}
		return Plan(Page{InboxID: 1, FolderID: 1, Epoch: 5, Entries: []Entry{entry(9, "a")}}, nil, rows)[0].TaskID
	}
	for i, first := range turns {
		for _, later := range turns[i+1:] {
			if find(later, first) != 2 || find(first, later) != 1 {
				t.Errorf("the message of %+v is given to %+v", first, later)
			}
		}
	}
	for _, rows := range same {
		for i := range rows {
			if find(rows[i], rows[0]) != 1 {
				t.Errorf("of %+v and %+v, the second has the message; want the first", rows[i], rows[0])
			}
		}
	}
}

// TestPurgedAs: the ledger says as what a purged task ended.
func TestPurgedAs(t *testing.T) {
	for _, c := range []struct {
		status Status
		skip   SkipReason
		as     string
	}{
		{Forwarded, "", "forwarded"},
		{Dead, "", "dead"},
		{SkippedNoMatch, "", "skipped_no_match"},
		{Skipped, SkipOperator, "skipped"},
		{Skipped, SkipVanished, "vanished"},
	} {
		got := PurgedAs(c.status, c.skip)
		if c.skip != SkipVanished { // the only reason that the ledger keeps
			c.skip = ""
		}
		if status, skip := EndedAs(got); got != c.as || status != c.status || skip != c.skip {
			t.Errorf("%s %s is kept as %q, which is %s %s; want %q", c.status, c.skip, got, status, skip, c.as)
		}
	}
}
