package taskstest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"postrider/internal/message"
	"postrider/internal/tasks"
)

// Model drives a queue and a simple model of it with the same random operations and compares them after each. What it
// finds is shrunk and printed as a Go test, to be pasted beside the function open, and as the seed that finds it again.
//
// It tries that many cases, the same ones each time, unless -rapid.checks and -rapid.seed (RAPID_CHECKS, RAPID_SEED) say
// otherwise. No case waits: all waits are whole
// minutes and all limits have half a minute more, so that a case may take that long without changing its outcome.
// Nothing else may use the registry meanwhile.
func Model(t *testing.T, cases int, open func(t *testing.T) Fixture) {
	t.Helper()
	preset(t, "checks", "RAPID_CHECKS", strconv.Itoa(cases))
	preset(t, "seed", "RAPID_SEED", "1")                // the same cases in each run of the tests, others where somebody looks for more
	preset(t, "nofailfile", "RAPID_NOFAILFILE", "true") // the printed test takes its place
	f := open(t)
	// Slices are short by nature: three of each other make them long, and can still be shrunk to one operation.
	all := rapid.Map(rapid.SliceOfN(rapid.SliceOfN(anyOps(), 1, 20), 1, 8), func(parts [][][]Op) sequence {
		return slices.Concat(slices.Concat(parts...)...)
	})
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

// preset is a flag of rapid's that stands unless it was set by whoever runs the test.
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

// Replay plays the operations to the queue and to the model, and fails the test at the first difference.
func Replay(t *testing.T, f Fixture, ops ...Op) {
	t.Helper()
	if n, err := play(t, f, ops); err != nil {
		t.Fatalf("after %d operations: %v", n, err)
	}
}

// Op is one operation, on the queue and on the model. It tells where they differ. Tasks, folders and contents go by number, and numbers
// that there are not come round again, so that any sequence of operations can be played.
type Op interface{ play(w *world) error }

// play plays the operations in a world of their own. It reports how many it played.
func play(t *testing.T, f Fixture, ops []Op) (int, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := newWorld(ctx, t, f)
	for i, op := range ops {
		if err := w.step(op, i%5 == 4); err != nil {
			return i + 1, fmt.Errorf("%w\nafter %s", err, literal(op))
		}
	}
	if err := w.compare(); err != nil {
		return len(ops), fmt.Errorf("%w\nat the end", err)
	}
	if err := w.end(); err != nil {
		return len(ops), fmt.Errorf("%w\nwith all tasks ended and purged", err)
	}
	return len(ops), nil
}

func (w *world) step(op Op, all bool) error {
	if _, again := op.(Again); !again {
		w.last = op
	}
	if err := op.play(w); err != nil {
		return err
	}
	if all {
		return w.compare()
	}
	return w.compareTasks()
}

// world is the model: all that a queue should know, as plainly as it can be said. Its clock moves when Age does.
type world struct {
	Fixture
	t       *testing.T
	ctx     context.Context
	salt    string // of all that has to be unlike that of other worlds
	now     time.Duration
	folders []*folder
	tasks   []*task // by id
	rows    []*row  // the ledger
	trail   []line
	claims  []held
	tokens  map[string]bool
	unused  map[int64]bool // inboxes out of use
	sent    map[recipient]*task
	last    Op
	removed int // inboxes
}

// recipient is somebody to whom a message of an inbox went.
type recipient struct {
	inbox   int64
	content message.Fingerprint
	address string
}

type folder struct {
	id, inbox, epoch, token int64
	cursor, baseline        uint32
}

// task is a task as the queue should show it. Its times are the model's; those in Task are as the queue showed them last.
type task struct {
	tasks.Task
	visible, created, queued, ended time.Duration
	token                           string
	settled                         bool // the holder of the token has ended the claim, and nobody did anything since
	read                            bool // its content is known
	plain                           bool // all that was done to it was done by the rules, and where equal messages count as the same one
	purged                          bool
}

// row is one message: as what it is known, and what task it has; none when it was there before the start.
type row struct {
	folder *folder
	epoch  int64
	uid    uint32
	key    message.Fingerprint
	task   *task
}

// line is one line of the audit trail.
type line struct {
	id            int64
	at            time.Duration
	event, worker string
}

// held is a claim in the hands of a worker.
type held struct {
	tasks.Claim
	task *task
	due  time.Duration // when it had become visible
	at   time.Duration
}

// newWorld is two inboxes, one with two folders and one with one, and an empty trail.
func newWorld(ctx context.Context, t *testing.T, f Fixture) *world {
	t.Helper()
	w := &world{Fixture: f, t: t, ctx: ctx, salt: rand.Text(), tokens: map[string]bool{}, unused: map[int64]bool{}, sent: map[recipient]*task{}}
	a, b := f.Inbox(t, fmt.Sprintf("a%s@example.com", w.salt)), f.Inbox(t, fmt.Sprintf("b%s@example.com", w.salt))
	for _, at := range []struct {
		inbox int64
		name  string
	}{{a, "INBOX"}, {a, "Junk"}, {b, "INBOX"}} {
		w.folders = append(w.folders, &folder{id: f.Folder(t, at.inbox, at.name, epoch), inbox: at.inbox, epoch: epoch})
	}
	if _, err := f.Queue.ExpireEvents(ctx, -24*time.Hour, 1<<30); err != nil {
		t.Fatal(err)
	}
	return w
}

// hash is a fingerprint that only this world has.
func (w *world) hash(what string, n int) message.Fingerprint {
	return sha256.Sum256(fmt.Append(nil, w.salt, what, n))
}

// content and outline: some contents share their outline.
func (w *world) content(n int) message.Fingerprint { return w.hash("content", n) }
func (w *world) outline(n int) message.Fingerprint { return w.hash("outline", n%4) }

// isContent: a message is known by that once it was read.
func (w *world) isContent(key message.Fingerprint) bool {
	for n := range contents {
		if w.content(n) == key {
			return true
		}
	}
	return false
}

func (w *world) folder(n int) *folder { return w.folders[n%len(w.folders)] }

// note adds a line to the trail.
func (w *world) note(id int64, event, worker string) {
	w.trail = append(w.trail, line{id, w.now, event, worker})
}

// name is a task's name in messages: ids differ from run to run.
func (w *world) name(t *task) string {
	for i, other := range w.tasks {
		if other == t {
			return fmt.Sprintf("task %d", i)
		}
	}
	return "no task"
}

func (w *world) byID(id int64) *task {
	for _, t := range w.tasks {
		if t.ID == id && id != 0 { // those of a dry run have none
			return t
		}
	}
	return nil
}
