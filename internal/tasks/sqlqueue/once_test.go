package sqlqueue

import (
	"fmt"
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/tasks"
)

// copies are pages of inboxes that have the same message.
func (r registry) copies(t *testing.T, n int) (pages []tasks.Page) {
	t.Helper()
	for i := range n {
		inboxID := r.inbox(t, fmt.Sprintf("%d@example.com", i))
		pages = append(pages, tasks.Page{
			InboxID: inboxID, FolderID: r.folder(t, inboxID, "INBOX", 1), Epoch: 1, Cursor: 1,
			Dedupe: tasks.DedupeAll, Entries: entries(1, 1),
		})
	}
	return pages
}

// beside runs f in a transaction, and g on another connection, which has to wait for the
// transaction.
func (r registry) beside(t *testing.T, f func(tx *gorm.DB) error, g func() error) {
	t.Helper()
	ended := make(chan error, 1)
	r.tx(t, func(tx *gorm.DB) error {
		if err := f(tx); err != nil {
			return err
		}
		go func() { ended <- g() }()
		r.waiting(t, 1)
		return nil
	})
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func (r registry) wantDelivery(t *testing.T, what string, taskID int64, status tasks.DeliveryStatus, of int64) {
	t.Helper()
	got, err := New(r.DB).Get(t.Context(), taskID)
	if err != nil || len(got.Deliveries) != 1 ||
		got.Deliveries[0].Status != status || got.Deliveries[0].DuplicateOf != of {
		t.Errorf("%s: %+v, %v; want a delivery that is %s, by task %d", what, got, err, status, of)
	}
}

// taskOf is the task of a page's message.
func (r registry) taskOf(t *testing.T, page tasks.Page) (id int64) {
	t.Helper()
	r.query(t, &id, "SELECT id FROM monitored_emails_tasks WHERE folder_id = ?", page.FolderID)
	return id
}

// TestOneOwns: two connections register, or reserve, the same content at once. One owns it, and the
// other waits for it.
func TestOneOwns(t *testing.T) {
	onServers(t, func(t *testing.T, r registry) {
		q, other := New(r.DB), New(r.again(t))
		pages := r.copies(t, 4)
		r.beside(t, func(tx *gorm.DB) error { return registerIn(tx, q, pages[0]) },
			func() error { _, err := other.Register(t.Context(), pages[1]); return err })
		first := r.taskOf(t, pages[0])
		r.wantDelivery(t, "registered first", first, tasks.Pending, 0)
		r.wantDelivery(t, "registered meanwhile", r.taskOf(t, pages[1]), tasks.Pending, first)

		r.exec(t, "DELETE FROM monitored_emails_once")
		var claims []tasks.Claim
		for i := range pages[2:] {
			page := pages[2+i]
			page.Entries[0].Decision = nil
			register(t, q, page, tasks.New)
			got, err := q.Receive(t.Context(), wantOf(page.InboxID, 1))
			if err != nil || len(got) != 1 {
				t.Fatalf("claimed %d, %v; want 1", len(got), err)
			}
			claims = append(claims, got...)
		}
		res := tasks.Reservation{
			Decision: &tasks.Decision{Route: "desk", Recipients: []string{"desk@firm.example"}},
			Revision: "r1", Dedupe: tasks.DedupeAll,
		}
		r.beside(t, func(tx *gorm.DB) error {
			_, err := q.reserve(tx, time.Now().UTC(), claims[0].Receipt, res)
			return err
		}, func() error {
			_, err := other.Reserve(t.Context(), claims[1].Receipt, res)
			return err
		})
		r.wantDelivery(t, "reserved first", claims[0].Task.ID, tasks.Pending, 0)
		r.wantDelivery(t, "reserved meanwhile", claims[1].Task.ID, tasks.Pending, claims[0].Task.ID)
	})
}

// TestNoWakeUpIsLost: a copy is registered while the message is delivered, or given up. It waits
// for the other transaction: either it finds the result, or it is made due.
func TestNoWakeUpIsLost(t *testing.T) {
	onServers(t, func(t *testing.T, r registry) {
		q, other := New(r.DB), New(r.again(t))
		for _, c := range []struct {
			end    tasks.Status
			status tasks.DeliveryStatus
			copied tasks.DeliveryStatus // when the end was first
		}{
			{tasks.Forwarded, tasks.Delivered, tasks.Duplicated},
			{tasks.Dead, tasks.Failed, tasks.Pending},
		} {
			for _, endFirst := range []bool{true, false} {
				r.exec(t, "DELETE FROM monitored_emails")
				r.exec(t, "DELETE FROM monitored_emails_once")
				pages := r.copies(t, 2)
				register(t, q, pages[0], tasks.New)
				want := wantOf(pages[0].InboxID, 1)
				claims, err := q.Receive(t.Context(), want)
				if err != nil || len(claims) != 1 {
					t.Fatalf("claimed %d, %v; want 1", len(claims), err)
				}
				ds := []tasks.Delivery{{Recipient: "desk@firm.example", Status: c.status}}
				res := tasks.Result{Status: c.end, Deliveries: ds}
				id, name := claims[0].Task.ID, fmt.Sprintf("%s, end first %t", c.end, endFirst)
				if endFirst {
					r.beside(t, func(tx *gorm.DB) error {
						now, changes := time.Now().UTC(), []*change{finishing(claims[0].Receipt, res)}
						if held, err := hold(tx, now, changes); err != nil || !held {
							return fmt.Errorf("held %t, %w", held, err)
						}
						return q.settleAll(tx, now, changes)
					}, func() error { _, err := other.Register(t.Context(), pages[1]); return err })
					of := map[tasks.DeliveryStatus]int64{tasks.Duplicated: id}[c.copied]
					r.wantDelivery(t, name, r.taskOf(t, pages[1]), c.copied, of)
					continue
				}
				r.beside(t, func(tx *gorm.DB) error { return registerIn(tx, q, pages[1]) },
					func() error { return other.Finish(t.Context(), claims[0].Receipt, res) })
				r.wantDelivery(t, name, r.taskOf(t, pages[1]), tasks.Pending, id)
				want.InboxID = pages[1].InboxID
				if got, err := q.Receive(t.Context(), want); err != nil || len(got) != 1 {
					t.Errorf("%s: claimed %d, %v; want the copy, which was woken", name, len(got), err)
				}
			}
		}
	})
}

// TestEveryChangeWritesTheRow: every change with a receipt changes the task's row, also when the
// clock does not move. Between database nodes nothing else conflicts.
func TestEveryChangeWritesTheRow(t *testing.T) {
	onEach(t, func(t *testing.T, r registry) {
		q := New(r.DB)
		if r.Dialect() == db.SQLite {
			at := time.Now()
			still, err := db.Open(t.Context(), r.cfg, db.WithNow(func() time.Time { return at }))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = still.Close() })
			q = New(still)
		}
		page := r.copies(t, 1)[0]
		register(t, q, page, tasks.New)
		var c tasks.Claim
		for _, change := range []struct {
			name string
			do   func() error
		}{
			{"receive", func() error {
				claims, err := q.Receive(t.Context(), wantOf(page.InboxID, 1))
				if err == nil && len(claims) == 1 {
					c = claims[0]
				}
				return err
			}},
			{"extend", func() error {
				_, err := q.Extend(t.Context(), time.Hour, []tasks.Receipt{c.Receipt})
				return err
			}},
			{"sending", func() error { return q.Sending(t.Context(), c, tasks.Form{}, nil) }},
			{"reserve", func() error {
				_, err := q.Reserve(t.Context(), c.Receipt, tasks.Reservation{Revision: "r1"})
				return err
			}},
			{"note", func() error { return q.Note(t.Context(), c.Receipt, tasks.Note{Event: "e"}) }},
			{"release", func() error { return q.Release(t.Context(), c, "", 0, nil) }},
			{"receive again", func() error {
				claims, err := q.Receive(t.Context(), wantOf(page.InboxID, 1))
				if err == nil && len(claims) == 1 {
					c = claims[0]
				}
				return err
			}},
			{"finish", func() error { return q.Finish(t.Context(), c.Receipt, tasks.Result{Status: tasks.Forwarded}) }},
		} {
			for range 2 {
				before := r.row(t)
				if err := change.do(); err != nil {
					t.Fatalf("%s: %v", change.name, err)
				}
				if r.row(t) == before {
					t.Errorf("%s did not change the row of the task: %s", change.name, before)
				}
				if change.name == "release" || change.name == "finish" ||
					change.name == "receive" || change.name == "receive again" {
					break // the second time changes nothing
				}
			}
		}
	})
}

// row is what there is of the only task.
func (r registry) row(t *testing.T) string {
	t.Helper()
	var row map[string]any
	r.query(t, &row, "SELECT * FROM monitored_emails_tasks")
	return fmt.Sprint(row["status"], row["receipt"], row["visible_at"], row["updated_at"])
}

// TestOwnerThatGivesUp: a copy is registered while a new decision drops the recipient. It has to
// wait for that transaction: otherwise it would be the duplicate of a delivery that no one makes.
func TestOwnerThatGivesUp(t *testing.T) {
	onServers(t, func(t *testing.T, r registry) {
		q, other := New(r.DB), New(r.again(t))
		pages := r.copies(t, 2)
		register(t, q, pages[0], tasks.New)
		claims, err := q.Receive(t.Context(), wantOf(pages[0].InboxID, 1))
		if err != nil || len(claims) != 1 {
			t.Fatalf("claimed %d, %v; want 1", len(claims), err)
		}
		r.beside(t, func(tx *gorm.DB) error {
			d := &tasks.Decision{Route: "court", Recipients: []string{"court@firm.example"}}
			res := tasks.Reservation{Decision: d, Revision: "r2", Dedupe: tasks.DedupeAll}
			_, err := q.reserve(tx, time.Now().UTC(), claims[0].Receipt, res)
			return err
		}, func() error { _, err := other.Register(t.Context(), pages[1]); return err })
		r.wantDelivery(t, "the copy", r.taskOf(t, pages[1]), tasks.Pending, 0)
	})
}
