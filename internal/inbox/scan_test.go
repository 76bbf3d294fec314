package inbox

import (
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"
)

// expire makes the lease expire, by the database's clock.
func (b bench) expire(inboxID int64) {
	b.t.Helper()
	b.exec(`UPDATE monitored_emails SET scan_until = 1 WHERE id = ?`, inboxID)
}

func (b bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b bench) acquire(inboxID int64, holder string) int64 {
	b.t.Helper()
	lease, busy, err := b.AcquireScan(b.ctx, inboxID, holder, time.Minute)
	if err != nil || busy != nil {
		b.t.Fatalf("acquire for %s: busy %v, %v; want the lease", holder, busy, err)
	}
	return lease.Token
}

func TestScanLease(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		id := b.add("desk@firm.example").ID
		first := b.acquire(id, "run-1")
		by := Scan{id, first}
		if again := b.acquire(id, "run-1"); again != first {
			t.Errorf("the same holder acquired again and got token %d, want %d as before", again, first)
		}
		_, busy, err := b.AcquireScan(b.ctx, id, "run-2", time.Minute)
		if err != nil || busy == nil || busy.Holder != "run-1" || time.Until(busy.Until) < 30*time.Second ||
			time.Until(busy.Until) > 2*time.Minute {
			t.Fatalf("busy is %+v (%v), want run-1 for about a minute", busy, err)
		}
		if err := b.RenewScan(b.ctx, by, time.Minute); err != nil {
			t.Errorf("renew while held: %v, want no error", err)
		}

		b.expire(id)
		if err := b.RenewScan(b.ctx, by, time.Minute); err != nil {
			t.Errorf("renew after it expired, with no other holder: %v, want no error", err)
		}
		b.expire(id)
		second := b.acquire(id, "run-2")
		if second != first+1 {
			t.Errorf("the token is %d after the lease got another holder, want %d", second, first+1)
		}
		for doing, err := range map[string]error{
			"renew":  b.RenewScan(b.ctx, by, time.Minute),
			"finish": b.FinishScan(b.ctx, by, ScanEnd{}),
		} {
			if !errors.Is(err, ErrScanLost) {
				t.Errorf("%s after the lease was lost: %v, want ErrScanLost", doing, err)
			}
		}
		if err := b.ReleaseScan(b.ctx, by); err != nil {
			t.Errorf("release after the lease was lost: %v, want no error", err)
		}
		if _, busy, err := b.AcquireScan(b.ctx, id, "run-3", time.Minute); err != nil || busy == nil {
			t.Errorf("a release with an old token released the new holder's lease (%v), want it kept", err)
		}

		for range 2 { // as when the answer to the first is lost
			if err := b.ReleaseScan(b.ctx, Scan{id, second}); err != nil {
				t.Errorf("release: %v, want no error", err)
			}
		}
		if err := b.RenewScan(b.ctx, Scan{id, second}, time.Minute); !errors.Is(err, ErrScanLost) {
			t.Errorf("renew after release: %v, want ErrScanLost", err)
		}
		if third := b.acquire(id, "run-3"); third != second+1 {
			t.Errorf("the token is %d after a release, want %d", third, second+1)
		}
	})
}

func TestScanLeaseGoesToOne(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		id := b.add("desk@firm.example").ID
		var wg sync.WaitGroup
		var mu sync.Mutex
		var won []int64
		for _, holder := range strings.Fields("a b c d e f g h") {
			wg.Go(func() {
				lease, busy, err := b.AcquireScan(b.ctx, id, holder, time.Minute)
				if err != nil {
					t.Errorf("holder %s: %v", holder, err)
				}
				if err == nil && busy == nil {
					mu.Lock()
					defer mu.Unlock()
					won = append(won, lease.Token)
				}
			})
		}
		wg.Wait()
		if len(won) != 1 || won[0] != 1 {
			t.Errorf("runs got leases with tokens %v, want one lease with token 1", won)
		}
	})
}

func TestScanLeaseOfARemovedInbox(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		_, _, err := b.AcquireScan(b.ctx, 4711, "run-1", time.Minute)
		wantError(t, err, "acquire the scan lease: the inbox was removed")
		if _, _, err = b.AcquireScan(b.ctx, b.add("a@x.org").ID, "", time.Minute); err == nil {
			t.Error("a lease without a holder was acquired, want an error")
		}
	})
}

func TestFinishScan(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		in := b.add("desk@firm.example", "INBOX", "Junk")
		finish := func(end ScanEnd) Inbox {
			b.must(b.FinishScan(b.ctx, Scan{in.ID, b.acquire(in.ID, "run-1")}, end))
			return b.get("desk@firm.example")
		}
		failed := finish(ScanEnd{Failure: strings.Repeat("ö", 3000), Folders: []int64{in.Folders[0].ID}})
		if failed.LastScannedAt != nil || failed.LastError != strings.Repeat("ö", 2000) {
			t.Errorf("after a failure: last scan %v, error of %d octets; want no scan, 4,000 octets",
				failed.LastScannedAt, len(failed.LastError))
		}
		if a, b := failed.Folders[0].LastScannedAt, failed.Folders[1].LastScannedAt; a == nil || b != nil {
			t.Errorf("folders were scanned at %v and %v, want only the first one scanned", a, b)
		}
		if cut := finish(ScanEnd{Interrupted: true}); cut.LastScannedAt != nil || cut.LastError == "" {
			t.Errorf("after an interruption: last scan %v, error %q; want both unchanged",
				cut.LastScannedAt, cut.LastError)
		}
		done := finish(ScanEnd{})
		if done.LastScannedAt == nil || time.Since(*done.LastScannedAt).Abs() > time.Minute || done.LastError != "" {
			t.Errorf("after a success: last scan %v, error %q; want now, none", done.LastScannedAt, done.LastError)
		}
	})
}

// TestFinishScanReleases checks that the lease is free after the end of a scan, however it ended,
// or that nobody gets it while the server wants no connections.
func TestFinishScanReleases(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		id := b.add("desk@firm.example").ID
		for name, end := range map[string]ScanEnd{
			"success": {}, "failure": {Failure: "no"}, "interrupted": {Interrupted: true},
			"pause after a success": {Pause: time.Hour}, "pause after a failure": {Failure: "no", Pause: time.Hour},
			"pause after an interruption": {Interrupted: true, Pause: time.Hour},
		} {
			by := Scan{id, b.acquire(id, "run-1")}
			for range 2 { // as when the answer to the first is lost
				b.must(b.FinishScan(b.ctx, by, end))
			}
			if err := b.RenewScan(b.ctx, by, time.Minute); !errors.Is(err, ErrScanLost) {
				t.Errorf("%s: renewing the lease after that: %v, want ErrScanLost", name, err)
			}
			_, busy, err := b.AcquireScan(b.ctx, id, "run-2", time.Minute)
			if err != nil || (busy != nil) != (end.Pause > 0) ||
				busy != nil && (!busy.Paused || time.Until(busy.Until) < 30*time.Minute) {
				t.Errorf("%s: then busy is %+v (%v), want a pause: %v", name, busy, err, end.Pause > 0)
			}
			b.expire(id)
		}
	})
}

// TestAcquireScanReads checks that the lease comes with the inbox as it is then.
func TestAcquireScanReads(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		in := b.add("desk@firm.example", "INBOX", "Junk")
		by := Scan{in.ID, b.acquire(in.ID, "run-1")}
		b.must(b.Initialize(b.ctx, by, in.Folders[1].ID, 7, 42))
		b.must(b.FinishScan(b.ctx, by, ScanEnd{Failure: "no"}))
		lease, _, err := b.AcquireScan(b.ctx, in.ID, "run-2", time.Minute)
		b.must(err)
		if want := b.get("desk@firm.example"); !reflect.DeepEqual(lease.Inbox, want) {
			t.Errorf("the lease came with\n%+v\nwant what Get returns:\n%+v", lease.Inbox, want)
		}
	})
}

// TestOutage checks that an outage begins with the third failure in a row, counts from the first,
// and ends with a success.
func TestOutage(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		id := b.add("desk@firm.example").ID
		scan := func(failure string) {
			by := Scan{id, b.acquire(id, "run-1")}
			for range 2 { // as when the answer to the first is lost
				b.must(b.FinishScan(b.ctx, by, ScanEnd{Failure: failure}))
			}
		}
		type outage struct {
			FailedScans                            int
			FailingSince, OutageSince, OutageUntil *time.Time
		}
		look := func() (o outage) {
			b.must(b.db.View(b.ctx, func(tx *gorm.DB) error {
				return tx.Raw(`SELECT failed_scans, failing_since, outage_since, outage_until
					FROM monitored_emails`).Scan(&o).Error
			}))
			return o
		}
		scan("no")
		scan("no")
		scan("")
		scan("no")
		scan("no")
		two := look()
		if two.FailedScans != 2 || two.FailingSince == nil || two.OutageSince != nil {
			t.Fatalf("after two failures in a row it is %+v, want no outage", two)
		}
		scan("no")
		scan("no")
		if o := look(); o.FailedScans != 4 || o.OutageSince == nil || !o.OutageSince.Equal(*two.FailingSince) ||
			o.OutageUntil != nil {
			t.Fatalf("after four failures in a row it is %+v, want an outage since %s", o, two.FailingSince)
		}
		scan("")
		over := look()
		if over.FailedScans != 0 || over.FailingSince != nil || over.OutageSince == nil ||
			over.OutageUntil == nil || !over.OutageUntil.After(*two.FailingSince) {
			t.Fatalf("after a success it is %+v, want an outage that is over", over)
		}
		scan("")
		scan("no")
		if o := look(); !o.OutageSince.Equal(*over.OutageSince) || o.OutageUntil == nil ||
			!o.OutageUntil.Equal(*over.OutageUntil) {
			t.Errorf("after one more failure it is %+v, want the outage unchanged: %+v", o, over)
		}
		scan("no")
		scan("no")
		if o := look(); !o.OutageSince.After(*over.OutageSince) || o.OutageUntil != nil {
			t.Errorf("after three more failures it is %+v, want another outage", o)
		}
	})
}

// TestStaleScanChangesNothing checks that a run cannot change anything after its lease expired and
// another run took it.
func TestStaleScanChangesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		in := b.add("desk@firm.example", "INBOX", "New")
		id := in.ID
		known, fresh := in.Folders[0].ID, in.Folders[1].ID
		stale := Scan{id, b.acquire(id, "run-1")}
		if err := b.Initialize(b.ctx, stale, known, 8, 5); err != nil {
			t.Fatal(err)
		}
		b.expire(id)
		b.acquire(id, "run-2")
		before := b.get("desk@firm.example")
		failed := ScanEnd{Failure: "it failed", Folders: []int64{known}}
		for doing, err := range map[string]error{
			"initialize":                  b.Initialize(b.ctx, stale, fresh, 3, 1),
			"initialize as it is already": b.Initialize(b.ctx, stale, known, 8, 5),
			"reset":                       b.ResetEpoch(b.ctx, stale, known, 8, 9),
			"reset from an older epoch":   b.ResetEpoch(b.ctx, stale, known, 7, 9),
			"rewind":                      b.Rewind(b.ctx, stale, Folder{ID: known, UIDValidity: 8}, 1, "ann", ""),
			"finish":                      b.FinishScan(b.ctx, stale, failed),
			"finish after a success":      b.FinishScan(b.ctx, stale, ScanEnd{Folders: []int64{known}}),
			"pause":                       b.FinishScan(b.ctx, stale, ScanEnd{Interrupted: true, Pause: time.Hour}),
			"renew":                       b.RenewScan(b.ctx, stale, time.Hour),
		} {
			if !errors.Is(err, ErrScanLost) {
				t.Errorf("%s after the lease was lost: %v, want ErrScanLost", doing, err)
			}
		}
		if after := b.get("desk@firm.example"); !reflect.DeepEqual(after, before) {
			t.Errorf("after calls without the lease the inbox is\n%+v\nwant it unchanged:\n%+v", after, before)
		}
		if _, busy, err := b.AcquireScan(b.ctx, id, "run-3", time.Minute); err != nil || busy == nil ||
			busy.Holder != "run-2" {
			t.Errorf("busy is %+v (%v), want run-2 to have the lease", busy, err)
		}
	})
}

// TestLoginNeeded checks that a scan that needs a login begins an outage at once, which goes on,
// and that failures of another kind count from the first of them.
func TestLoginNeeded(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		id := b.add("desk@firm.example").ID
		scan := func(end ScanEnd) (since *time.Time, failed int) {
			b.must(b.FinishScan(b.ctx, Scan{id, b.acquire(id, "run-1")}, end))
			var row struct {
				OutageSince *time.Time
				FailedScans int
			}
			b.must(b.db.View(b.ctx, func(tx *gorm.DB) error {
				return tx.Raw(`SELECT outage_since, failed_scans FROM monitored_emails`).Scan(&row).Error
			}))
			return row.OutageSince, row.FailedScans
		}
		login, down := ScanEnd{Failure: "needs login", LoginNeeded: true}, ScanEnd{Failure: "no"}
		scan(down)
		first, n := scan(login)
		if first == nil || n != 1 {
			t.Fatalf("the first scan that needs a login: an outage since %v after %d, want one", first, n)
		}
		if again, n := scan(login); !again.Equal(*first) || n != 2 {
			t.Errorf("the second: an outage since %s after %d, want the same one", again, n)
		}
		scan(down)
		if still, n := scan(down); !still.Equal(*first) || n != 2 {
			t.Errorf("two other failures: an outage since %s after %d, want the old one", still, n)
		}
		other, n := scan(down)
		if !other.After(*first) || n != 3 {
			t.Errorf("three of them: an outage since %s after %d, want another one", other, n)
		}
		if back, n := scan(login); !back.After(*other) || n != 1 {
			t.Errorf("a login again: an outage since %s after %d, want another one", back, n)
		}
	})
}
