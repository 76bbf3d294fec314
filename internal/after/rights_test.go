package after

import (
	"context"
	"errors"
	"testing"

	"github.com/emersion/go-imap/v2"

	"postrider/internal/imapsrc"
	"postrider/internal/outbox"
)

// rightless is a session whose login may not delete: the server answers OK and does nothing, as
// Dovecot does, or refuses.
type rightless struct {
	*imapsrc.Conn
	refuses bool
	copies  *int
}

func (l rightless) Expunge(context.Context, []uint32) error {
	if l.refuses {
		return &imapsrc.Error{Kind: imapsrc.KindMessage, Err: errors.New("[NOPERM] Permission denied")}
	}
	return nil
}

func (l rightless) Move(ctx context.Context, uids []uint32, _ string) error {
	return l.Expunge(ctx, uids)
}

func (l rightless) Copy(ctx context.Context, uids []uint32, folder string) ([]uint32, error) {
	*l.copies += len(uids)
	return l.Conn.Copy(ctx, uids, folder)
}

// TestMayNotDelete: what is still in its folder was neither moved nor deleted. Without MOVE it is
// copied once, also if its copy cannot be recognised.
func TestMayNotDelete(t *testing.T) {
	moveAndNot(t, func(t *testing.T, without []imap.Cap) {
		for why, refuses := range map[string]bool{"the message is still in its folder": false, "Permission denied": true} {
			t.Run(why, func(t *testing.T) {
				r, copies := newRig(t, 4, without...), 0
				unread := r.noted[r.tasks[3].UID]
				unread.Fingerprint = unread.Stated.Outline()
				r.noted[unread.UID] = unread
				dial := r.worker.Dial
				r.with(func(c *imapsrc.Conn) Server { return rightless{c, refuses, &copies} })
				r.wants("delete", 1)
				r.wants("move:Done", 2, 3, 4)
				for range 3 {
					r.work()
					r.now += longest
				}
				r.wantIn("INBOX", "message 0", "message 1", "message 2", "message 3")
				r.wantEnd(1, outbox.Waiting, why)
				r.wantEnd(2, outbox.Waiting, why)
				r.wantEnd(4, outbox.Waiting, why)
				if without == nil {
					r.wantEnd(3, outbox.Waiting, why)
					r.wantIn("Done")
				} else {
					r.wantEnd(3, outbox.DeadLetter, why)
					r.wantEnd(3, outbox.DeadLetter, "a copy is in the folder Done")
					r.wantIn("Done", "message 1", "message 2", "message 3")
				}
				if want := 3 * len(without); copies != want {
					t.Errorf("%d messages were copied, want %d", copies, want)
				}
				r.worker.Dial = dial // the login gets the right
				r.work()
				r.wantEnd(1, outbox.Done, "")
				r.wantEnd(2, outbox.Done, "")
				r.wantEnd(4, outbox.Done, "")
			})
		}
	})
}

// unseen is a server whose search finds no copy.
type unseen struct{ rightless }

func (unseen) WithMessageID(context.Context, string) ([]uint32, error) { return nil, nil }

// TestCopiesOfWhatStays: a copy that is not found again is not made again and again.
func TestCopiesOfWhatStays(t *testing.T) {
	r, copies := newRig(t, 1, imap.CapMove), 0
	r.with(func(c *imapsrc.Conn) Server { return unseen{rightless{c, false, &copies}} })
	r.wants("move:Done", 1)
	for range maxTries {
		r.work()
		r.now += longest
	}
	r.wantEnd(1, outbox.DeadLetter, "a copy is in the folder Done")
	if copies != maxCopies {
		t.Errorf("the message was copied %d times, want %d", copies, maxCopies)
	}
}

// TestGmailKeepsInAllMail: there a move adds a label, and the message stays in All Mail.
func TestGmailKeepsInAllMail(t *testing.T) {
	r := newRig(t, 1)
	r.with(func(c *imapsrc.Conn) Server { return allMail{gmail{c, ""}} })
	r.wants("move:Done", 1)
	r.work()
	r.wantEnd(1, outbox.Done, "")
}

type allMail struct{ gmail }

func (a allMail) Move(ctx context.Context, uids []uint32, folder string) error {
	_, err := a.Copy(ctx, uids, folder)
	return err
}
