package after

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/emersion/go-imap/v2"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/outbox"
	"postrider/internal/route"
	"postrider/internal/tasks"
	"postrider/internal/testserver"
)

// with puts something between the worker and each session.
func (r *rig) with(wrap func(c *imapsrc.Conn) Server) {
	r.worker.Dial = func(ctx context.Context, _ inbox.Inbox) (Server, error) {
		c, err := r.dial(ctx)
		return wrap(c), err
	}
}

// alias has the INBOX under a second name, as a server with two namespaces has.
type alias struct{ *imapsrc.Conn }

func named(folder string) string {
	if folder == "Second" {
		return "INBOX"
	}
	return folder
}

func (a alias) Select(ctx context.Context, folder string) (imapsrc.Folder, error) {
	return a.Conn.Select(ctx, named(folder))
}

func (a alias) Copy(ctx context.Context, uids []uint32, folder string) ([]uint32, error) {
	return a.Conn.Copy(ctx, uids, named(folder))
}

// TestMovesToItself: in a folder that is the message's own under another name, the message is not
// taken for its copy.
func TestMovesToItself(t *testing.T) {
	r := newRig(t, 2, imap.CapMove)
	r.with(func(c *imapsrc.Conn) Server { return alias{c} })
	r.wants("move:Second", 1)
	r.work()
	r.wantIn("INBOX", "message 0", "message 1")
}

// meanwhile calls f before contents are fetched.
type meanwhile struct {
	*imapsrc.Conn
	f func()
}

func (m meanwhile) Bodies(ctx context.Context, uids []uint32, each eachBody) (imapsrc.Result, error) {
	m.f()
	return m.Conn.Bodies(ctx, uids, each)
}

// TestRequeuedMeanwhile: the task is put back while its message is compared.
func TestRequeuedMeanwhile(t *testing.T) {
	r := newRig(t, 1)
	task := r.tasks[1]
	task.Status, task.Deliveries = tasks.SkippedNoMatch, nil
	r.tasks[1] = task
	r.wants("delete", 1)
	r.with(func(c *imapsrc.Conn) Server {
		return meanwhile{c, func() { task.Status = tasks.Received; r.tasks[1] = task }}
	})
	r.work()
	r.wantEnd(1, outbox.Dropped, "the task is received now")
	r.wantIn("INBOX", "message 0")
}

// TestUnreadCopy: another message of the same size is no copy of one whose content is not known.
func TestUnreadCopy(t *testing.T) {
	r := newRig(t, 1, imap.CapMove)
	task := r.tasks[1]
	task.Identity.MessageID = ""
	r.tasks[1] = task
	n := r.noted[task.UID]
	n.Fingerprint = n.Stated.Outline()
	r.noted[task.UID] = n
	_, err := r.imap.Append(user, "Done", testserver.Mail("a@client.example", user, "massage 0", "x"))
	check(t, err)
	r.wants("move:Done", 1)
	r.work()
	r.wantEnd(1, outbox.Done, "")
	r.wantIn("Done", "massage 0", "message 0")
}

// counting counts the contents that are read, and the commands that change messages.
type counting struct {
	*imapsrc.Conn
	read, moves *int
}

func (c counting) Bodies(ctx context.Context, uids []uint32, each eachBody) (imapsrc.Result, error) {
	*c.read += len(uids)
	return c.Conn.Bodies(ctx, uids, each)
}

func (c counting) Move(ctx context.Context, uids []uint32, folder string) error {
	*c.moves++
	return c.Conn.Move(ctx, uids, folder)
}

// TestNewestCopy: of messages that look like a copy, the newest ten are read, so the copy of an
// earlier try is found, and a folder with many of them is not read as a whole.
func TestNewestCopy(t *testing.T) {
	r := newRig(t, 1, imap.CapMove)
	task := r.tasks[1]
	task.Identity.MessageID = ""
	r.tasks[1] = task
	for range 10 {
		_, err := r.imap.Append(user, "Done", testserver.Mail("a@client.example", user, "massage 0", "x"))
		check(t, err)
	}
	_, err := r.open("INBOX").Copy(t.Context(), []uint32{task.UID}, "Done")
	check(t, err)
	read := 0
	r.with(func(c *imapsrc.Conn) Server { return counting{c, &read, nil} })
	r.wants("move:Done", 1)
	r.work()
	r.wantEnd(1, outbox.Done, "")
	r.wantIn("INBOX")
	r.wantIn("Done", append(slices.Repeat([]string{"massage 0"}, 10), "message 0")...)
	if read != 10 {
		t.Errorf("%d messages were read to find a copy, want 10", read)
	}
}

// TestTogether: one command moves fifty messages.
func TestTogether(t *testing.T) {
	r := newRig(t, 50)
	moves := 0
	r.with(func(c *imapsrc.Conn) Server { return counting{c, new(int), &moves} })
	for id := range int64(50) {
		r.wants("move:Done", id+1)
	}
	r.work()
	r.wantIn("INBOX")
	if moves != 1 {
		t.Errorf("50 messages were moved with %d commands, want one", moves)
	}
}

// half copies the first message alone, and says OK.
type half struct{ *imapsrc.Conn }

func (h half) Copy(ctx context.Context, uids []uint32, folder string) ([]uint32, error) {
	return h.Conn.Copy(ctx, uids[:1], folder)
}

// TestHalfCopied: what the server has not copied is not expunged.
func TestHalfCopied(t *testing.T) {
	r := newRig(t, 3, imap.CapMove)
	r.with(func(c *imapsrc.Conn) Server { return half{c} })
	r.wants("move:Done", 1, 2, 3)
	r.work()
	r.wantIn("Done", "message 0")
	r.wantIn("INBOX", "message 1", "message 2")
	r.wantEnd(1, outbox.Done, "")
	r.wantEnd(2, outbox.Waiting, "does not confirm the copy")
	for range 2 {
		r.now += time.Hour
		r.work()
	}
	r.wantIn("Done", "message 0", "message 1", "message 2")
	r.wantIn("INBOX")
}

// silent does not tell what it has copied, and keeps no message that could be found again.
type silent struct{ *imapsrc.Conn }

func (s silent) Copy(context.Context, []uint32, string) ([]uint32, error) { return nil, nil }

// TestCopiesEnd: a server that does not say what it has copied is not asked to copy without end.
func TestCopiesEnd(t *testing.T) {
	r := newRig(t, 1, imap.CapMove)
	r.with(func(c *imapsrc.Conn) Server { return silent{c} })
	r.wants("move:Done", 1)
	for range maxCopies {
		r.work()
		r.now += time.Hour
	}
	r.wantEnd(1, outbox.DeadLetter, "look into the folder Done")
	r.wantIn("INBOX", "message 0")
}

// forgetful is a server whose folders keep no keywords, as those of Exchange.
type forgetful struct{ *imapsrc.Conn }

func (f forgetful) Keeps(flag string) bool { return flag == `\Seen` }

// TestUnkept: a flag that the folder would forget is not set. The check says so before.
func TestUnkept(t *testing.T) {
	r := newRig(t, 2)
	r.with(func(c *imapsrc.Conn) Server { return forgetful{c} })
	r.wants("flag:$Forwarded", 1)
	r.wants("seen", 2)
	r.work()
	r.wantEnd(1, outbox.DeadLetter, "does not keep the flag $Forwarded")
	r.wantEnd(2, outbox.Done, "")
	if got := r.flagged("$Forwarded"); len(got) > 0 {
		t.Errorf("%d have the flag", got)
	}
	r.in.Folders = []inbox.Folder{{Name: "INBOX", Active: true}}
	actions := []route.Action{route.Seen, "flag:$Forwarded"}
	problems, err := r.worker.Check(t.Context(), forgetful{r.open("INBOX")}, r.in, nil, actions, nil)
	check(t, err)
	if want := []string{"after: the folder INBOX does not keep the flag $Forwarded"}; !slices.Equal(problems, want) {
		t.Errorf("the check says %q, want %q", problems, want)
	}
}

// guarded is a server that lets the login only read its folders.
type guarded struct{ *imapsrc.Conn }

func (guarded) SelectToChange(context.Context, string) (imapsrc.Folder, error) {
	return imapsrc.Folder{}, &imapsrc.Error{Kind: imapsrc.KindNoFolder, Err: errors.New("read-only")}
}

// TestReadOnly: no message of a folder that is read-only counts as marked, moved or deleted. The
// check says so before, for each action.
func TestReadOnly(t *testing.T) {
	r := newRig(t, 3)
	r.with(func(c *imapsrc.Conn) Server { return guarded{c} })
	r.in.Folders = watches("INBOX")
	for i, action := range []string{"seen", "move:Done", "delete"} {
		id := int64(i + 1)
		r.wants(action, id)
		r.work()
		r.wantEnd(id, outbox.Waiting, "read-only")
		actions := []route.Action{route.Action(action)}
		_, err := r.worker.Check(t.Context(), guarded{r.open("INBOX")}, r.in, nil, actions, nil)
		if !ofKind(err, imapsrc.KindNoFolder) {
			t.Errorf("the check of %s says %v, want that the folder is read-only", action, err)
		}
	}
}

// TestNobodyHasIt: a message without recipients has not arrived, so it is neither moved nor
// deleted.
func TestNobodyHasIt(t *testing.T) {
	if arrived(tasks.Task{Status: tasks.Forwarded}, nil) {
		t.Error("a message without recipients counts as arrived")
	}
}
