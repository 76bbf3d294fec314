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
		t.Errorf("the cursor is %s, want %s", got, want)
	}
}

func TestInitialize(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		in := b.add("desk@firm.example")
		id, by := in.Folders[0].ID, Scan{InboxID: in.ID}
		wantCursor(t, b, "epoch 0, seen 0, start 0, baseline 0, initialized false")
		const epoch, top = int64(3)<<32 | 4294967295, 4294967295
		for range 2 { // as when the answer to the first is lost
			if err := b.Initialize(b.ctx, by, id, epoch, top); err != nil {
				t.Fatal(err)
			}
		}
		wantCursor(t, b, fmt.Sprintf("epoch %d, seen %d, start %d, baseline 0, initialized true", epoch, top, top))
		if err := b.Initialize(b.ctx, by, id, epoch, 5); !errors.Is(err, ErrCursorMoved) {
			t.Errorf("initialize with other values: %v, want ErrCursorMoved", err)
		}
		if err := b.Initialize(b.ctx, by, 4711, epoch, 5); !errors.Is(err, ErrCursorMoved) {
			t.Errorf("initialize a folder that does not exist: %v, want ErrCursorMoved", err)
		}
	})
}

func TestResetEpoch(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		in := b.add("desk@firm.example")
		id, by := in.Folders[0].ID, Scan{InboxID: in.ID}
		if err := b.ResetEpoch(b.ctx, by, id, 0, 9); !errors.Is(err, ErrCursorMoved) {
			t.Errorf("a folder that was never scanned: %v, want ErrCursorMoved", err)
		}
		if err := b.Initialize(b.ctx, by, id, 8, 100); err != nil {
			t.Fatal(err)
		}
		b.exec(`UPDATE monitored_folders SET baseline_uid = 50`)
		for range 2 {
			if err := b.ResetEpoch(b.ctx, by, id, 8, 9); err != nil {
				t.Fatal(err)
			}
		}
		wantCursor(t, b, "epoch 9, seen 0, start 0, baseline 0, initialized true")
		b.exec(`UPDATE monitored_folders SET last_seen_uid = 3`)
		if err := b.ResetEpoch(b.ctx, by, id, 8, 9); !errors.Is(err, ErrCursorMoved) {
			t.Errorf("reset from an old epoch: %v, want ErrCursorMoved", err)
		}
		wantCursor(t, b, "epoch 9, seen 3, start 0, baseline 0, initialized true")
	})
}

func TestRewind(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		in := b.add("desk@firm.example")
		id, by := in.Folders[0].ID, Scan{InboxID: in.ID}
		rewind := func(epoch int64, uid uint32) error {
			return b.Rewind(b.ctx, by, Folder{ID: id, UIDValidity: epoch, Name: "INBOX"}, uid, "ann", "by an operator")
		}
		if err := rewind(0, 0); !errors.Is(err, ErrCursorMoved) {
			t.Errorf("a folder that was never scanned: %v, want ErrCursorMoved", err)
		}
		if err := b.Initialize(b.ctx, by, id, 8, 5); err != nil {
			t.Fatal(err)
		}
		b.exec(`UPDATE monitored_folders SET last_seen_uid = 10, baseline_uid = 5`)
		for uid := 1; uid <= 10; uid++ { // 1-5 are up to the start, 6-10 were registered
			task := 0
			if uid > 5 {
				task = 100 + uid
			}
			b.exec(`INSERT INTO monitored_emails_seen (folder_id, uid_validity, uid, inbox_id, task_id, fingerprint)
				VALUES (?, 8, ?, ?, ?, ?)`, id, uid, in.ID, task, fmt.Appendf(nil, "%032d", uid))
		}
		for _, uid := range []int{2, 4} { // UIDs 102 and 104 of the previous epoch
			b.exec(`INSERT INTO monitored_emails_seen (folder_id, uid_validity, uid, inbox_id, task_id, fingerprint)
				VALUES (?, 7, ?, ?, 0, ?)`, id, 100+uid, in.ID, fmt.Appendf(nil, "%032d", uid))
		}
		if err := rewind(7, 3); !errors.Is(err, ErrCursorMoved) {
			t.Errorf("rewind in another epoch: %v, want ErrCursorMoved", err)
		}
		if err := rewind(8, 20); err != nil {
			t.Fatal(err)
		}
		wantCursor(t, b, "epoch 8, seen 10, start 5, baseline 5, initialized true")
		for range 2 {
			if err := rewind(8, 3); err != nil {
				t.Fatal(err)
			}
		}
		wantCursor(t, b, "epoch 8, seen 3, start 3, baseline 3, initialized true")
		var trail string
		err := b.db.View(b.ctx, func(tx *gorm.DB) error {
			return tx.Raw(`SELECT CONCAT(worker, ' ', event, ' ', detail) FROM monitored_emails_events
				WHERE inbox_id = ? ORDER BY id DESC LIMIT 1`, in.ID).Scan(&trail).Error
		})
		if want := `ann rewound folder "INBOX" to UID 3, by an operator`; err != nil || trail != want {
			t.Errorf("the trail ends with %q (%v), want %q", trail, err, want)
		}
		var left []int
		err = b.db.View(b.ctx, func(tx *gorm.DB) error {
			left = nil
			return tx.Raw(`SELECT uid FROM monitored_emails_seen WHERE folder_id = ?
				ORDER BY uid_validity DESC, uid`, id).Scan(&left).Error
		})
		if want := "[1 2 3 6 7 8 9 10 102]"; err != nil || fmt.Sprint(left) != want {
			t.Errorf("the ledger holds %v (%v), want %s: registered messages stay, and those up to the new cursor",
				left, err, want)
		}
	})
}

func TestReconciled(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		in := b.add("desk@firm.example")
		id, by := in.Folders[0].ID, Scan{InboxID: in.ID}
		want := func(epoch int64) {
			t.Helper()
			if got := b.get("desk@firm.example").Folders[0].Reconciled; got != epoch {
				t.Errorf("reconciled through epoch %d, want %d", got, epoch)
			}
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		want(0)
		must(b.Initialize(b.ctx, by, id, 8, 5))
		want(8)
		must(b.ResetEpoch(b.ctx, by, id, 8, 9))
		want(0)
		if err := b.Reconciled(b.ctx, by, id, 8); !errors.Is(err, ErrCursorMoved) {
			t.Errorf("in an epoch that is over: %v, want ErrCursorMoved", err)
		}
		if err := b.Reconciled(b.ctx, Scan{InboxID: in.ID, Token: 1}, id, 9); !errors.Is(err, ErrScanLost) {
			t.Errorf("without the scan lease: %v, want ErrScanLost", err)
		}
		want(0)
		for range 2 { // the answer to the first may be lost
			must(b.Reconciled(b.ctx, by, id, 9))
		}
		want(9)
		must(b.Distrust(b.ctx, id, 8)) // an epoch that is over
		want(9)
		must(b.Distrust(b.ctx, id, 9))
		must(b.Reconciled(b.ctx, by, id, 9))
		if !b.get("desk@firm.example").Folders[0].Distrusted() {
			t.Error("the folder is trusted again, want it distrusted until it begins a new epoch")
		}
		must(b.ResetEpoch(b.ctx, by, id, 9, 10))
		want(0)
	})
}
