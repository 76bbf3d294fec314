package inbox

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/testserver"
)

// TestScansEndTogether: each scan of a batch ends as it does alone, and a lost lease keeps none of
// the others from being recorded.
func TestScansEndTogether(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		ends := []ScanEnd{{}, {}, {Failure: "refused"}, {Interrupted: true}, {Pause: time.Hour}, {}}
		var batch []finish
		for i, end := range ends {
			in := b.add(fmt.Sprintf("%d@firm.example", i))
			end.Folders = []int64{in.Folders[0].ID}
			batch = append(batch, finish{Scan{in.ID, b.acquire(in.ID, "run-1")}, end})
		}
		const stale = 1
		b.expire(batch[stale].by.InboxID)
		b.acquire(batch[stale].by.InboxID, "run-2")
		before := b.get("1@firm.example")

		for i, err := range b.finishAll(b.ctx, batch) {
			if lost := errors.Is(err, ErrScanLost); lost != (i == stale) || err != nil && !lost {
				t.Errorf("end %d: %v, want ErrScanLost for %d alone", i, err, stale)
			}
		}
		if after := b.get("1@firm.example"); !reflect.DeepEqual(after, before) {
			t.Errorf("the inbox whose lease was lost is\n%+v\nwant it unchanged:\n%+v", after, before)
		}
		for i, want := range []struct {
			scanned bool
			failure string
			busy    bool
		}{{true, "", false}, {}, {false, "refused", false}, {}, {true, "", true}, {true, "", false}} {
			if i == stale {
				continue
			}
			in := b.get(fmt.Sprintf("%d@firm.example", i))
			_, busy, err := b.AcquireScan(b.ctx, in.ID, "run-3", time.Minute)
			b.must(err)
			if (in.LastScannedAt != nil) != want.scanned || in.LastError != want.failure ||
				in.Folders[0].LastScannedAt == nil || (busy != nil) != want.busy {
				t.Errorf("after end %d: last scan %v, error %q, folder %v, busy %+v; want %+v and the folder scanned",
					i, in.LastScannedAt, in.LastError, in.Folders[0].LastScannedAt, busy, want)
			}
		}
	})
}

// TestScansEndWhileLocked: when another program has the SQLite file locked for too long, the ends
// of scans do not wait one after the other. What could not be done for two inboxes has the same
// error, because a pass prints one line for inboxes with equal errors.
func TestScansEndWhileLocked(t *testing.T) {
	cfg := db.Config{Driver: db.SQLite, Path: filepath.Join(t.TempDir(), "p.db")}
	open := func(opts ...db.Option) *db.DB {
		d, err := db.Open(t.Context(), cfg, opts...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		return d
	}
	store := New(open(db.WithRetryFor(0)), OpenSealer(filepath.Join(t.TempDir(), "key")))
	var errs []error
	texts := map[string]bool{}
	err := open().Tx(t.Context(), func(*gorm.DB) error {
		errs = store.finishAll(t.Context(), []finish{{by: Scan{1, 1}}, {by: Scan{2, 1}}})
		for id := range int64(2) {
			_, _, err := store.AcquireScan(t.Context(), id+1, "run-1", time.Minute)
			texts[fmt.Sprint(err)] = true
			texts[fmt.Sprint(store.FinishScan(t.Context(), Scan{id + 1, 1}, ScanEnd{}))] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !errors.As(errs[0], new(*db.UnavailableError)) || !errors.Is(errs[0], errs[1]) {
		t.Errorf("%v, and %v; want the same error, and only one try", errs[0], errs[1])
	}
	if len(texts) != 2 {
		t.Errorf("%d errors for two kinds of change: %v", len(texts), texts)
	}
}

// TestManyScans: many scans begin and end in one transaction each, with as many statements as one.
func TestManyScans(t *testing.T) {
	var statements testserver.Statements
	sqlite := db.Config{Driver: db.SQLite, Path: filepath.Join(t.TempDir(), "postrider.db")}
	b := newBench(t, sqlite, db.WithPool(statements.Pool))
	for _, n := range []int{1, 30} {
		var leases []*acquisition
		for i := range n {
			in := b.add(fmt.Sprintf("%d-%d@firm.example", n, i))
			leases = append(leases, &acquisition{inboxID: in.ID, by: asker{"run-1", time.Minute}})
		}
		statements.Taken()
		b.must(errors.Join(b.acquireAll(t.Context(), leases)...))
		var batch []finish
		for _, a := range leases {
			batch = append(batch, finish{a.lease.Scan(), ScanEnd{Folders: []int64{a.lease.Inbox.Folders[0].ID}}})
		}
		b.must(errors.Join(b.finishAll(t.Context(), batch)...))
		if texts, commits := statements.Taken(); commits != 2 || len(texts) != 5 {
			t.Errorf("%d scans take %d commits and %d statements, want 2 and 5:\n%q", n, commits, len(texts), texts)
		}
	}
}
