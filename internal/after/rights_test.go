package after

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/emersion/go-imap/v2"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/outbox"
	"postrider/internal/route"
	"postrider/internal/tasks"
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
		for why, refuses := range map[string]bool{
			"the message is still in its folder": false,
			"Permission denied":                  true,
		} {
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

// mute is a session whose server refuses to describe messages that are gone.
type mute struct{ *imapsrc.Conn }

func (m mute) Metadata(ctx context.Context, uids []uint32) ([]imapsrc.Meta, error) {
	metas, err := m.Conn.Metadata(ctx, uids)
	for _, uid := range uids {
		if !slices.ContainsFunc(metas, func(m imapsrc.Meta) bool { return m.UID == uid }) {
			metas = append(metas, imapsrc.Meta{UID: uid})
		}
	}
	return metas, err
}

// TestGoneAndRefused: to describe a message that is gone may be refused, and it is gone all the
// same.
func TestGoneAndRefused(t *testing.T) {
	moveAndNot(t, func(t *testing.T, without []imap.Cap) {
		r := newRig(t, 2, without...)
		r.with(func(c *imapsrc.Conn) Server { return mute{c} })
		r.wants("delete", 1)
		r.wants("move:Done", 2)
		r.work()
		r.wantEnd(1, outbox.Done, "")
		r.wantEnd(2, outbox.Done, "")
	})
}

// TestSharedFolder: another inbox that watches the folder with the same login would lose what is
// moved or deleted there.
func TestSharedFolder(t *testing.T) {
	same := inbox.Inbox{
		ID: 8, Address: "boss@firm.example", Active: true, Folders: watches("INBOX"),
		Host: "imap.firm.example", Port: 993, Username: user,
	}
	for name, c := range map[string]struct {
		change func(other *inbox.Inbox)
		shared bool
	}{
		"the same":           {func(*inbox.Inbox) {}, true},
		"in capital letters": {func(o *inbox.Inbox) { o.Host = "IMAP.firm.example" }, true},
		"another folder":     {func(o *inbox.Inbox) { o.Folders = watches("Other") }, false},
		"not watched":        {func(o *inbox.Inbox) { o.Folders[0].Active = false }, false},
		"another login":      {func(o *inbox.Inbox) { o.Username = "boss" }, false},
		"another server":     {func(o *inbox.Inbox) { o.Host = "mail.firm.example" }, false},
		"another port":       {func(o *inbox.Inbox) { o.Port = 143 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 3)
			r.in.Host, r.in.Port, r.in.Username, r.in.Folders = same.Host, same.Port, same.Username, watches("INBOX")
			other := same
			other.Folders = watches("INBOX")
			c.change(&other)
			r.others = []inbox.Inbox{other}
			r.wants("delete", 1)
			r.wants("move:Done", 2)
			r.wants("seen", 3)
			r.work()
			problems := r.problems([]route.Action{"seen", "delete", "move:Done"}, []route.Action{"move:Done"})
			r.wantEnd(3, outbox.Done, "")
			if !c.shared {
				r.wantIn("INBOX", "message 2")
				if len(problems) > 0 {
					t.Errorf("the check says %q, want nothing", problems)
				}
				return
			}
			const why = `the inbox boss@firm.example has the same account and watches the folder "INBOX"`
			r.wantEnd(1, outbox.Dropped, why)
			r.wantEnd(2, outbox.Dropped, why)
			r.wantIn("INBOX", "message 0", "message 1", "message 2")
			if len(problems) != 1 || !strings.Contains(problems[0], "boss@firm.example has the same account") {
				t.Errorf("the check says %q, want the other inbox", problems)
			}
		})
	}
}

// TestMovesToAnotherInbox: another inbox that watches the target folder with the same login would
// forward the message again, unless a message is forwarded once for all inboxes.
func TestMovesToAnotherInbox(t *testing.T) {
	for dedupe, moves := range map[tasks.Dedupe]bool{tasks.DedupeInbox: false, tasks.DedupeAll: true} {
		t.Run(string(dedupe), func(t *testing.T) {
			r := newRig(t, 2)
			r.in.Username, r.worker.Dedupe = user, dedupe
			r.others = []inbox.Inbox{{
				ID: 8, Address: "done@firm.example", Username: user, Active: true, Folders: watches("Done", "seen"),
			}}
			r.wants("move:Done", 1)
			r.wants("delete", 2)
			r.work()
			r.wantEnd(2, outbox.Done, "")
			problems := r.problems([]route.Action{"seen", "delete", "move:Done"}, []route.Action{"move:Done"})
			if moves {
				r.wantEnd(1, outbox.Done, "")
				if len(problems) > 0 {
					t.Errorf("the check says %q, want nothing", problems)
				}
				return
			}
			const why = `the inbox done@firm.example has the same account and watches the folder "Done"`
			r.wantEnd(1, outbox.Dropped, why)
			// dedupe: all does not know it
			r.wantEnd(1, outbox.Dropped, "to allow it: watch the folder in one inbox only, then")
			r.wantIn("INBOX", "message 0")
			if len(problems) != 1 || !strings.Contains(problems[0], why) {
				t.Errorf("the check says %q, want %q", problems, why)
			}
		})
	}
}

// TestMovesUnmatched: a message that no route matches goes to a folder of another inbox, whose
// routes may take it: nobody has it yet.
func TestMovesUnmatched(t *testing.T) {
	r := newRig(t, 1)
	r.in.Username, r.worker.Dedupe = user, tasks.DedupeInbox
	r.others = []inbox.Inbox{{
		ID: 8, Address: "done@firm.example", Username: user, Active: true, Folders: watches("Done"),
	}}
	unmatched := r.tasks[1]
	unmatched.Status, unmatched.Deliveries = tasks.SkippedNoMatch, nil
	r.tasks[1] = unmatched
	r.wants("move:Done", 1)
	r.work()
	r.wantEnd(1, outbox.Done, "")
	r.wantIn("Done", "message 0")
	problems := r.problems([]route.Action{"seen", "move:Done"}, []route.Action{"seen"})
	if len(problems) > 0 {
		t.Errorf("the check says %q, want nothing", problems)
	}
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
