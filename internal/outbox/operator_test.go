package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestOperator: what a person does, and what is left in the end.
func TestOperator(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		for id := range int64(4) {
			b.happen(Occurrence{Kind: Dead, TaskID: id + 1})
		}
		b.expand(to("crm"))
		c := b.receive("crm")
		b.finish(
			Outcome{Claim: c[0], Status: Done}, Outcome{Claim: c[1], Status: DeadLetter, Error: "no"},
			Outcome{Claim: c[2], Status: Waiting, Delay: time.Hour},
		)
		ids := []int64{c[0].ID, c[1].ID, c[2].ID, c[3].ID}
		count := func(n int, err error) int { b.must(err); return n }
		if n := count(b.Skip(t.Context(), "anna", ids...)); n != 2 {
			t.Errorf("%d were skipped, want the dead one and the one that waits", n)
		}
		if lost := b.finish(Outcome{Claim: c[2], Status: Done}); len(lost) != 1 {
			t.Error("the receipt of a skipped entry is good")
		}
		if n := count(b.Retry(t.Context(), "berta", ids...)); n != 2 {
			t.Errorf("%d are tried again, want those that were skipped", n)
		}
		if again := b.receive("crm"); len(again) != 2 || again[0].Attempts != 1 || again[0].Error != "" {
			t.Errorf("claimed again are %+v, want two in their first attempt, without an error", again)
		}
		if n := count(b.Expire(t.Context(), time.Hour, 10)); n != 0 {
			t.Errorf("%d were deleted before their time", n)
		}
		if n := count(b.Expire(t.Context(), -time.Hour, 10)); n != 1 {
			t.Errorf("%d were deleted, want the one that is done", n)
		}
		counts, err := b.counts(t.Context())
		b.must(err)
		if len(counts) != 1 || counts[0].status != InProgress || counts[0].n != 3 || counts[0].oldest.IsZero() {
			t.Errorf("the counts are %+v, want three in progress", counts)
		}
		if n := count(b.Purge(t.Context(), "anna", ids...)); n != 0 {
			t.Errorf("%d live entries were deleted", n)
		}
		if _, err := b.Get(t.Context(), c[0].ID); !errors.Is(err, ErrNotFound) {
			t.Errorf("Get returns %v for what was deleted", err)
		}
	})
}

// TestRetryAtOnce: what an operator requeues is sent at once, also to a destination that pauses,
// but not to one that is gone. Other destinations go on pausing.
func TestRetryAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		b.happen(Occurrence{Kind: Dead, TaskID: 1})
		b.expand(to("crm", "bus", "hub"))
		var ids []int64
		for _, e := range b.all() {
			if e.Destination != "hub" {
				ids = append(ids, e.ID)
			}
			v := verdict{fault: errors.New("HTTP 500"), asked: time.Hour, gone: e.Destination == "bus"}
			_, err := b.fault(t.Context(), Destination{Name: e.Destination}, v)
			b.must(err)
		}
		_, err := b.Retry(t.Context(), "anna", ids...)
		b.must(err)
		all, err := b.Destinations(t.Context())
		b.must(err)
		if crm := all["crm"]; crm.RetryIn != 0 || crm.LastError == "" {
			t.Errorf("crm is %+v, want no pause, and that it failed", crm)
		}
		if !all["bus"].Gone {
			t.Error("bus gets events again, and it wants none")
		}
		if all["hub"].RetryIn == 0 {
			t.Error("hub no longer pauses, and nothing of it was requeued")
		}
	})
}

// TestTrail: what an operator does to an entry stands in the trail of its task, or of its inbox.
func TestTrail(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		b.happen(
			Occurrence{Kind: Dead, TaskID: 7}, Occurrence{Kind: InboxOK, InboxID: 3},
			Occurrence{Kind: Dead, TaskID: 8},
		)
		plan := to("crm")
		b.expand(func(ctx context.Context, os []Occurrence) ([]Planned, error) {
			planned, err := plan(ctx, os)
			for i := range planned {
				planned[i].InboxID = 3 // those of tasks have it, too
				if planned[i].Occurrence.TaskID == 8 {
					planned[i].Action, planned[i].Body = "delete", nil
				}
			}
			return planned, err
		})
		all := b.all()
		ids := []int64{all[0].ID, all[1].ID}
		for _, do := range []func() (int, error){
			func() (int, error) { return b.Retry(t.Context(), "anna", ids...) },
			func() (int, error) { return b.Purge(t.Context(), "anna", ids...) }, // not yet
			func() (int, error) { return b.Skip(t.Context(), "anna", ids...) },
			func() (int, error) { return b.Skip(t.Context(), "anna", ids...) }, // not again
			func() (int, error) { return b.Purge(t.Context(), "berta", ids[0]) },
			func() (int, error) { return b.Retry(t.Context(), "berta", all[2].ID) },
		} {
			_, err := do()
			b.must(err)
		}
		task := fmt.Sprintf(" by an operator: event %d (dead) for crm", ids[0])
		in := fmt.Sprintf(" by an operator: event %d (inbox_ok) for crm", ids[1])
		want := []string{
			"7 0 anna event_retried" + task, "0 3 anna event_retried" + in,
			"7 0 anna event_skipped" + task, "0 3 anna event_skipped" + in,
			"7 0 berta event_purged" + task,
			fmt.Sprintf("8 0 berta event_retried by an operator: event %d (dead) for crm: delete", all[2].ID),
		}
		if got := b.trail(); !slices.Equal(got, want) {
			t.Errorf("the trail is\n%q\nwant\n%q", got, want)
		}
		if e := b.all()[0]; e.Status != Dropped || e.Error != "skipped by anna" {
			t.Errorf("the skipped one is %+v", e)
		}
	})
}
