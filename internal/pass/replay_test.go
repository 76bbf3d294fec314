package pass

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/route"
	"postrider/internal/tasks"
	"postrider/internal/testserver"
)

// replay replays with other rules, and collects what is reported: one line for each message.
func (r *rig) replay(opts ReplayOptions, rules ...route.Rule) (ReplayReport, string) {
	r.t.Helper()
	table, err := route.Compile(rules)
	check(r.t, err)
	p := *r.Pass
	p.Routes = table
	boxes, err := r.store.List(r.t.Context())
	check(r.t, err)
	var mu sync.Mutex
	var lines []string
	opts.Each = func(m Replayed) error {
		mu.Lock()
		defer mu.Unlock()
		line := fmt.Sprintf("%s: %s to %v", m.Subject, m.Before.Route, m.Before.Recipients)
		if m.Now != nil {
			line += fmt.Sprintf(" -> %s to %v %s", m.Now.Route, m.Now.Recipients, m.Now.Status)
		}
		lines = append(lines, strings.TrimSpace(line+" "+m.Why))
		return nil
	}
	if opts.Within == 0 {
		opts.Within = 24 * time.Hour
	}
	return p.Replay(r.t.Context(), boxes, opts), strings.Join(lines, "\n")
}

func (r *rig) wantReplay(opts ReplayOptions, want ReplayCounts, lines string, rules ...route.Rule) ReplayReport {
	r.t.Helper()
	rep, got := r.replay(opts, rules...)
	for _, n := range []int{want.Unchanged, want.Elsewhere, want.Waiting, want.NotByRoute, want.NotCompared} {
		want.Messages += n
	}
	if rep.Totals != want {
		r.t.Errorf("the replay counts %+v, want %+v", rep.Totals, want)
	}
	if got != strings.TrimSpace(lines) {
		r.t.Errorf("the replay reports\n%s\nwant\n%s", got, lines)
	}
	return rep
}

// fetches notes what is fetched.
type fetches struct {
	Source
	headers, bodies *[]uint32
}

func (c fetches) Headers(ctx context.Context, uids []uint32, each eachMessage) (imapsrc.Result, error) {
	*c.headers = append(*c.headers, uids...)
	return c.Source.Headers(ctx, uids, each)
}

func (c fetches) Bodies(ctx context.Context, uids []uint32, each eachMessage) (imapsrc.Result, error) {
	*c.bodies = append(*c.bodies, uids...)
	return c.Source.Bodies(ctx, uids, each)
}

func to(name string) []string { return []string{name + "@firm.example"} }

func subject(words ...string) route.Match { return route.Match{Subject: words} }

// TestReplay: which messages would go elsewhere, and how much of them is fetched, by rules that
// need nothing, headers or bodies.
func TestReplay(t *testing.T) {
	r := newRig(t, auditReply, auditRules...)
	r.add(inbox.StartAll, "INBOX", "Junk")
	check(t, r.imap.CreateFolder(address, "Junk"))
	first := letter("team 1")
	r.put("INBOX", first, letter("never 2"), letter("bulk 3"), letter("nobody 4"), letter("later 5"))
	r.put("Junk", letter("team 6"))
	r.run()
	r.put("INBOX", first) // a duplicate
	r.run()
	before := r.everything()
	var headers, bodies []uint32
	r.behind(func(s Source) Source { return fetches{s, &headers, &bodies} })
	team, boss := "team@firm.example", "boss@firm.example"
	bulk := route.Rule{Name: "bulk", Match: subject("bulk", "nobody"), Skip: true}
	const toAll = " -> all to [team@firm.example boss@firm.example] forwarded\n"
	tests := []struct {
		name            string
		rules           []route.Rule
		want            ReplayCounts
		lines           string
		headers, bodies int
	}{
		{"the same rules", auditRules, ReplayCounts{Unchanged: 6, NotByRoute: 1}, "", 6, 0},
		{
			"by folder alone",
			[]route.Rule{
				{Name: "junk", Match: route.Match{Folder: []string{"Junk"}}, Skip: true},
				{Name: "all", To: []string{team, boss}},
			},
			ReplayCounts{Unchanged: 1, Elsewhere: 5, NotByRoute: 1},
			"never 2: never to [never@firm.example team@firm.example]" + toAll +
				"bulk 3: bulk to []" + toAll +
				"nobody 4:  to []" + toAll +
				"later 5: later to [later@firm.example]" + toAll +
				"team 6: team to [boss@firm.example team@firm.example] -> junk to [] skipped", 0, 0,
		},
		{
			"by a word, after the subject",
			[]route.Rule{
				bulk,
				{Name: "word", Match: route.Match{Body: []string{"hello never"}}, To: to("never")},
				{Name: "all", To: []string{boss, team}},
			},
			ReplayCounts{Unchanged: 4, Elsewhere: 2, NotByRoute: 1},
			`never 2: never to [never@firm.example team@firm.example] -> word to [never@firm.example] forwarded
later 5: later to [later@firm.example] -> all to [boss@firm.example team@firm.example] forwarded`, 6, 4,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			headers, bodies = nil, nil
			r := *r
			r.t = t
			rep := r.wantReplay(ReplayOptions{}, tt.want, tt.lines, tt.rules...)
			if !rep.Whole() {
				t.Errorf("the replay says %+v, want that all was compared", rep)
			}
			if len(headers) != tt.headers || len(bodies) != tt.bodies {
				t.Errorf("fetched %d headers and %d bodies, want %d and %d",
					len(headers), len(bodies), tt.headers, tt.bodies)
			}
		})
	}
	r.wantReplay(ReplayOptions{Route: "team"}, ReplayCounts{Unchanged: 2, NotByRoute: 1}, "", auditRules...)
	if after := r.everything(); after != before {
		t.Errorf("the registry was\n%s\nand is after the replays\n%s", before, after)
	}
}

// everything is all that the registry knows.
func (r *rig) everything() string {
	r.t.Helper()
	var out strings.Builder
	in, err := r.store.Get(r.t.Context(), address)
	check(r.t, err)
	fmt.Fprintf(&out, "%+v\n", in)
	for _, task := range r.tasks() {
		events, err := r.queue.Events(r.t.Context(), task.ID)
		check(r.t, err)
		fmt.Fprintf(&out, "%+v %+v\n", task, events)
	}
	return out.String()
}

// TestReplayOfWhatWaits: undecided tasks are not compared, and old tasks are not read.
func TestReplayOfWhatWaits(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	r.put("INBOX", letter("old"))
	r.run()
	r.clock.advance(48 * time.Hour)
	r.put("INBOX", letter("new"))
	r.Relay = unreachable{r.Relay}
	r.run()
	other := route.Rule{Name: "other", To: to("other")}
	r.wantReplay(ReplayOptions{}, ReplayCounts{Waiting: 1}, "", other)
	r.wantReplay(ReplayOptions{Within: 72 * time.Hour}, ReplayCounts{Waiting: 1, Elsewhere: 1},
		"old: all to [team@firm.example] -> other to [other@firm.example] forwarded", other)
}

// TestReplayWithoutTheMessage: a message that is gone, of an older UIDVALIDITY, or in an inbox that
// cannot be reached is reported. It is still compared when the routes do not need it.
func TestReplayWithoutTheMessage(t *testing.T) {
	word := []route.Rule{
		{Name: "word", Match: route.Match{Body: []string{"nothing like it"}}, To: to("word")},
		{Name: "all", To: to("team")},
	}
	other := route.Rule{Name: "other", To: to("other")}
	const changed = " the UIDVALIDITY of its folder has changed since it was registered, and no run has found it again"
	tests := []struct {
		name  string
		what  func(r *rig)
		lines string
		whole bool
		want  ReplayCounts
	}{
		{
			"gone", func(r *rig) { check(r.t, r.imap.Expunge(address, "INBOX", 1)) },
			"one: all to [team@firm.example] it is no longer on the server", true,
			ReplayCounts{Unchanged: 1, NotCompared: 1},
		},
		{
			"UIDVALIDITY", func(r *rig) { check(r.t, r.imap.SetUIDValidity(address, "INBOX", 4711)) },
			"one: all to [team@firm.example]" + changed + "\ntwo: all to [team@firm.example]" + changed, true,
			ReplayCounts{NotCompared: 2},
		},
		{
			"folder", func(r *rig) {
				r.behind(func(s Source) Source { return noFolder{s} })
			},
			"one: all to [team@firm.example] there is no such folder\n" +
				"two: all to [team@firm.example] there is no such folder", false,
			ReplayCounts{NotCompared: 2},
		},
		{
			"unreachable", func(r *rig) {
				r.Dial = func(context.Context, inbox.Inbox) (Source, error) { return nil, errors.New("nobody there") }
			},
			"one: all to [team@firm.example] nobody there\ntwo: all to [team@firm.example] nobody there", false,
			ReplayCounts{NotCompared: 2},
		},
		{
			"disabled", (*rig).disable,
			`one: all to [team@firm.example] the inbox is disabled; name it with --inbox desk@firm.example
two: all to [team@firm.example] the inbox is disabled; name it with --inbox desk@firm.example`, true,
			ReplayCounts{NotCompared: 2},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, nil)
			r.add(inbox.StartAll)
			r.put("INBOX", letter("one"), letter("two"))
			r.run()
			tt.what(r)
			if rep := r.wantReplay(ReplayOptions{}, tt.want, tt.lines, word...); rep.Whole() != tt.whole {
				t.Errorf("the replay says %+v, want whole to be %v", rep, tt.whole)
			}
			r.wantReplay(ReplayOptions{}, ReplayCounts{Elsewhere: 2},
				"one: all to [team@firm.example] -> other to [other@firm.example] forwarded\n"+
					"two: all to [team@firm.example] -> other to [other@firm.example] forwarded", other)
		})
	}
}

type noFolder struct{ Source }

func (noFolder) Select(context.Context, string) (imapsrc.Folder, error) {
	return imapsrc.Folder{}, errors.New("there is no such folder")
}

// TestReplayOfDisabled: the address in the flag is quoted for a shell.
func TestReplayOfDisabled(t *testing.T) {
	a := newReplayer(visit{in: inbox.Inbox{Address: "o'brien@firm.example"}}, ReplayOptions{})
	want := `the inbox is disabled; name it with --inbox 'o'\''brien@firm.example'`
	if got := fmt.Sprint(a.shut); got != want {
		t.Errorf("the reason is %q, want %q", got, want)
	}
}

// TestReplayGoesOn: a message that breaks the connection does not affect the others.
func TestReplayGoesOn(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	r.put("INBOX", letter("one"), letter("two"), letter("three"))
	r.run()
	r.behind(func(s Source) Source { return brittle{s, 2} })
	r.wantReplay(ReplayOptions{}, ReplayCounts{Unchanged: 2, NotCompared: 1},
		"two: all to [team@firm.example] imap : : broken",
		route.Rule{Name: "none", Match: subject("none"), To: to("none")}, route.Rule{Name: "all", To: to("team")})
}

// brittle is a server whose connection breaks when one message is fetched.
type brittle struct {
	Source
	uid uint32
}

func (b brittle) Headers(ctx context.Context, uids []uint32, each eachMessage) (imapsrc.Result, error) {
	i := slices.Index(uids, b.uid)
	if i < 0 {
		return b.Source.Headers(ctx, uids, each)
	}
	return imapsrc.Result{}, &imapsrc.Error{Kind: imapsrc.KindNetwork, UID: b.uid, Err: errors.New("broken")}
}

// TestReplayOfLargeMessages: with notices, a message that is too large is decided by its header
// alone.
func TestReplayOfLargeMessages(t *testing.T) {
	for _, notices := range []bool{true, false} {
		r := newRig(t, nil)
		r.Config.Notices, r.Config.MaxSize = notices, 2000
		r.add(inbox.StartAll)
		r.put("INBOX", testserver.Mail("alice@client.example", address, "large", strings.Repeat("hello\n", 1000)))
		r.run()
		var headers, bodies []uint32
		r.behind(func(s Source) Source { return fetches{s, &headers, &bodies} })
		want, lines := ReplayCounts{NotByRoute: 1}, ""
		if notices {
			want = ReplayCounts{Elsewhere: 1}
			lines = "large: all to [team@firm.example] -> rest to [rest@firm.example] forwarded"
		}
		r.wantReplay(ReplayOptions{}, want, lines,
			route.Rule{Name: "word", Match: route.Match{Body: []string{"hello"}}, To: to("word")},
			route.Rule{Name: "rest", To: to("rest")})
		if len(bodies) > 0 {
			t.Errorf("fetched %d bodies, want none of what is too large", len(bodies))
		}
	}
}

// TestReplayHoldsLittle: of a hundred thousand messages at most a page is in memory.
func TestReplayHoldsLittle(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	r.put("INBOX", letter("one"))
	r.run()
	many := &endless{Queue: r.queue, one: r.tasks()[0], n: 100_000}
	r.Queue = many
	rep, _ := r.replay(ReplayOptions{}, route.Rule{Name: "all", To: to("team")})
	if rep.Totals.Unchanged != many.n {
		t.Errorf("the replay says %+v, want %d unchanged", rep.Totals, many.n)
	}
	if many.heap > 16<<20 {
		t.Errorf("the heap grew by %d octets during 400 MB of tasks, want at most 16 MiB", many.heap)
	}
}

// endless lists one task again and again, each time with a large subject of its own.
type endless struct {
	tasks.Queue
	one  tasks.Task
	n    int
	heap int64 // by which it grew
}

func (q *endless) List(_ context.Context, _ tasks.Filter, each func(tasks.Task) error) error {
	before := heap()
	for i := range q.n {
		q.one.Identity.Subject = strings.Repeat("x", 4096)
		if err := each(q.one); err != nil {
			return err
		}
		if i%20_000 == 0 {
			q.heap = max(q.heap, heap()-before)
		}
	}
	return nil
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
