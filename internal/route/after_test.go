package route

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAction(t *testing.T) {
	for in, want := range map[string]Action{
		"keep": Keep, "seen": Seen, "delete": Delete,
		"flag: $Forwarded": "flag:$Forwarded", `flag: \Flagged`: `flag:\Flagged`,
		"move: Archive/2026": "move:Archive/2026", "move: Erledigt & alt": "move:Erledigt & alt",
		" move :A": "move:A", "move: Inbox": "move:INBOX",
	} {
		var got Action
		if err := got.UnmarshalText([]byte(in)); err != nil || got != want {
			t.Errorf("%q is %q, %v; want %q", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"": "keep, seen", "remove": "keep, seen", "seen: x": "keep, seen", "delete:": "keep, seen",
		"move:": "name of a folder", "move: a\tb": "name of a folder",
		"move: " + strings.Repeat("x", 300): "name of a folder", `flag: \Deleted`: "not a flag that can be set",
		"flag:": "keyword", "flag: a b": "keyword", "flag: ü": "keyword", "flag: (x": "keyword",
		`flag: \Recent`: "not a flag that can be set",
	} {
		var got Action
		if err := got.UnmarshalText([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %q, %v; want an error with %q", in, got, err, want)
		}
	}
}

// TestActions: a rule that never matches a message of the inbox does nothing there.
func TestActions(t *testing.T) {
	day := 24 * time.Hour
	to := []string{"a@x.example"}
	table := compile(t,
		Rule{Name: "two", Match: Match{Inbox: []string{"two@firm.example"}}, To: to, After: After{Forwarded: Delete}},
		Rule{
			Name: "acme", Match: Match{Label: []string{"tenant=acme"}, Subject: []string{"rent"}}, To: to,
			After: After{Forwarded: "move:Acme", Dead: Seen},
		},
		Rule{Name: "rest", To: to, After: After{Forwarded: Keep, DeleteAfter: &day}},
	)
	for inbox, want := range map[string][]Action{
		"two@firm.example": {"flag:$X", Delete},
		"one@firm.example": {"flag:$X", "move:Acme", Seen, Delete},
	} {
		if got := table.Actions(After{SkippedNoMatch: "flag:$X"}, inbox, "tenant=acme"); !slices.Equal(got, want) {
			t.Errorf("%s has the actions %q, want %q", inbox, got, want)
		}
	}
	if got, want := table.Actions(After{}, "one@firm.example"), []Action{Delete}; !slices.Equal(got, want) {
		t.Errorf("without the label these are %q, want %q", got, want)
	}
}

// TestActionsOfRoutes: an action of general that each rule replaces is none. It is one for a rule
// that does not replace it, and for a message that no rule matches.
func TestActionsOfRoutes(t *testing.T) {
	day, never := 24*time.Hour, time.Duration(0)
	general := After{Forwarded: "move:G", SkippedNoMatch: "flag:$X", DeleteAfter: &day}
	own := After{Forwarded: Seen, DeleteAfter: &never}
	some, to := Match{Subject: []string{"rent"}}, []string{"a@x.example"}
	onSome, goOn := Rule{Match: some, To: to, After: own}, Rule{To: to, Continue: true}
	for name, tt := range map[string]struct {
		rules []Rule
		want  []Action
	}{
		"all":               {[]Rule{{To: to, After: own}}, []Action{"flag:$X", Seen}},
		"some":              {[]Rule{onSome}, []Action{"flag:$X", Seen}},
		"some, skip others": {[]Rule{onSome, {Skip: true}}, []Action{"flag:$X", Seen}},
		"some, and others":  {[]Rule{onSome, {To: to}}, []Action{"flag:$X", Seen, "move:G", Delete}},
		"continue, skip": {
			[]Rule{goOn, {Match: some, Skip: true, After: own}},
			[]Action{"flag:$X", "move:G", Delete, Seen},
		},
		"continue": {[]Rule{goOn, onSome}, []Action{"flag:$X", "move:G", Delete, Seen}},
		"a key":    {[]Rule{{To: to, After: After{Forwarded: Seen}}}, []Action{"flag:$X", Seen, Delete}},
	} {
		for i := range tt.rules {
			tt.rules[i].Name = string(rune('a' + i))
		}
		if got := compile(t, tt.rules...).Actions(general, "one@firm.example"); !slices.Equal(got, tt.want) {
			t.Errorf("%s: the actions are %q, want %q", name, got, tt.want)
		}
	}
}

// TestActionsOfSomeMessages: what depends on the folder or the size holds for some messages of the
// inbox, and not for others.
func TestActionsOfSomeMessages(t *testing.T) {
	for name, match := range map[string]Match{
		"folder":     {Folder: []string{"Junk"}},
		"not folder": {Not: &Match{Folder: []string{"INBOX"}}},
		"larger":     {Larger: 1 << 20},
		"smaller":    {Smaller: 1 << 20},
		"any":        {Any: []Match{{Folder: []string{"Junk"}}, {Inbox: []string{"two@firm.example"}}}},
	} {
		table := compile(t,
			Rule{Name: "some", Match: match, To: []string{"a@x.example"}, After: After{Forwarded: "move:A"}},
			Rule{Name: "rest", To: []string{"a@x.example"}, After: After{Forwarded: "move:B"}},
		)
		want := []Action{"move:A", "move:B"}
		if got := table.Actions(After{}, "one@firm.example"); !slices.Equal(got, want) {
			t.Errorf("%s: the actions are %q, want %q", name, got, want)
		}
	}
}

// TestAfter: the first rule with a key decides, key by key.
func TestAfter(t *testing.T) {
	day, never := 24*time.Hour, time.Duration(0)
	table, err := Compile([]Rule{
		{Name: "a", To: []string{"a@x.example"}, After: After{Dead: Seen}},
		{Name: "b", To: []string{"a@x.example"}, After: After{Forwarded: "move:B", Dead: Keep, DeleteAfter: &never}},
		{Name: "c", To: []string{"a@x.example"}, After: After{Forwarded: Delete}},
	})
	if err != nil {
		t.Fatal(err)
	}
	general := After{Forwarded: "flag:$X", SkippedNoMatch: Seen, DeleteAfter: &day}
	for route, want := range map[string]struct {
		forwarded, noMatch, dead Action
		deletes                  time.Duration
	}{
		"":      {"flag:$X", Seen, "", day},
		"a":     {"flag:$X", Seen, Seen, day},
		"b+c":   {"move:B", Seen, Keep, 0},
		"a+c":   {Delete, Seen, Seen, day},
		"gone":  {"flag:$X", Seen, "", day},
		"a+b+…": {"move:B", Keep, Seen, 0},
		"a+…":   {Keep, Keep, Seen, 0},
	} {
		got := table.After(route, general)
		if got.Forwarded != want.forwarded || got.SkippedNoMatch != want.noMatch ||
			got.Dead != want.dead || got.Deletes() != want.deletes {
			t.Errorf("after %q: %q, %q, %q, %s; want %+v",
				route, got.Forwarded, got.SkippedNoMatch, got.Dead, got.Deletes(), want)
		}
	}
}
