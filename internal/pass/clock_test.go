package pass

import (
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/inbox"
	"postrider/internal/tasks"
	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

// TestClocks: two hosts share a database, the clock of one is an hour ahead, that of the other an
// hour behind. Whatever is decided by the time goes by the database's.
func TestClocks(t *testing.T) {
	for name, server := range map[string]func(testing.TB) *testserver.SQL{
		"mariadb": testserver.MariaDB,
		"mysql":   testserver.MySQL,
	} {
		t.Run(name, func(t *testing.T) {
			config := db.Config{Driver: db.MySQL, DSN: server(t).NewDatabase(t)}
			r := newRigOn(t, config, func(e smtpsink.Event) smtpsink.Action {
				if e.Stage == "rcpt" {
					return smtpsink.Action{Code: 451, Text: "4.7.1 greylisted"}
				}
				return smtpsink.Action{}
			})
			r.add(inbox.StartAll)
			r.put("INBOX", mails(1)...)
			r.Config.Policy.GiveUpAfter, r.Config.Policy.MaxAttempts = 30*time.Minute, 100
			r.Config.Policy.Base = 30 * time.Minute
			began := time.Now()
			hosts := []*rig{r.offBy("ahead:1", time.Hour), r.offBy("behind:1", -time.Hour)}
			for n := range 8 { // its age counts from the fifth attempt on
				h := hosts[n%2]
				if rep := h.run(); rep.Error != "" || rep.Counters.Retry != 1 {
					t.Errorf("%s reports %+v, want that it tried the message", h.Config.Worker, rep)
				}
				if got := r.wantTask(tasks.Error, "451"); got.Attempts != n+1 {
					t.Errorf("attempt %d counts as %d", n+1, got.Attempts)
				}
				for _, h := range hosts {
					h.want(h.run(), Counters{}) // not due for half an hour
				}
				r.due()
			}
			in := r.stored()
			for what, at := range map[string]*time.Time{
				"inbox": in.LastScannedAt, "folder": in.Folders[0].LastScannedAt, "task": &r.tasks()[0].UpdatedAt,
			} {
				if at == nil || at.Before(began.Add(-time.Minute)) || at.After(time.Now().Add(time.Minute)) {
					t.Errorf("the %s's time is %v, want the database's, %v", what, at, time.Now())
				}
			}
			r.wantLeasesToHold(hosts[0], hosts[1])
			r.wantLeasesToHold(hosts[1], hosts[0])
		})
	}
}

// offBy is a host whose clock is wrong.
func (r *rig) offBy(worker string, d time.Duration) *rig {
	wrong := func() time.Time { return time.Now().Add(d) }
	h := r.host(worker)
	h.store, h.queue = r.open(wrong)
	h.Inboxes, h.Queue, h.Now = h.store, h.queue, wrong
	return h
}

// due makes all tasks due that wait.
func (r *rig) due() {
	r.t.Helper()
	d, err := db.Open(r.t.Context(), r.db)
	check(r.t, err)
	defer func() { _ = d.Close() }()
	check(r.t, d.Tx(r.t.Context(), func(tx *gorm.DB) error {
		return tx.Exec(`UPDATE monitored_emails_tasks SET visible_at = 1`).Error
	}))
}

// wantLeasesToHold checks that one host takes from the other neither the scan nor a claim.
func (r *rig) wantLeasesToHold(a, b *rig) {
	r.t.Helper()
	ctx := r.t.Context()
	in, err := r.store.Get(ctx, address)
	check(r.t, err)
	lease, busy, err := a.store.AcquireScan(ctx, in.ID, a.Config.Worker, time.Minute)
	check(r.t, err)
	if busy != nil {
		r.t.Fatalf("%s does not get the scan, which is free: %+v", a.Config.Worker, busy)
	}
	if _, busy, err = b.store.AcquireScan(ctx, in.ID, b.Config.Worker, time.Minute); err != nil || busy == nil {
		r.t.Errorf("%s takes a live scan from %s (%v)", b.Config.Worker, a.Config.Worker, err)
	}
	check(r.t, a.store.ReleaseScan(ctx, lease.Scan()))
	r.due()
	want := tasks.Want{InboxID: in.ID, Max: 1, Lease: time.Minute, Worker: a.Config.Worker, MaxLostLeases: 3}
	claims, err := a.queue.Receive(ctx, want)
	check(r.t, err)
	if len(claims) != 1 {
		r.t.Fatalf("%s gets %d claims, want the one task that is due", a.Config.Worker, len(claims))
	}
	if stolen, err := b.queue.Receive(ctx, want); err != nil || len(stolen) > 0 {
		r.t.Errorf("%s takes a task in work from %s (%v)", b.Config.Worker, a.Config.Worker, err)
	}
	check(r.t, a.queue.Release(ctx, claims[0], "", 0, nil))
}
