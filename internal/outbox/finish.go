package outbox

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
)

// Finish records outcomes. Those whose lease was lost are left alone. Doing it twice changes
// nothing.
func (s *Store) Finish(ctx context.Context, outcomes ...Outcome) (lost []Claim, _ error) {
	err := s.db.Change(ctx, func(tx *gorm.DB, now time.Time) error {
		if err := trail(tx, now, outcomes); err != nil {
			return err
		}
		var err error
		lost, err = finish(tx, now, alike(outcomes))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("record results of outbox entries: %w", err)
	}
	return lost, nil
}

// trail writes the audit lines of the outcomes that took effect.
func trail(tx *gorm.DB, now time.Time, outcomes []Outcome) error {
	outcomes = slices.DeleteFunc(slices.Clone(outcomes), func(o Outcome) bool { return o.Trail == Line{} })
	claims := make([]Claim, len(outcomes))
	for i, o := range outcomes {
		claims[i] = o.Claim
	}
	held, err := stand(tx, claims, InProgress)
	if err != nil {
		return err
	}
	var rows [][]any
	for _, o := range outcomes {
		if held[o.Claim.holding()] {
			worker, detail := db.Cut(o.Claim.Worker, 255), db.Cut(o.Trail.Detail, 4000)
			rows = append(rows, []any{o.Claim.TaskID, now, worker, o.Trail.Event, detail})
		}
	}
	return db.Insert(tx, "monitored_emails_events", "task_id, at, worker, event, detail", rows)
}

// result is what Finish makes of an entry, and whose it is.
type result struct {
	receipt   string
	status    Status
	err       string
	delay     time.Duration
	uncounted bool
}

// alike groups claims with the same result, so that one statement records all of them.
func alike(outcomes []Outcome) map[result][]Claim {
	out := map[result][]Claim{}
	for _, o := range outcomes {
		r := result{o.Claim.Receipt, o.Status, db.Cut(o.Error, 4000), o.Delay, o.Uncounted}
		out[r] = append(out[r], o.Claim)
	}
	return out
}

func finish(tx *gorm.DB, now time.Time, outcomes map[result][]Claim) (lost []Claim, _ error) {
	for r, claims := range outcomes {
		var visible, ended any
		if r.status == Waiting {
			visible = now.Add(r.delay).UnixMicro()
		} else {
			ended = now
		}
		back := 0
		if r.uncounted {
			back = 1
		}
		ids := byReceipt(claims)[r.receipt]
		matched, err := db.Exec(tx, sqlFinish, r.status, visible, r.err, back, ended, ids, r.receipt)
		if err != nil {
			return nil, err
		}
		if matched == int64(len(claims)) {
			continue
		}
		held, err := stand(tx, claims, r.status) // also by an earlier try whose answer was lost
		if err != nil {
			return nil, err
		}
		lost = append(lost, without(claims, held)...)
	}
	return lost, nil
}
