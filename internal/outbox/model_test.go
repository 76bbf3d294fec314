package outbox

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"
	"pgregory.net/rapid"

	"postrider/internal/db"
)

// TestModel plays random operations on the store and on a model in memory, and compares what both
// answer and what both know after each. A case that fails is made as short as possible, and printed
// with the seed that finds it again. It tries the same cases each time, unless -rapid.seed and
// -rapid.checks say otherwise.
//
// All times in a case are whole minutes, and are compared to the nearest one, so that a case may
// take up to half a minute.
func TestModel(t *testing.T) {
	for name, value := range map[string]string{
		"rapid.seed": "1", "rapid.checks": "40", "rapid.steps": "50", "rapid.nofailfile": "true",
	} {
		if f := flag.Lookup(name); f.Value.String() == f.DefValue {
			t.Cleanup(func() { _ = f.Value.Set(f.DefValue) })
			if err := f.Value.Set(value); err != nil {
				t.Fatal(err)
			}
		}
	}
	onEach(t, func(t *testing.T, b bench) {
		other := b.another()
		rapid.Check(t, func(rt *rapid.T) {
			m := &machine{
				T: rt, Store: b.Store, other: other,
				planned: map[string]bool{}, made: map[string]bool{}, before: map[int64]Entry{},
			}
			m.exec(`DELETE FROM monitored_occurrences`)
			m.exec(`DELETE FROM monitored_outbox`)
			rt.Repeat(map[string]func(*rapid.T){
				"": m.check, "note": m.note, "note again": m.note, "expand": m.expand, "expand again": m.expand,
				"receive": m.receive, "receive again": m.receive, "finish": m.finish, "finish again": m.finish,
				"extend": m.extend, "age": m.age, "retry": m.retry, "skip": m.skip, "purge": m.purge,
				"expire": m.expire, "remove or add a destination": m.configure,
			})
		})
	})
}

// machine is the store, the model, and what was seen of the store so far.
type machine struct {
	*rapid.T
	*Store
	model   model
	other   *Store // as another process has it
	removed bool   // the destination bus is not in the configuration

	claims  []Claim         // all that were ever handed out
	planned map[string]bool // event IDs
	made    map[string]bool // event IDs of the entries that were ever there
	before  map[int64]Entry // what was there after the last operation
}

func (m *machine) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

func (m *machine) exec(query string, args ...any) {
	m.Helper()
	m.must(m.db.Tx(m.Context(), func(tx *gorm.DB) error {
		_, err := db.Exec(tx, query, args...)
		return err
	}))
}

// same compares an answer of the store with that of the model.
func (m *machine) same(what string, got, want any) {
	m.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		m.Fatalf("%s answers\n%s\nwant\n%s", what, g, w)
	}
}

// legal are the states that follow one another. An entry that is not there has none.
var legal = map[Status][]Status{
	"":         {Waiting, InProgress},
	Waiting:    {InProgress, Dropped},
	InProgress: {Waiting, Done, DeadLetter, Dropped},
	Done:       {""},
	DeadLetter: {Waiting, Dropped, ""},
	Dropped:    {Waiting, ""},
}

// check compares all that is there with the model, and with what was there before.
func (m *machine) check(*rapid.T) {
	var lines []string
	after := map[int64]Entry{}
	now := m.now()
	listed, err := m.List(m.Context(), Filter{})
	m.must(err)
	for _, e := range listed {
		whole, err := m.Get(m.Context(), e.ID)
		m.must(err)
		e.Body = whole.Body
		after[e.ID] = e
		due := "never"
		if e.VisibleAt != nil {
			due = fmt.Sprint(int(e.VisibleAt.Sub(now).Round(time.Minute) / time.Minute))
		}
		lines = append(lines, line(e, due, e.FinishedAt != nil))
	}
	m.same("a list", strings.Join(lines, "\n"), strings.Join(m.model.lines(), "\n"))
	m.same("the receipts", m.receipts(), m.model.receipts())
	occurrences, err := unexpanded(m.Context(), m.Store)
	m.must(err)
	m.same("the number of occurrences", occurrences, len(m.model.noted))
	var configured []Destination
	for _, name := range m.destinations() {
		configured = append(configured, Destination{Name: name})
	}
	standings, err := m.Standings(m.Context(), configured...)
	m.must(err)
	var counts []string
	for _, s := range standings {
		counts = append(counts, fmt.Sprint(s.Name, s.Counts))
	}
	m.same("a count", counts, m.model.counts(m.destinations()))
	m.invariants(after)
	m.before = after
}

// invariants holds what is there against what was there before. It knows nothing of the model.
func (m *machine) invariants(after map[int64]Entry) {
	ids := map[int64]bool{}
	for id := range m.before {
		ids[id] = true
	}
	for id, e := range after {
		ids[id] = true
		if before, old := m.before[id]; old && e.EventID != before.EventID {
			m.Fatalf("entry %d has the event ID %s, and had %s", id, e.EventID, before.EventID)
		} else if !old && (m.made[e.EventID] || !m.planned[e.EventID]) {
			m.Fatalf("entry %d of the event %s is new; want that event planned, and made only once", id, e.EventID)
		}
		m.made[e.EventID] = true
	}
	for id := range ids {
		from, to := m.before[id].Status, after[id].Status
		if from != to && !slices.Contains(legal[from], to) {
			m.Fatalf("entry %d went from %q to %q", id, from, to)
		}
	}
	var good map[holding]bool
	m.must(m.db.View(m.Context(), func(tx *gorm.DB) (err error) {
		good, err = stand(tx, m.claims, InProgress)
		return err
	}))
	holder := map[int64]string{}
	for _, c := range m.claims {
		if good[c.holding()] && holder[c.ID] != "" && holder[c.ID] != c.Receipt {
			m.Fatalf("two claims of entry %d are good", c.ID)
		} else if good[c.holding()] {
			holder[c.ID] = c.Receipt
		}
	}
}

// receipts are those in the table, in the order in which the entries were made.
func (m *machine) receipts() (all []string) {
	m.Helper()
	m.must(m.db.View(m.Context(), func(tx *gorm.DB) (err error) {
		all, err = db.Query(tx, db.Value[string], `SELECT receipt FROM monitored_outbox ORDER BY id`)
		return err
	}))
	return all
}

func (m *machine) now() (now time.Time) {
	m.Helper()
	m.must(m.db.View(m.Context(), func(tx *gorm.DB) (err error) {
		now, err = m.db.Now(tx)
		return err
	}))
	return now
}

func (m *machine) destinations() []string {
	if m.removed {
		return []string{"crm"}
	}
	return []string{"bus", "crm"}
}

// model is what the store promises, as slices. An entry is known by its event ID.
type model struct {
	clock   moment
	noted   []Occurrence
	entries []*modelled // in the order in which they were made
}

// moment is a time: how many minutes have passed, and what came first in one of them.
type moment struct{ minute, step int }

func (a moment) compare(b moment) int {
	return cmp.Or(cmp.Compare(a.minute, b.minute), cmp.Compare(a.step, b.step))
}

// modelled is an entry of the model. Of Entry it has not ID, VisibleAt, CreatedAt and FinishedAt.
type modelled struct {
	Entry
	due     moment // unless it has ended
	receipt string
}

func (e *modelled) live() bool { return e.Status == Waiting || e.Status == InProgress }

func (m *model) lines() (lines []string) {
	for _, e := range m.entries {
		due := "never"
		if e.live() {
			due = fmt.Sprint(e.due.minute - m.clock.minute)
		}
		lines = append(lines, line(e.Entry, due, !e.live()))
	}
	return lines
}

func (m *model) receipts() (all []string) {
	for _, e := range m.entries {
		all = append(all, e.receipt)
	}
	return all
}

func line(e Entry, due string, ended bool) string {
	return fmt.Sprintf("%s %s %s of task %d, inbox %d, occurrence %d, %s: %s, %d attempts, by %q, due %s, ended %t, %q",
		e.EventID, e.Destination, e.Kind, e.TaskID, e.InboxID, e.OccurrenceID, e.Body, e.Status, e.Attempts,
		e.Worker, due, ended, e.Error)
}

// counts are those of the named destinations, and of others that have live entries.
func (m *model) counts(names []string) (out []string) {
	by, live := map[string]map[Status]int{}, map[string]bool{}
	for _, name := range names {
		by[name], live[name] = map[Status]int{}, true
	}
	for _, e := range m.entries {
		if by[e.Destination] == nil {
			by[e.Destination] = map[Status]int{}
		}
		by[e.Destination][e.Status]++
		live[e.Destination] = live[e.Destination] || e.live()
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		if live[name] {
			out = append(out, fmt.Sprint(name, by[name]))
		}
	}
	return out
}

// of returns the entry of an event, or nil if it was deleted.
func (m *model) of(eventID string) *modelled {
	for _, e := range m.entries {
		if e.EventID == eventID {
			return e
		}
	}
	return nil
}

// due are the entries that Receive claims.
func (m *model) due(want Want) (due []*modelled) {
	for _, e := range m.entries {
		waits := slices.ContainsFunc(m.entries, func(p *modelled) bool {
			return p.live() && p.OccurrenceID < e.OccurrenceID && sameLine(p.Entry, e.Entry)
		})
		if e.live() && !waits && e.Destination == want.Destination &&
			(want.InboxID == 0 || e.InboxID == want.InboxID) && e.due.compare(m.clock) <= 0 {
			due = append(due, e)
		}
	}
	slices.SortStableFunc(due, func(a, b *modelled) int { return a.due.compare(b.due) })
	return due[:min(want.Max, len(due))]
}

// fresh are the entries that Expand claims of those that it made, which begin at an index.
func (m *model) fresh(from, delay int, wants []Want) (claimed []*modelled) {
	left := slices.Clone(wants)
	for i, e := range m.entries[from:] {
		before := func(p *modelled) bool { return p.live() && sameLine(p.Entry, e.Entry) }
		waits := slices.ContainsFunc(m.entries[:from+i], before)
		w := slices.IndexFunc(left, func(w Want) bool { return w.Destination == e.Destination })
		if waits || w < 0 || left[w].Max <= 0 || e.TaskID == 0 || delay > 0 {
			continue
		}
		left[w].Max--
		m.claim(e, left[w])
		claimed = append(claimed, e)
	}
	return claimed
}

func (m *model) claim(e *modelled, want Want) {
	e.Status, e.Worker, e.due = InProgress, want.Worker, m.after(int(want.Lease/time.Minute))
	e.Attempts++
}

// sameLine reports whether two entries are kept in their order.
func sameLine(a, b Entry) bool {
	return a.Destination == b.Destination && a.TaskID == b.TaskID && a.InboxID == b.InboxID
}

// after is so many minutes from now.
func (m *model) after(minutes int) moment { return moment{m.clock.minute + minutes, m.clock.step} }
