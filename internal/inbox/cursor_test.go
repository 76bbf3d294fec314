package inbox

import (
	"errors"
	"fmt"
	"testing"

	"gorm.io/gorm"
)

func wantCursor(t *testing.T, b bench, want string) {
	t.Helper()
	f := b.get("desk@firm.example").Folders[0]
	got := fmt.Sprintf("epoch %d, seen %d, start %d, baseline %d, initialized %v",
		f.UIDValidity, f.LastSeenUID, f.StartUID, f.BaselineUID, f.InitializedAt != nil)
	if got != want {
		t.Errorf("the cursor is %s; want %s", got, want)
	}
}

func TestInitialize(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		id := b.add("desk@firm.example").Folders[0].ID
		wantCursor(t, b, "epoch 0, seen 0, start 0, baseline 0, initialized false")
		const epoch, top = int64(3)<<32 | 4294967295, 4294967295
		for range 2 { // the answer to the first may be lost
			if err := b.Initialize(b.ctx, id, epoch, top); err != nil {
				t.Fatal(err)
			}
		}
		wantCursor(t, b, fmt.Sprintf("epoch %d, seen %d, start %d, baseline 0, initialized true", epoch, top, top))
		if err := b.Initialize(b.ctx, id, epoch, 5); !errors.Is(err, ErrCursorMoved) {
			t.Errorf("initialised to something else: %v, want ErrCursorMoved", err)
		}
		if err := b.Initialize(b.ctx, 4711, epoch, 5); !errors.Is(err, ErrCursorMoved) {
			t.Errorf("a folder that is not there: %v, want ErrCursorMoved", err)
		}
	})
}

func TestResetEpoch(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		id := b.add("desk@firm.example").Folders[0].ID
		if err := b.ResetEpoch(b.ctx, id, 0, 9); !errors.Is(err, ErrCursorMoved) {
			t.Errorf("a folder that was never scanned: %v, want ErrCursorMoved", err)
		}
		if err := b.Initialize(b.ctx, id, 8, 100); err != nil {
			t.Fatal(err)
		}
		if err := b.SetBaseline(b.ctx, id, 8, 50); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := b.ResetEpoch(b.ctx, id, 8, 9); err != nil {
				t.Fatal(err)
			}
		}
		wantCursor(t, b, "epoch 9, seen 0, start 0, baseline 0, initialized true")
		b.exec(`UPDATE monitored_folders SET last_seen_uid = 3`)
		if err := b.ResetEpoch(b.ctx, id, 8, 9); !errors.Is(err, ErrCursorMoved) {
			t.Errorf("from an epoch that is over: %v, want ErrCursorMoved", err)
		}
		wantCursor(t, b, "epoch 9, seen 3, start 0, baseline 0, initialized true")
	})
}

func TestSetBaseline(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		id := b.add("desk@firm.example").Folders[0].ID
		if err := b.Initialize(b.ctx, id, 8, 100); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			epoch int64
			uid   uint32
			want  int
		}{{8, 40, 40}, {8, 30, 40}, {7, 90, 40}, {8, 100, 100}} {
			if err := b.SetBaseline(b.ctx, id, step.epoch, step.uid); err != nil {
				t.Fatal(err)
			}
			wantCursor(t, b, fmt.Sprintf("epoch 8, seen 100, start 100, baseline %d, initialized true", step.want))
		}
		if err := b.FolderScanned(b.ctx, id); err != nil {
			t.Fatal(err)
		}
		if b.get("desk@firm.example").Folders[0].LastScannedAt == nil {
			t.Error("the folder's scan is not stamped")
		}
	})
}

func TestRewind(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		in := b.add("desk@firm.example")
		id := in.Folders[0].ID
		if err := b.Rewind(b.ctx, id, 0, 0); !errors.Is(err, ErrCursorMoved) {
			t.Errorf("a folder that was never scanned: %v, want ErrCursorMoved", err)
		}
		if err := b.Initialize(b.ctx, id, 8, 5); err != nil {
			t.Fatal(err)
		}
		b.exec(`UPDATE monitored_folders SET last_seen_uid = 10, baseline_uid = 5`)
		for uid := 1; uid <= 10; uid++ { // 1-5 were there before the start, 6-10 were registered
			task := 0
			if uid > 5 {
				task = 100 + uid
			}
			b.exec(`INSERT INTO monitored_emails_seen VALUES (?, 8, ?, ?, ?, ?)`, id, uid, in.ID, task, make([]byte, 32))
		}
		b.exec(`INSERT INTO monitored_emails_seen VALUES (?, 7, 9, ?, 0, ?)`, id, in.ID, make([]byte, 32))

		registered, unregistered, err := b.CountRewind(b.ctx, id, 8, 3)
		if err != nil || registered != 5 || unregistered != 2 {
			t.Errorf("count above 3 is %d registered, %d not (%v); want 5 and 2", registered, unregistered, err)
		}
		if err := b.Rewind(b.ctx, id, 7, 3); !errors.Is(err, ErrCursorMoved) {
			t.Errorf("in another epoch: %v, want ErrCursorMoved", err)
		}
		if err := b.Rewind(b.ctx, id, 8, 20); err != nil {
			t.Fatal(err)
		}
		wantCursor(t, b, "epoch 8, seen 10, start 5, baseline 5, initialized true")
		for range 2 {
			if err := b.Rewind(b.ctx, id, 8, 3); err != nil {
				t.Fatal(err)
			}
		}
		wantCursor(t, b, "epoch 8, seen 3, start 3, baseline 3, initialized true")
		var left []int
		err = b.db.View(b.ctx, func(tx *gorm.DB) error {
			left = nil
			return tx.Raw(`SELECT uid FROM monitored_emails_seen WHERE folder_id = ? AND uid_validity = 8 ORDER BY uid`, id).Scan(&left).Error
		})
		if want := "[1 2 3 6 7 8 9 10]"; err != nil || fmt.Sprint(left) != want {
			t.Errorf("the ledger holds %v (%v), want %s: what was registered stays", left, err, want)
		}
		if _, other, err := b.CountRewind(b.ctx, id, 7, 0); err != nil || other != 1 {
			t.Errorf("the other epoch has %d rows (%v), want its 1", other, err)
		}
	})
}
