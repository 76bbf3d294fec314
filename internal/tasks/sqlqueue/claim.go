package sqlqueue

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/tasks"
)

// Receive implements tasks.Queue.
func (q *Queue) Receive(ctx context.Context, want tasks.Want) ([]tasks.Claim, error) {
	began, poll := time.Now(), shortestPoll
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		news := q.bell.listen()
		claims, err := q.claimDue(context.WithoutCancel(ctx), want)
		if err != nil || len(claims) > 0 {
			return claims, err
		}
		pause, err := q.untilDue(ctx, want)
		if err != nil {
			return nil, err
		}
		wait := want.Wait
		if pause <= 0 { // due, but locked: being claimed, or looked at by one who claims for another inbox
			wait, pause = max(wait, q.patience), poll
			poll = min(2*poll, longestPoll)
		} else {
			poll = shortestPoll
		}
		left := wait - time.Since(began)
		if left <= 0 {
			return nil, nil
		}
		select {
		case <-news:
		case <-time.After(min(max(pause, shortestPoll), left)):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Waiting for a task to become due: never so short that it is a busy loop, and never so long that what another process
// registers waits for long.
const (
	shortestPoll = 10 * time.Millisecond
	longestPoll  = time.Second

	defaultPatience = 100 * time.Millisecond // with whoever has locked all that is due
)

// untilDue is for how long it is no use to look again, unless this process hears of something new. When something is due
// it is not above 0.
func (q *Queue) untilDue(ctx context.Context, want tasks.Want) (time.Duration, error) {
	pause := longestPoll
	err := q.db.View(ctx, func(tx *gorm.DB) error {
		micros, _, err := q.now(tx)
		if err != nil {
			return err
		}
		var next []int64
		for _, priority := range []tasks.Priority{tasks.High, tasks.Normal} {
			if err := tx.Raw(sqlNextDue, want.InboxID, priority, inHand(want)).Scan(&next).Error; err != nil {
				return err
			}
			for _, at := range next {
				pause = min(pause, time.Duration(at-micros)*time.Microsecond)
			}
		}
		return nil
	})
	return pause, wrap(err, "look for the next task")
}

// claimDue claims what is due now. The first lease that a task loses proves little: whatever was claimed beside it may
// have killed their worker. It makes the task a suspect, which comes alone from then on and takes no other down with
// it; only what it loses alone counts against it.
func (q *Queue) claimDue(ctx context.Context, want tasks.Want) ([]tasks.Claim, error) {
	var claims []tasks.Claim
	var buried []tasks.Task
	err := q.db.Tx(ctx, func(tx *gorm.DB) error {
		done, err := committed(tx, claims)
		if err == nil && !done {
			claims, buried, err = q.receive(tx, want)
		}
		return err
	})
	if errors.Is(err, errOutOfUse) {
		return nil, nil
	}
	if err != nil {
		return nil, wrap(err, "claim tasks")
	}
	for _, t := range buried {
		if want.Buried != nil {
			want.Buried(t)
		}
	}
	return claims, nil
}

// committed reports whether the claims of an earlier try stand: its commit went through without our hearing of it.
func committed(tx *gorm.DB, claims []tasks.Claim) (bool, error) {
	if len(claims) == 0 {
		return false, nil
	}
	var holder taskRow
	err := tx.Raw(sqlHolder, claims[0].ID).Scan(&holder).Error
	return holder.Receipt == claims[0].Receipt.Token, err
}

func (q *Queue) receive(tx *gorm.DB, want tasks.Want) (claims []tasks.Claim, buried []tasks.Task, _ error) {
	micros, now, err := q.now(tx)
	if err != nil {
		return nil, nil, err
	}
	var taken []taskRow
	for _, priority := range []tasks.Priority{tasks.High, tasks.Normal} {
		for len(taken) == 0 || (len(taken) < want.Max && taken[0].LostLeases == 0) {
			var due []taskRow
			err := tx.Raw(q.db.LockFree(sqlDue), want.InboxID, priority, micros, inHand(want), want.Max-len(taken)).Scan(&due).Error
			if err != nil {
				return nil, nil, err
			}
			next, dead, err := take(tx, want, now, taken, due)
			if err != nil {
				return nil, nil, err
			}
			buried = append(buried, dead...)
			if len(dead) == 0 {
				taken = next
				break
			} // else there is room for what stands behind
		}
	}
	if len(taken)+len(buried) == 0 {
		return nil, nil, nil
	}
	var places []folderPlace // now that the tasks are locked: who takes the inbox out of use waits for them, or has done so
	if err := tx.Raw(sqlPlaces, want.InboxID).Scan(&places).Error; err != nil {
		return nil, nil, err
	}
	if len(places) == 0 {
		return nil, nil, errOutOfUse
	}
	if len(taken) > 0 {
		claims, err = claim(tx, want, micros, now, taken, places)
	}
	return claims, buried, err
}

// errOutOfUse is an inbox of which nothing is claimed.
var errOutOfUse = errors.New("the inbox is out of use")

// folderPlace is what is told of a task's folder.
type folderPlace struct {
	ID          int64
	Name, Inbox string
}

// inHand is for NOT IN, whose list must not be empty. No task has the id 0.
func inHand(want tasks.Want) []int64 { return append([]int64{0}, want.InHand...) }

// take picks from what is due: rows that never lost a lease, or a single one that did. It buries those that lost too many.
func take(tx *gorm.DB, want tasks.Want, now time.Time, taken, due []taskRow) (_ []taskRow, buried []tasks.Task, _ error) {
	for _, r := range due {
		if r.Status == tasks.InProgress {
			r.LostLeases++
			if r.LostLeases > want.MaxLostLeases {
				t, err := bury(tx, r, now)
				if err != nil {
					return nil, nil, err
				}
				buried = append(buried, t)
				continue
			}
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
	return taken, buried, nil
}

// bury ends a task that kills its workers, and returns it as it stands then.
func bury(tx *gorm.DB, r taskRow, now time.Time) (tasks.Task, error) {
	ds, err := deliveries(tx, []int64{r.ID})
	if err != nil {
		return tasks.Task{}, err
	}
	t := r.task()
	t.Deliveries = ds[r.ID]
	t.Status, t.Reason = tasks.Poisoned(t)
	if err := tx.Exec(sqlPoisoned, t.Status, db.Cut(t.Reason, maxText), now, now, r.ID).Error; err != nil {
		return t, err
	}
	return t, event(tx, now, r.ID, r.Worker, string(t.Status), t.Reason)
}

func claim(tx *gorm.DB, want tasks.Want, micros int64, now time.Time, taken []taskRow, places []folderPlace) ([]tasks.Claim, error) {
	token := rand.Text()
	until := micros + want.Lease.Microseconds()
	ids := make([]int64, len(taken))
	claims := make([]tasks.Claim, len(taken))
	for i, r := range taken {
		ids[i] = r.ID
		claims[i] = tasks.Claim{
			Task:    r.task(),
			Receipt: tasks.Receipt{TaskID: r.ID, Token: token + "-" + strconv.FormatInt(r.ID, 10), Worker: want.Worker},
			Alone:   r.LostLeases > 0,
			At:      now,
			Due:     time.UnixMicro(*r.VisibleAt),
		}
		claims[i].Status, claims[i].Worker = tasks.InProgress, want.Worker
		claims[i].Attempts++
	}
	if err := complete(tx, ids, claims, places); err != nil {
		return nil, err
	}
	if err := noteLost(tx, now, taken, claims); err != nil {
		return nil, err
	}
	if err := tx.Exec(sqlClaim, until, token, db.Cut(want.Worker, 255), now, ids).Error; err != nil {
		return nil, err
	}
	return claims, nil
}

// noteLost writes into the trail which claims take a task over whose lease ran out.
func noteLost(tx *gorm.DB, now time.Time, taken []taskRow, claims []tasks.Claim) error {
	for i, r := range taken {
		if r.Status != tasks.InProgress {
			continue
		}
		if err := event(tx, now, r.ID, claims[i].Worker, "lease_lost", tasks.TakenOver(r.Worker, claims[i].Deliveries)); err != nil {
			return err
		}
	}
	return nil
}

// complete adds to claims what stands in other tables.
func complete(tx *gorm.DB, ids []int64, claims []tasks.Claim, places []folderPlace) error {
	ds, err := deliveries(tx, ids)
	if err != nil {
		return err
	}
	for i := range claims {
		c := &claims[i]
		c.Deliveries = ds[c.ID]
		for _, f := range places {
			if f.ID == c.FolderID {
				c.Inbox, c.Folder = f.Inbox, f.Name
			}
		}
	}
	return nil
}

// Extend implements tasks.Queue.
func (q *Queue) Extend(ctx context.Context, lease time.Duration, receipts []tasks.Receipt) ([]tasks.Receipt, error) {
	var lost []tasks.Receipt
	err := q.db.Tx(ctx, func(tx *gorm.DB) error {
		lost = nil
		micros, _, err := q.now(tx)
		if err != nil {
			return err
		}
		for _, r := range receipts {
			res := tx.Exec(sqlExtend, micros+lease.Microseconds(), r.TaskID, r.Token)
			if res.Error != nil {
				return res.Error
			}
			if res.RowsAffected == 0 {
				lost = append(lost, r)
			}
		}
		return nil
	})
	return lost, wrap(err, "renew leases")
}
