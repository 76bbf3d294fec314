package config

import (
	"slices"
	"strings"
	"testing"
	"time"

	"postrider/internal/outbox"
	"postrider/internal/route"
)

// afterText is minimal with a section after, and a key after in a route.
func afterText(after, ofRoute string) string {
	withRoute := strings.Replace(minimal, "to: desk@firm.example}", "to: desk@firm.example, after: "+ofRoute+"}", 1)
	return withRoute + "after: " + after + "\n"
}

func TestAfter(t *testing.T) {
	const after = "{forwarded: {move: 'Done, 2026'}, skipped_no_match: delete, dead: {flag: $Failed}, " +
		"create_folders: true}"
	c := load(t, afterText(after, "{forwarded: keep}"))
	if c.After.Forwarded != "move:Done, 2026" || c.After.SkippedNoMatch != route.Delete ||
		c.After.Dead != "flag:$Failed" || !c.After.CreateFolders {
		t.Errorf("after is %+v", c.After)
	}
	if got := c.Routes[0].After; got.Forwarded != route.Keep {
		t.Errorf("after of the route is %+v", got)
	}
	want := []outbox.Kind{outbox.Forwarded, outbox.SkippedNoMatch, outbox.Dead}
	if !slices.Equal(c.AfterKinds(), want) {
		t.Errorf("something follows after %q, want %q", c.AfterKinds(), want)
	}
	c = load(t, afterText("{forwarded: keep, delete_after: 30d}", "{delete_after: 0s}"))
	if c.After.Rule().Deletes() != 720*time.Hour || c.Routes[0].After.DeleteAfter == nil ||
		!slices.Equal(c.AfterKinds(), []outbox.Kind{outbox.Forwarded}) {
		t.Errorf("after is %+v and %+v", c.After, c.Routes[0].After)
	}
	if kinds := load(t, minimal).AfterKinds(); len(kinds) > 0 {
		t.Errorf("without it, something follows after %q", kinds)
	}
}

func TestAfterErrors(t *testing.T) {
	for _, tt := range []struct{ after, ofRoute, more, want string }{
		{
			"{forwarded: remove}", "{}", "",
			`after.forwarded: has to be keep, seen, delete, {flag: FLAG} or {move: FOLDER}, not "remove"`,
		},
		{
			"{forwarded: {move: A, flag: B}}", "{}", "",
			"after.forwarded: has to be keep, seen, delete, {flag: FLAG} or {move: FOLDER} " +
				"with one key and one name, not a section",
		},
		{
			"{forwarded: '{move: A}'}", "{}", "",
			`after.forwarded: is text with braces, "{move: A}"; ` +
				"in a variable or in quotes, write flag: FLAG or move: FOLDER without them",
		},
		{"{forwarded: {copy: A}}", "{}", "", "after.forwarded: has to be keep, seen"},
		{"{forwarded: {flag: \\Deleted}}", "{}", "", `after.forwarded: \Deleted is not a flag that can be set`},
		{"{dead: {move: A}}", "{}", "", "after.dead: cannot be move"},
		{"{dead: seen}", "{dead: delete}", "", "routes[0].after.dead: cannot be delete"},
		{
			"{forwarded: delete, delete_after: 30d}", "{}", "",
			"after.delete_after: cannot be combined with forwarded: delete",
		},
		{
			"{delete_after: 30d}", "{forwarded: {move: A}}", "",
			"routes[0].after.delete_after: cannot be combined with forwarded: move",
		},
		{"{delete_after: -1s}", "{}", "", "after.delete_after: is negative"},
		{"{forwarded: {move: A}}", "{}", "dedupe: off\n", "after.forwarded: cannot move messages while dedupe is off"},
		{
			"{delete_after: 30d}", "{}", "retention: {forwarded: 7d}\n",
			"after.delete_after: is too long for retention.forwarded",
		},
		{
			"{skipped_no_match: delete}", "{skipped_no_match: keep}", "",
			":4:64: routes[0].after.skipped_no_match: unknown key; did you mean after.skipped_no_match?",
		},
		{
			"{}", "seen", "",
			"routes[0].after: has to be a section with the keys forwarded, dead, delete_after, not a single value",
		},
		{"{forwarded: seen, moved: x}", "{}", "", "after.moved: unknown key"},
	} {
		got := loadErrors(t, write(t, afterText(tt.after, tt.ofRoute)+tt.more), variables())
		if !strings.Contains(got, tt.want) || strings.Count(got, "\n") > 1 {
			t.Errorf("%s, %s: the errors are %s; want %q alone", tt.after, tt.ofRoute, got, tt.want)
		}
	}
}
