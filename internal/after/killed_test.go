package after

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/emersion/go-imap/v2"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/outbox"
)

// errKilled is what a worker meets that is killed.
var errKilled = errors.New("killed")

// mortal is a session whose worker is killed before or after its nth step.
type mortal struct {
	*imapsrc.Conn
	r     *rig
	left  *int
	after bool
}

func (m *mortal) step(f func() error) error {
	*m.left--
	switch {
	case *m.left > 0:
		return f()
	case *m.left < 0:
		return errKilled
	}
	m.r.dead = true
	if m.after {
		_ = f()
	}
	return errKilled
}

func (m *mortal) AddFlag(ctx context.Context, uids []uint32, flag string) error {
	return m.step(func() error { return m.Conn.AddFlag(ctx, uids, flag) })
}

func (m *mortal) Move(ctx context.Context, uids []uint32, folder string) error {
	return m.step(func() error { return m.Conn.Move(ctx, uids, folder) })
}

func (m *mortal) Copy(ctx context.Context, uids []uint32, folder string) (copied []uint32, err error) {
	err = m.step(func() (err error) { copied, err = m.Conn.Copy(ctx, uids, folder); return err })
	return copied, err
}

func (m *mortal) Create(ctx context.Context, folder string) error {
	return m.step(func() error { return m.Conn.Create(ctx, folder) })
}

func (m *mortal) Expunge(ctx context.Context, uids []uint32) error {
	if err := m.step(func() error { return m.AddFlag(ctx, uids, `\Deleted`) }); err != nil {
		return err
	}
	return m.step(func() error { return m.Conn.Expunge(ctx, uids) })
}

// TestKilled kills the worker before and after each step. The next one goes on, and in the end each
// message is where it should be, once.
func TestKilled(t *testing.T) {
	moveAndNot(t, func(t *testing.T, without []imap.Cap) {
		for n := 1; n <= 5; n++ {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("step %d, after it %t", n, after), func(t *testing.T) {
					r := newRig(t, 4, without...)
					r.worker.CreateFolders = true
					r.wants("move:Archive", 1, 2)
					r.wants("delete", 3)
					left := n
					dial := r.worker.Dial
					r.worker.Dial = func(ctx context.Context, _ inbox.Inbox) (Server, error) {
						conn, err := r.dial(ctx)
						return &mortal{conn, r, &left, after}, err
					}
					_ = r.worker.Work(t.Context(), []inbox.Inbox{r.in}) // fails when it is killed
					r.worker.Dial, r.dead = dial, false
					r.now += r.worker.Lease
					r.work()
					r.wantIn("Archive", "message 0", "message 1")
					r.wantIn("INBOX", "message 3")
					for id := range int64(3) {
						r.wantEnd(id+1, outbox.Done, "")
					}
				})
			}
		}
	})
}
