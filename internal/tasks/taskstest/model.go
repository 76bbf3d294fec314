package taskstest

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"postrider/internal/tasks"
)

// Model plays the same random operations on a queue and on a memqueue, and compares what both
// answer and what both know after each. What it finds is shrunk and printed as a Go test, to be
// pasted beside the function open, and as the seed that finds it again.
//
// It tries that many cases, the same ones each time, unless -rapid.checks and -rapid.seed
// (RAPID_CHECKS, RAPID_SEED) say otherwise. All times in a case are whole minutes, and are compared
// to the nearest one, so that a case may take up to half a minute. Nothing else may use the
// registry meanwhile.
func Model(t *testing.T, cases int, open func(t *testing.T) Fixture) {
	t.Helper()
	preset(t, "checks", "RAPID_CHECKS", strconv.Itoa(cases))
	preset(t, "seed", "RAPID_SEED", "1")                // set others to search for more
	preset(t, "nofailfile", "RAPID_NOFAILFILE", "true") // the printed test takes its place
	f := open(t)
	all := sequences()
	rapid.Check(t, func(rt *rapid.T) {
		ops := all.Draw(rt, "operations")
		if n, err := play(t, f, ops); err != nil {
			rt.Fatalf("%v\nAs a test:\n\n%s", err, Print(ops[:n]))
		}
	})
	for name, ops := range found {
		t.Run(name, func(t *testing.T) { Replay(t, f, ops...) })
	}
}

// sequence does not print itself when it is drawn: the test does.
type sequence []Op

// GoString implements fmt.GoStringer.
func (s sequence) GoString() string { return strconv.Itoa(len(s)) + ", see below" }

// preset sets a flag of rapid, unless the user of the test has set it.
func preset(t *testing.T, name, env, value string) {
	t.Helper()
	f := flag.Lookup("rapid." + name)
	if _, set := os.LookupEnv(env); set || f.Value.String() != f.DefValue {
		return
	}
	t.Cleanup(func() { _ = f.Value.Set(f.DefValue) })
	if err := f.Value.Set(value); err != nil {
		t.Fatal(err)
	}
}

// Replay plays the operations on the queue and on a memqueue, and fails the test at the first
// difference.
func Replay(t *testing.T, f Fixture, ops ...Op) {
	t.Helper()
	if n, err := play(t, f, ops); err != nil {
		t.Fatalf("after %d operations: %v", n, err)
	}
}

// Op is one operation. It returns what the queue answered, as text in which tasks go by number. So
// do tasks, claims, folders and contents in its fields, and numbers that there are not come round
// again, so that any sequence of operations can be played.
type Op interface{ play(s *side) string }

// world is the queue under test and the memqueue that it is compared with.
type world struct {
	model, tested *side
	last          Op
}

// play plays the operations in a world of their own. It reports how many it played.
func play(t *testing.T, f Fixture, ops []Op) (int, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	salt := rand.Text()
	clock := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	tick := func() time.Time {
		clock = clock.Add(time.Millisecond)
		return clock
	}
	scope, plain := plain(ops)
	w := &world{
		model:  newSide(ctx, t, InMemory(tick), salt),
		tested: newSide(ctx, t, f, salt),
	}
	if plain {
		w.model.delivered, w.model.unread = map[once]int64{}, map[int64]bool{}
		w.model.scope = scope
	}
	for i, op := range ops {
		if err := w.step(op, i%5 == 4); err != nil {
			return i + 1, err
		}
	}
	closing := w.purgeAll
	if plain {
		closing = func() []Op { return settle(scope) }
	}
	for _, op := range append([]Op{Age{}}, closing()...) {
		if err := w.step(op, true); err != nil {
			return len(ops), fmt.Errorf("at the end: %w", err)
		}
	}
	return len(ops), nil
}

// step plays an operation on both, and compares.
func (w *world) step(op Op, everything bool) error {
	if _, again := op.(Again); again {
		if op = w.last; op == nil {
			return nil
		}
	}
	w.last = op
	want, got := op.play(w.model), op.play(w.tested)
	if w.model.broken != "" {
		return fmt.Errorf("%s\nafter %s", w.model.broken, literal(op))
	}
	if got != want {
		return fmt.Errorf("%s answered\n%s\nwant\n%s", literal(op), got, want)
	}
	look := (*side).tasksNow
	if everything {
		look = (*side).everything
	}
	if diff := differences(look(w.tested), look(w.model)); diff != "" {
		return fmt.Errorf("after %s:%s", literal(op), diff)
	}
	return nil
}

// differences are the lines that are not the same.
func differences(got, want []string) string {
	var out strings.Builder
	for i := range max(len(got), len(want)) {
		g, w := "nothing", "nothing"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			fmt.Fprintf(&out, "\n     %s\nwant %s", g, w)
		}
	}
	return out.String()
}

// plain reports whether all operations keep the rules, in one scope. Then no one may get a content
// twice, and nothing may wait for ever.
func plain(ops []Op) (scope tasks.Dedupe, ok bool) {
	scope, ok = "", true
	in := func(d tasks.Dedupe) {
		if scope == "" {
			scope = d
		}
		ok = ok && d == scope && d != tasks.DedupeOff && d != ""
	}
	for _, op := range ops {
		switch op := op.(type) {
		case Register:
			in(op.Dedupe)
		case Work:
			in(op.Dedupe)
		case Do:
			ok = ok && (op.What == "extend" || op.What == "note")
		}
	}
	return scope, ok
}

// settle has everything sent that is left.
func settle(scope tasks.Dedupe) []Op {
	ops := []Op{
		Manage{What: "enable"},
		Manage{What: "enable", N: 1},
		Age{2 * time.Hour},
		drain{scope},
		Operate{What: "resolve"},
		Operate{What: "requeue"},
	}
	for range 3 {
		ops = append(ops, Age{2 * time.Hour}, drain{scope})
	}
	return append(ops, ended{}, Operate{What: "purge"})
}

// purgeAll leaves no task. What was seen stays known: all of it is registered again in new epochs.
func (w *world) purgeAll() []Op {
	var ops, again []Op
	for i := range w.model.claims {
		ops = append(ops, Do{What: "finish", Of: Of{Claim: i}, Status: tasks.Dead})
	}
	ops = append(ops, Operate{What: "skip"}, Operate{What: "purge"})
	for i := range w.model.folders {
		page := Register{Folder: i, Dedupe: tasks.DedupeInbox}
		for n := range contents {
			page.Messages = append(page.Messages, Message{UID: uint32(n + 1), Content: n, Route: "desk", To: people})
		}
		again = append(again, Manage{"new epoch", i}, page)
	}
	return slices.Concat(ops, again)
}
