//go:build unix

package sqlqueue

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/inbox"
	"postrider/internal/tasks"
)

// processEnv holds the orders, as JSON, of this test binary run as a process of its own.
const processEnv = "POSTRIDER_TEST_PROCESS"

// orders are what a process is to do until its standard input ends.
type orders struct {
	Name     string // unique to the process
	Scans    bool   // registers pages; otherwise it works tasks off
	DB       db.Config
	Notebook string
	Lease    time.Duration
	Seed     uint64
	Folders  map[int64]int64 // by inbox
}

// hand is a process at work.
type hand struct {
	orders
	notebook
	*Queue
	rand *rand.Rand
	stop context.Context // ends with standard input
}

// TestProcess is no test of its own: TestProcesses runs it.
func TestProcess(t *testing.T) {
	text := os.Getenv(processEnv)
	if text == "" {
		t.Skip("TestProcesses runs it, as a process of its own")
	}
	h := hand{}
	if err := json.Unmarshal([]byte(text), &h.orders); err != nil {
		t.Fatal(err)
	}
	var cancel context.CancelFunc
	h.stop, cancel = context.WithCancel(t.Context())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if err := h.run(); err != nil && h.stop.Err() == nil {
		t.Fatalf("%s: %v", h.Name, err)
	}
}

func (h *hand) run() (err error) {
	if h.notebook, err = openNotebook(h.Notebook); err != nil {
		return err
	}
	h.rand = rand.New(rand.NewPCG(h.Seed, 0))
	var d *db.DB
	for end := time.Now().Add(time.Minute); ; { // the server may be restarting
		if d, err = db.Open(h.stop, h.DB); err == nil {
			break
		}
		if time.Now().After(end) || h.stop.Err() != nil {
			return err
		}
		h.pause(100 * time.Millisecond)
	}
	defer func() { _ = d.Close() }()
	h.Queue = New(d)
	if _, err := fmt.Println(ready); err != nil {
		return err
	}
	for h.stop.Err() == nil && err == nil {
		if h.Scans {
			err = h.scan(context.WithoutCancel(h.stop))
		} else {
			err = h.work(context.WithoutCancel(h.stop))
		}
	}
	return err
}

// pause is what a relay takes its time for.
func (h *hand) pause(most time.Duration) {
	select {
	case <-time.After(time.Duration(h.rand.Int64N(int64(most)))):
	case <-h.stop.Done():
	}
}

func (h *hand) anyInbox() int64 {
	ids := slices.Sorted(maps.Keys(h.Folders))
	return ids[h.rand.IntN(len(ids))]
}

// scan registers a page that overlaps the one before.
func (h *hand) scan(ctx context.Context) error {
	inboxID := h.anyInbox()
	store := inbox.New(h.db, nil)
	due, err := h.DueOf(ctx, []int64{inboxID})
	if err != nil {
		return err
	}
	lease, busy, err := store.AcquireScan(ctx, inboxID, h.Name, h.Lease)
	if err != nil {
		return err
	}
	if busy != nil || due[inboxID] > 40 {
		h.pause(100 * time.Millisecond)
		return nil
	}
	page := tasks.Page{
		InboxID: inboxID, FolderID: h.Folders[inboxID], Epoch: 1,
		ScanToken: lease.Token, Dedupe: tasks.DedupeInbox,
	}
	var cursor uint32
	err = h.db.View(ctx, func(tx *gorm.DB) error {
		return tx.Raw("SELECT last_seen_uid FROM monitored_folders WHERE id = ?", page.FolderID).Scan(&cursor).Error
	})
	if err != nil {
		return err
	}
	page.Cursor = cursor + 1 + h.rand.Uint32N(15)
	for uid := max(1, cursor-min(cursor, h.rand.Uint32N(20))); uid <= page.Cursor; uid++ {
		page.Entries = append(page.Entries, entryOf(page.FolderID, uid))
	}
	h.pause(h.Lease / 2)
	var regs []tasks.Registration
	err = h.tell(note{What: "register", Inbox: inboxID, Token: lease.Token, Cursor: page.Cursor}, func() (err error) {
		regs, err = h.Register(ctx, page)
		return err
	})
	for _, r := range regs {
		if err == nil && r.Task != nil && fateOf(r.UID).arrives() && h.rand.IntN(2) == 0 {
			err = h.offer(ctx, *r.Task)
		}
	}
	if err == nil && h.rand.IntN(2) == 0 {
		err = store.ReleaseScan(ctx, lease.Scan())
	}
	return err
}

// offer sends what was just registered, unless another worker claims it before.
func (h *hand) offer(ctx context.Context, t tasks.Task) error {
	h.pause(h.Lease / 20)
	before, err := h.db.Clock(ctx)
	if err != nil {
		return err
	}
	c := tasks.Offer(t, fmt.Sprint(h.Name, "-", os.Getpid()), h.Name, h.Lease)
	err = h.write(note{
		What: "offered", Outcome: done, Worker: h.Name, Task: t.ID, Receipt: c.Receipt.Token,
		At: before.UnixMicro(), To: byRecipient(t.Deliveries),
	})
	if err != nil {
		return err
	}
	ds, err := h.forward(ctx, c, t.Deliveries)
	if err != nil || ds == nil {
		return err
	}
	c.Lease = 0
	return h.settle(ctx, c, ds)
}

func entryOf(folderID int64, uid uint32) tasks.Entry {
	e := tasks.Entry{
		UID: uid, Stated: tasks.Stated{Size: folderID<<32 + int64(uid)}, Decision: decisionOf(uid),
		Identity: tasks.Identity{Fingerprint: sha256.Sum256(fmt.Append(nil, folderID, contentOf(uid)))},
	}
	if uid%11 == 0 && contentOf(uid+1) != uid { // its copy would be first
		e.Decision = nil // to be decided at the first claim
	}
	return e
}

const rules = "r1" // the revision in force

func decisionOf(uid uint32) *tasks.Decision {
	d := &tasks.Decision{Revision: rules, Route: "desk", Recipients: recipientsOf(uid)}
	if fateOf(uid) == tooLarge {
		d.Skip, d.Reason = tasks.SkipTooLarge, "too large"
	}
	if uid%7 == 0 {
		d.Priority = tasks.High
	}
	return d
}

// tell writes the call into the notebook before and after it is made. A lost lease is no error.
func (h *hand) tell(n note, call func() error) error {
	n.Worker, n.Outcome = h.Name, begun
	if err := h.write(n); err != nil {
		return err
	}
	err := call()
	switch {
	case errors.Is(err, tasks.ErrLeaseLost) || errors.Is(err, tasks.ErrScanLost):
		n.Outcome = lost
	case errors.Is(err, tasks.ErrTaken):
		n.Outcome = taken
	case err != nil:
		return err
	default:
		n.Outcome = done
	}
	return h.write(n)
}
