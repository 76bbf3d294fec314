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
	token, busy, err := b.AcquireScan(b.ctx, inboxID, holder, time.Minute)
	if err != nil || busy != nil {
		b.t.Fatalf("acquire for %s: busy %v, %v; want the lease", holder, busy, err)
	}
	return token
}

func TestScanLease(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		id := b.add("desk@firm.example").ID
		first := b.acquire(id, "run-1")
		if again := b.acquire(id, "run-1"); again != first {
			t.Errorf("the same holder acquired again and got token %d, want %d as before", again, first)
		}
		_, busy, err := b.AcquireScan(b.ctx, id, "run-2", time.Minute)
		if err != nil || busy == nil || busy.Holder != "run-1" || time.Until(busy.Until) < 30*time.Second ||
			time.Until(busy.Until) > 2*time.Minute {
			t.Fatalf("busy is %+v (%v), want run-1 for about a minute", busy, err)
		}
		if err := b.RenewScan(b.ctx, id, first, time.Minute); err != nil {
			t.Errorf("renew while held: %v, want no error", err)
		}

		b.expire(id)
		if err := b.RenewScan(b.ctx, id, first, time.Minute); err != nil {
			t.Errorf("renew after it expired, with no other holder: %v, want no error", err)
		}
		b.expire(id)
		second := b.acquire(id, "run-2")
		if second != first+1 {
			t.Errorf("the token is %d after the lease got another holder, want %d", second, first+1)
		}
		for doing, err := range map[string]error{
			"renew":  b.RenewScan(b.ctx, id, first, time.Minute),
			"finish": b.FinishScan(b.ctx, id, first, ""),
		} {
			if !errors.Is(err, ErrScanLost) {
				t.Errorf("%s after the lease was lost: %v, want ErrScanLost", doing, err)
			}
		}
		if err := b.ReleaseScan(b.ctx, id, first); err != nil {
			t.Errorf("release after the lease was lost: %v, want no error", err)
		}
		if _, busy, err := b.AcquireScan(b.ctx, id, "run-3", time.Minute); err != nil || busy == nil {
			t.Errorf("a release with an old token released the new holder's lease (%v), want it kept", err)
		}

		for range 2 { // as when the answer to the first is lost
			if err := b.ReleaseScan(b.ctx, id, second); err != nil {
				t.Errorf("release: %v, want no error", err)
			}
		}
		if err := b.RenewScan(b.ctx, id, second, time.Minute); !errors.Is(err, ErrScanLost) {
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
				token, busy, err := b.AcquireScan(b.ctx, id, holder, time.Minute)
				if err != nil {
					t.Errorf("holder %s: %v", holder, err)
				}
				if err == nil && busy == nil {
					mu.Lock()
					defer mu.Unlock()
					won = append(won, token)
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
		wantError(t, err, "4711", "removed")
		if _, _, err = b.AcquireScan(b.ctx, b.add("a@x.org").ID, "", time.Minute); err == nil {
			t.Error("a lease without a holder was acquired, want an error")
		}
	})
}

func TestFinishScan(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		id := b.add("desk@firm.example").ID
		token := b.acquire(id, "run-1")
		if err := b.FinishScan(b.ctx, id, token, strings.Repeat("ö", 3000)); err != nil {
			t.Fatal(err)
		}
		if in := b.get("desk@firm.example"); in.LastScannedAt != nil || in.LastError != strings.Repeat("ö", 2000) {
			t.Errorf("after a failure: last scan %v, error of %d octets; want no scan, 2,000 characters",
				in.LastScannedAt, len(in.LastError))
		}
		if err := b.FinishScan(b.ctx, id, token, ""); err != nil {
			t.Fatal(err)
		}
		in := b.get("desk@firm.example")
		if in.LastScannedAt == nil || time.Since(*in.LastScannedAt).Abs() > time.Minute || in.LastError != "" {
			t.Errorf("after a success: last scan %v, error %q; want now, none", in.LastScannedAt, in.LastError)
		}
	})
}

// TestOutage checks that an outage begins with the third failure in a row, counts from the first,
// and ends with a success.
func TestOutage(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		id := b.add("desk@firm.example").ID
		token := b.acquire(id, "run-1")
		scan := func(failure string) { b.must(b.FinishScan(b.ctx, id, token, failure)) }
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
		for doing, err := range map[string]error{
			"initialize":                  b.Initialize(b.ctx, stale, fresh, 3, 1),
			"initialize as it is already": b.Initialize(b.ctx, stale, known, 8, 5),
			"reset":                       b.ResetEpoch(b.ctx, stale, known, 8, 9),
			"reset from an older epoch":   b.ResetEpoch(b.ctx, stale, known, 7, 9),
			"rewind":                      b.Rewind(b.ctx, stale, known, 8, 1),
			"stamp a folder":              b.FolderScanned(b.ctx, stale, known),
			"finish":                      b.FinishScan(b.ctx, id, stale.Token, "it failed"),
			"pause":                       b.PauseScan(b.ctx, id, stale.Token, time.Hour),
			"renew":                       b.RenewScan(b.ctx, id, stale.Token, time.Hour),
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
