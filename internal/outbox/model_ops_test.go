package outbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"gorm.io/gorm"
	"pgregory.net/rapid"
)

func small(t *rapid.T, name string, most int) int { return rapid.IntRange(0, most).Draw(t, name) }

func pick[V any](t *rapid.T, name string, from ...V) V { return rapid.SampledFrom(from).Draw(t, name) }

// inboxOf is the inbox of a task, or of an occurrence of an inbox.
func inboxOf(o Occurrence) int64 { return max(o.InboxID, o.TaskID%2+1) }

func (m *machine) note(t *rapid.T) {
	o := Occurrence{Kind: pick(t, "kind", Registered, Forwarded, Dead), TaskID: int64(small(t, "task", 3))}
	if o.TaskID == 0 {
		o.Kind, o.InboxID = InboxOK, int64(small(t, "inbox", 1)+1)
	}
	n := 1 + small(t, "more", 2)
	m.must(m.db.Tx(m.Context(), func(tx *gorm.DB) error {
		now, err := m.db.Now(tx)
		if err != nil {
			return err
		}
		return Note(tx, now, slices.Repeat([]Occurrence{o}, n))
	}))
	m.model.noted = append(m.model.noted, slices.Repeat([]Occurrence{o}, n)...)
}

// expand expands some occurrences, and claims some of the new entries. The plan may fail, and
// another process may be faster.
func (m *machine) expand(t *rapid.T) {
	most, faster := 1+small(t, "most", 4), small(t, "faster", 2)
	fails, delay := small(t, "fails", 9) == 9, small(t, "delay", 1)
	var wants []Want
	for _, d := range m.destinations() {
		lease := time.Duration(1+small(t, "lease", 2)) * time.Minute
		wants = append(wants, Want{
			Destination: d, Max: small(t, "wanted", 3) - 1, Lease: lease, Worker: pick(t, "worker", "a", "b"),
		})
	}
	m.model.clock.step++
	failed := errors.New("no registry")
	plan := func(_ context.Context, os []Occurrence) ([]Planned, error) {
		var out []Planned
		for _, o := range os {
			for _, d := range m.destinations() {
				id := EventID(o, d)
				m.planned[id] = true
				out = append(out, Planned{
					Occurrence: o, Destination: d, EventID: id, InboxID: inboxOf(o), Body: []byte(id[:4]),
					Delay: time.Duration(delay) * time.Minute,
				})
			}
		}
		return out, nil
	}
	expandNow := func(s *Store, most int, plan Plan) {
		done, err := s.Expand(m.Context(), most, plan)
		m.must(err)
		m.same("expand", done.N, min(most, len(m.model.noted)))
	}
	// took has the model do what the store did: the IDs of occurrences are the store's.
	took := func(os []Occurrence) {
		for i, o := range os {
			noted := m.model.noted[i]
			m.same("what has happened",
				[]any{o.Kind, o.TaskID, o.InboxID}, []any{noted.Kind, noted.TaskID, noted.InboxID})
			for _, d := range m.destinations() {
				id := EventID(o, d)
				m.model.entries = append(m.model.entries, &modelled{due: m.model.after(delay), Entry: Entry{
					EventID: id, OccurrenceID: o.ID, Destination: d, Kind: o.Kind, TaskID: o.TaskID,
					InboxID: inboxOf(o), Body: []byte(id[:4]), Status: Waiting,
				}})
			}
		}
		m.model.noted = m.model.noted[len(os):]
	}
	if fails && len(m.model.noted) > 0 {
		noPlan := func(context.Context, []Occurrence) ([]Planned, error) { return nil, failed }
		_, err := m.Expand(m.Context(), most, noPlan)
		m.same("expand", err, failed)
		return
	}
	var last []Occurrence
	remember := func(ctx context.Context, os []Occurrence) ([]Planned, error) {
		last = os
		return plan(ctx, os)
	}
	done, err := m.Expand(m.Context(), most, func(ctx context.Context, os []Occurrence) ([]Planned, error) {
		if faster > 0 {
			expandNow(m.other, faster, remember)
			took(last)
			faster = 0
		}
		return remember(ctx, os)
	}, wants...)
	m.must(err)
	m.same("expand", done.N, min(most, len(m.model.noted)))
	before := len(m.model.entries)
	if done.N > 0 {
		took(last)
	}
	m.inOrder(done.Claims)
	m.claimed("what expand claims", done.Claims, m.model.fresh(before, delay, wants))
}

// claimed checks that these claims are those of the model.
func (m *machine) claimed(what string, claims []Claim, want []*modelled) {
	m.Helper()
	var got, expected []string
	for _, c := range claims {
		got = append(got, line(c.Entry, "", false))
	}
	for i, e := range want {
		expected = append(expected, line(e.Entry, "", false))
		if i < len(claims) {
			e.receipt = claims[i].Receipt
		}
	}
	m.same(what, got, expected)
	m.claims = append(m.claims, claims...)
}

func (m *machine) receive(t *rapid.T) {
	want := Want{
		Destination: pick(t, "destination", m.destinations()...), InboxID: pick[int64](t, "inbox", 0, 0, 0, 1, 2),
		Max: 1 + small(t, "max", 3), Lease: time.Duration(1+small(t, "lease", 2)) * time.Minute,
		Worker: pick(t, "worker", "a", "b"),
	}
	m.model.clock.step++
	due := m.model.due(want)
	claims, err := pick(t, "process", m.Store, m.other).Receive(m.Context(), want)
	m.must(err)
	for _, e := range due {
		m.model.claim(e, want)
	}
	m.claimed("receive", claims, due)
	m.inOrder(claims)
}

// inOrder checks that what comes before a claim has ended. It knows nothing of the model.
func (m *machine) inOrder(claims []Claim) {
	for _, c := range claims {
		for _, p := range m.before { // nothing has ended since
			live := p.Status == Waiting || p.Status == InProgress
			if live && p.OccurrenceID < c.OccurrenceID && sameLine(p, c.Entry) {
				m.Fatalf("entry %d is claimed, and entry %d before it has not ended", c.ID, p.ID)
			}
		}
	}
}

// some draws a few of the claims that were ever handed out, mostly of the last ones.
func (m *machine) some(t *rapid.T) (claims []Claim) {
	last := rapid.SliceOfNDistinct(rapid.IntRange(0, 5), 1, 3, rapid.ID)
	for _, n := range last.Draw(t, "claims, the last one first") {
		if n < len(m.claims) {
			claims = append(claims, m.claims[len(m.claims)-1-n])
		}
	}
	return claims
}

// holds reports whether a receipt is good in a status.
func (m *model) holds(c Claim, status Status) bool {
	e := m.of(c.EventID)
	return e != nil && e.receipt == c.Receipt && e.Status == status
}

func (m *machine) finish(t *rapid.T) {
	m.model.clock.step++
	var outcomes []Outcome
	lost := map[holding]bool{}
	for _, c := range m.some(t) {
		o := Outcome{
			Claim: c, Status: pick(t, "status", Done, Waiting, DeadLetter, Dropped),
			Error: pick(t, "error", "", "down"),
		}
		delay := 0
		if o.Status == Waiting {
			delay, o.Uncounted = small(t, "delay", 2), rapid.Bool().Draw(t, "uncounted")
			o.Delay = time.Duration(delay) * time.Minute
		}
		outcomes = append(outcomes, o)
		if !m.model.holds(c, InProgress) {
			lost[c.holding()] = !m.model.holds(c, o.Status) // if it is, it was finished so before
			continue
		}
		e := m.model.of(c.EventID)
		e.Status, e.Error, e.due = o.Status, o.Error, m.model.after(delay)
		if o.Uncounted {
			e.Attempts--
		}
	}
	got, err := m.Finish(m.Context(), outcomes...)
	m.must(err)
	m.sameLost("finish", got, lost)
}

func (m *machine) extend(t *rapid.T) {
	m.model.clock.step++
	claims, minutes := m.some(t), 1+small(t, "lease", 2)
	lost := map[holding]bool{}
	for _, c := range claims {
		if lost[c.holding()] = !m.model.holds(c, InProgress); !lost[c.holding()] {
			m.model.of(c.EventID).due = m.model.after(minutes)
		}
	}
	got, err := m.Extend(m.Context(), time.Duration(minutes)*time.Minute, claims...)
	m.must(err)
	m.sameLost("extend", got, lost)
}

func (m *machine) sameLost(what string, claims []Claim, lost map[holding]bool) {
	m.Helper()
	got, want := []string{}, []string{}
	for _, c := range claims {
		got = append(got, fmt.Sprint(c.holding()))
	}
	for h, is := range lost {
		if is {
			want = append(want, fmt.Sprint(h))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	m.same(what+", of the lost", got, want)
}

// age lets time pass: leases run out, and pauses end.
func (m *machine) age(t *rapid.T) {
	minutes := 1 + small(t, "minutes", 3)
	m.model.clock.minute += minutes
	m.exec(`UPDATE monitored_outbox SET visible_at = visible_at - ? WHERE visible_at IS NOT NULL`,
		(time.Duration(minutes) * time.Minute).Microseconds())
}

func (m *machine) retry(t *rapid.T) {
	m.operate(t, m.Retry, []Status{Waiting, DeadLetter, Dropped}, func(e *modelled) {
		e.Status, e.Attempts, e.Error, e.due, e.receipt = Waiting, 0, "", m.model.clock, ""
	})
}

func (m *machine) skip(t *rapid.T) {
	m.operate(t, m.Store.Skip, []Status{Waiting, DeadLetter}, func(e *modelled) {
		e.Status, e.Error, e.receipt = Dropped, "skipped by ann", ""
	})
}

func (m *machine) purge(t *rapid.T) {
	m.operate(t, m.Purge, []Status{Done, DeadLetter, Dropped}, func(e *modelled) { e.Status = "" })
	m.model.deleteGone()
}

// operate does something to a few entries, as an operator does: to those in some states.
func (m *machine) operate(
	t *rapid.T, do func(context.Context, string, ...int64) (int, error), from []Status, change func(*modelled),
) {
	m.model.clock.step++
	all := slices.Sorted(maps.Keys(m.before)) // as in the model: in the order in which they were made
	var ids []int64
	n := 0
	few := rapid.SliceOfNDistinct(rapid.IntRange(0, 9), 1, 4, rapid.ID)
	for _, i := range few.Draw(t, "entries, the oldest first") {
		if i >= len(all) {
			continue
		}
		ids = append(ids, all[i])
		if e := m.model.entries[i]; slices.Contains(from, e.Status) {
			n++
			change(e)
		}
	}
	got, err := do(m.Context(), "ann", ids...)
	m.must(err)
	m.same("an operator", got, n)
}

func (m *model) deleteGone() {
	m.entries = slices.DeleteFunc(m.entries, func(e *modelled) bool { return e.Status == "" })
}

// expire deletes what is done or skipped, unless it is not old enough.
func (m *machine) expire(t *rapid.T) {
	age, n := pick(t, "age", time.Hour, -time.Hour), 0
	for _, e := range m.model.entries {
		if age < 0 && (e.Status == Done || e.Status == Dropped) {
			e.Status = ""
			n++
		}
	}
	m.model.deleteGone()
	got, err := m.Expire(m.Context(), age, 1000)
	m.must(err)
	m.same("expire", got, n)
}

// configure removes a destination from the configuration, or puts it back.
func (m *machine) configure(*rapid.T) { m.removed = !m.removed }
