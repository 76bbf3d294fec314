package sqlqueue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/outbox"
	"postrider/internal/tasks"
)

// change is what becomes of one claim.
type change struct {
	receipt    tasks.Receipt
	offered    bool         // its claim may not be made yet
	target     tasks.Status // where the task stands then; its claim has ended unless it is in progress
	deliveries []tasks.Delivery
	// row updates the task if its receipt is good. The statement's last arguments, which hold adds,
	// are the ids and the tokens; sqlClaimSending, whose claim is not recorded yet, has no tokens.
	// Changes that are equal otherwise share it.
	row func(now time.Time) (update string, args []any)
	// also is what else belongs to the transaction, nil when nothing does. all are the deliveries
	// of a task whose claim has ended.
	also func(tx *gorm.DB, now time.Time, all []tasks.Delivery) error
}

// commit commits a batch, and says which change an error is of.
func (q *Queue) commit(ctx context.Context, batch []*change) []error {
	errs := db.OrApart(ctx, batch, q.together)
	for i, c := range batch {
		errs[i] = wrap(errs[i], "record that task %d is %s", c.receipt.TaskID, c.target)
	}
	return errs
}

// together commits changes in one transaction.
func (q *Queue) together(ctx context.Context, batch []*change) error {
	return q.underReceipt(ctx, batch[0], func(tx *gorm.DB, now time.Time) (bool, error) {
		held, err := hold(tx, now, batch)
		switch {
		case err != nil:
			return false, err
		case !held && len(batch) > 1:
			return false, db.ErrApart
		case !held:
			return false, nil
		}
		return true, q.settleAll(tx, now, batch)
	})
}

// statement updates the rows of the tasks that it makes equal.
type statement struct {
	update string
	args   []any
	ids    []int64
	tokens []string
}

// run reports whether all the receipts were good.
func (s *statement) run(tx *gorm.DB) (bool, error) {
	args := append(s.args, s.ids)
	if s.update != sqlClaimSending {
		args = append(args, s.tokens)
	}
	matched, err := db.Exec(tx, s.update, args...)
	return matched == int64(len(s.ids)), err
}

// hold updates the rows of the tasks, and reports whether all the receipts were good.
func hold(tx *gorm.DB, now time.Time, batch []*change) (bool, error) {
	var statements []*statement
	for _, c := range batch {
		update, args := c.row(now)
		i := slices.IndexFunc(statements, func(s *statement) bool {
			return s.update == update && slices.Equal(s.args, args)
		})
		if i < 0 {
			i = len(statements)
			statements = append(statements, &statement{update: update, args: args})
		}
		statements[i].ids = append(statements[i].ids, c.receipt.TaskID)
		statements[i].tokens = append(statements[i].tokens, c.receipt.Token)
	}
	for _, s := range statements {
		if good, err := s.run(tx); err != nil || !good {
			return false, err
		}
	}
	return true, nil
}

func (q *Queue) settleAll(tx *gorm.DB, now time.Time, batch []*change) error {
	var ends []outbox.Occurrence
	var live []int64 // whose claims have ended
	for _, c := range batch {
		switch {
		case c.target.Ended():
			ends = append(ends, outbox.Occurrence{Kind: outbox.Kind(c.target), TaskID: c.receipt.TaskID})
		case c.target != tasks.InProgress:
			live = append(live, c.receipt.TaskID)
		}
	}
	all, err := settle(tx, now, batch)
	if err == nil {
		err = q.withdrawDisabled(tx, now, live)
	}
	if err == nil {
		err = q.note(tx, now, ends)
	}
	if err != nil {
		return err
	}
	for _, c := range batch {
		if c.also == nil {
			continue
		}
		if err := c.also(tx, now, all[c.receipt.TaskID]); err != nil {
			return err
		}
	}
	return nil
}

// underReceipt runs do, which reports whether the receipt of the change is good. Otherwise the
// lease was lost, unless the task stands in the target by this very receipt: then an earlier try
// was committed and the answer lost. That somebody else has a task that was only offered is no
// conflict.
func (q *Queue) underReceipt(ctx context.Context, c *change, do func(*gorm.DB, time.Time) (held bool, _ error)) error {
	r := c.receipt
	var stale error
	// AboutNow will do: nothing here depends on whether a lease has run out.
	err := q.db.ChangeBy(ctx, q.db.AboutNow, func(tx *gorm.DB, now time.Time) error {
		stale = nil
		held, err := do(tx, now)
		if err != nil || held {
			return err
		}
		is, err := first(tx, (*holder).into, sqlHolder, r.TaskID)
		if err != nil {
			return err
		}
		if r.Token != "" && is.Receipt == r.Token && is.Status == c.target {
			return nil
		}
		if is.Receipt == r.Token && is.Status == tasks.InProgress {
			stale = tasks.ErrMoved
			return nil
		}
		if c.offered {
			stale = tasks.ErrTaken
			return nil
		}
		why := is.stale()
		stale = fmt.Errorf("%w: %s", tasks.ErrLeaseLost, why)
		return event(tx, now, r.TaskID, r.Worker, "conflict", tasks.Conflict(c.target, why))
	})
	if err != nil {
		return err
	}
	return stale
}

// holder is a row of sqlHolder.
type holder struct {
	Status          tasks.Status
	Receipt, Worker string
	IsActive        bool
}

func (h *holder) into() []any { return []any{&h.Status, &h.Receipt, &h.Worker, &h.IsActive} }

// stale is why a receipt is no longer good.
func (h holder) stale() string {
	if h.Receipt == "" {
		h.Worker = ""
	}
	return tasks.Stale(h.Status, h.Worker, h.IsActive)
}
