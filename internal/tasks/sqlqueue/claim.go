package sqlqueue

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/tasks"
)

// shortestPoll is the first wait of Receive when others have locked everything that is due.
const shortestPoll = 10 * time.Millisecond

// errInactive: no task of a disabled inbox is claimed.
var errInactive = errors.New("the inbox is disabled")

// Receive implements tasks.Queue.
func (q *Queue) Receive(ctx context.Context, want tasks.Want) ([]tasks.Claim, error) {
	began := time.Now()
	for poll := shortestPoll; ; poll *= 2 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		claims, err := q.claimDue(context.WithoutCancel(ctx), want)
		if errors.Is(err, errInactive) {
			return nil, nil
		}
		if err != nil || len(claims) > 0 || time.Since(began) >= q.patience {
			return claims, wrap(err, "claim tasks")
		}
		if locked, err := q.locked(ctx, want); err != nil || !locked {
			return nil, err
		}
		select {
		case <-time.After(poll):
		case <-ctx.Done():
		}
	}
}

// locked reports whether others have locked a due task. They claim it, or only read it.
func (q *Queue) locked(ctx context.Context, want tasks.Want) (bool, error) {
	if q.db.Dialect() == db.SQLite {
		return false, nil
	}
	want.Max = 1
	due, err := q.Next(ctx, want)
	return len(due) > 0, err
}

// Next implements tasks.Queue.
func (q *Queue) Next(ctx context.Context, want tasks.Want) (ids []int64, _ error) {
	now, err := q.db.Clock(ctx)
	if err == nil {
		ids, err = db.Read(ctx, q.db, db.Value[int64], sqlNext, nextArgs(want, now)...)
	}
	return ids, wrap(err, "look for tasks that are due")
}

// nextArgs are the arguments of sqlNext.
func nextArgs(want tasks.Want, now time.Time) (args []any) {
	for _, priority := range []tasks.Priority{tasks.High, tasks.Normal} {
		args = append(args, want.InboxID, priority, now.UnixMicro(), inHand(want), want.Max)
	}
	return append(args, want.Max)
}

// claimDue claims what is due now. A task that has lost a lease is claimed alone from then on, so
// that it takes no other task with it if it crashes the worker again. Every lost lease counts
// against want.MaxLostLeases.
func (q *Queue) claimDue(ctx context.Context, want tasks.Want) ([]tasks.Claim, error) {
	var claims []tasks.Claim
	var poisoned []tasks.Task
	err := q.db.Change(ctx, func(tx *gorm.DB, now time.Time) error {
		done, err := committed(tx, claims)
		if err == nil && !done {
			claims, poisoned, err = q.receive(tx, now, want)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, t := range poisoned {
		if want.Poisoned != nil {
			want.Poisoned(t)
		}
	}
	return claims, nil
}

// committed reports whether an earlier try was committed and only its answer was lost.
func committed(tx *gorm.DB, claims []tasks.Claim) (bool, error) {
	if len(claims) == 0 {
		return false, nil
	}
	is, err := first(tx, (*holder).into, sqlHolder, claims[0].Task.ID)
	return is.Receipt == claims[0].Receipt.Token, err
}

// receive claims what is due, and ends tasks that lost too many leases. It checks last whether the
// inbox is active: Disable changes the tasks that are claimed here, so it waits for them or comes
// first.
func (q *Queue) receive(
	tx *gorm.DB, now time.Time, want tasks.Want,
) (claims []tasks.Claim, poisoned []tasks.Task, _ error) {
	var taken []taskRow
	for _, priority := range []tasks.Priority{tasks.High, tasks.Normal} {
		for len(taken) == 0 || len(taken) < want.Max && taken[0].LostLeases == 0 {
			due, err := db.Query(tx, (*taskRow).into, q.db.LockSkipLocked(sqlDue),
				want.InboxID, priority, now.UnixMicro(), inHand(want), want.Max-len(taken))
			if err != nil {
				return nil, nil, err
			}
			next, ended, err := q.take(tx, want, now, taken, due)
			if err != nil {
				return nil, nil, err
			}
			poisoned = append(poisoned, ended...)
			if len(ended) == 0 {
				taken = next
				break
			} // else there is room for the tasks behind it
		}
	}
	if len(taken)+len(poisoned) == 0 {
		return nil, nil, nil
	}
	places, err := db.Query(tx, (*place).into, sqlPlaces, want.InboxID)
	if err != nil {
		return nil, nil, err
	}
	if len(places) == 0 {
		return nil, nil, errInactive
	}
	for i := range poisoned {
		locate(&poisoned[i], places)
	}
	claims, err = claim(tx, now, want, taken, places)
	return claims, poisoned, err
}

// place is a folder and its inbox.
type place struct {
	ID          int64
	Name, Inbox string
}

func (p *place) into() []any { return []any{&p.ID, &p.Name, &p.Inbox} }

func locate(t *tasks.Task, places []place) {
	for _, p := range places {
		if p.ID == t.FolderID {
			t.Inbox, t.Folder = p.Inbox, p.Name
		}
	}
}

// inHand is for NOT IN, whose list must not be empty. No task has the id 0.
func inHand(want tasks.Want) []int64 { return append([]int64{0}, want.InHand...) }

// take picks due rows that never lost a lease, or a single one that did. It ends those that lost
// too many.
func (q *Queue) take(
	tx *gorm.DB, want tasks.Want, now time.Time, taken, due []taskRow,
) (_ []taskRow, poisoned []tasks.Task, _ error) {
	for _, r := range due {
		expired := r.Status == tasks.InProgress
		if expired {
			r.LostLeases++
		}
		if expired && r.LostLeases > want.MaxLostLeases {
			t, err := q.poison(tx, r, now)
			if err != nil {
				return nil, nil, err
			}
			poisoned = append(poisoned, t)
			continue
		}
		lost := r.LostLeases > 0
		if lost && len(taken) > 0 {
			break
		}
		taken = append(taken, r)
		if lost {
			break
		}
	}
	return taken, poisoned, nil
}

// poison ends a task that lost too many leases, and returns it.
func (q *Queue) poison(tx *gorm.DB, r taskRow, now time.Time) (tasks.Task, error) {
	ds, err := deliveries(tx, []int64{r.ID})
	if err != nil {
		return tasks.Task{}, err
	}
	r.Deliveries = ds[r.ID]
	return q.endLost(tx, r.Task, tasks.Poisoned(r.Task), now)
}

// endLost ends a task whose lease ran out, and returns it.
func (q *Queue) endLost(tx *gorm.DB, t tasks.Task, res tasks.Result, now time.Time) (tasks.Task, error) {
	t.Status, t.Reason, t.Skip, t.VisibleAt, t.FinishedAt, t.UpdatedAt = res.Status, res.Reason, "", nil, &now, now
	if err := db.Run(tx, sqlEndLost, t.Status, cut(t.Reason), now, now, t.ID); err != nil {
		return t, err
	}
	end := &change{receipt: tasks.Receipt{TaskID: t.ID}, target: res.Status, deliveries: res.Deliveries}
	all, err := settle(tx, now, []*change{end})
	if err != nil {
		return t, err
	}
	t.Deliveries = all[t.ID]
	if err := q.noteEnd(tx, now, t.ID, t.Status); err != nil {
		return t, err
	}
	return t, event(tx, now, t.ID, t.Worker, string(t.Status), t.Reason)
}

func claim(tx *gorm.DB, now time.Time, want tasks.Want, taken []taskRow, places []place) ([]tasks.Claim, error) {
	if len(taken) == 0 {
		return nil, nil
	}
	ids := make([]int64, len(taken))
	for i, r := range taken {
		ids[i] = r.ID
	}
	ds, err := deliveries(tx, ids)
	if err != nil {
		return nil, err
	}
	token, until := rand.Text(), now.Add(want.Lease)
	claims := make([]tasks.Claim, len(taken))
	for i, r := range taken {
		t := r.Task
		c := tasks.Claim{
			Receipt: tasks.Receipt{TaskID: r.ID, Token: tasks.Token(token, r.ID), Worker: want.Worker},
			Alone:   r.LostLeases > 0, At: now, Due: *t.VisibleAt,
		}
		t.Deliveries = ds[r.ID]
		locate(&t, places)
		if t.Status == tasks.InProgress {
			lost := tasks.TakenOver(r.Worker, t.Deliveries)
			if err := event(tx, now, r.ID, want.Worker, "lease_lost", lost); err != nil {
				return nil, err
			}
		}
		t.Status, t.Worker, t.VisibleAt, t.UpdatedAt = tasks.InProgress, want.Worker, &until, now
		t.Attempts++
		c.Task = t
		claims[i] = c
	}
	err = db.Run(tx, sqlClaim, until.UnixMicro(), token, db.Cut(want.Worker, 255), now, ids)
	return claims, err
}

// Extend implements tasks.Queue.
func (q *Queue) Extend(ctx context.Context, lease time.Duration, receipts []tasks.Receipt) ([]tasks.Receipt, error) {
	var ids, held []int64
	var tokens []string
	for _, r := range receipts {
		ids, tokens = append(ids, r.TaskID), append(tokens, r.Token)
	}
	err := q.db.Change(ctx, func(tx *gorm.DB, now time.Time) (err error) {
		args := touched(now, now.Add(lease).UnixMicro(), ids, tokens)
		if err := db.Run(tx, sqlExtend, args...); err != nil {
			return err
		}
		held, err = db.Query(tx, db.Value[int64], sqlHeld, ids, tokens)
		return err
	})
	if err != nil {
		return nil, wrap(err, "renew leases")
	}
	return slices.DeleteFunc(slices.Clone(receipts), func(r tasks.Receipt) bool {
		return slices.Contains(held, r.TaskID)
	}), nil
}
