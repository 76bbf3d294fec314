package after

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/outbox"
	"postrider/internal/tasks"
	"postrider/internal/testserver"
)

func TestMain(m *testing.M) { testserver.Main(m) }

// moveAndNot are servers with MOVE, and with UIDPLUS alone.
func moveAndNot(t *testing.T, test func(t *testing.T, without []imap.Cap)) {
	t.Helper()
	t.Run("MOVE", func(t *testing.T) { test(t, nil) })
	t.Run("UIDPLUS", func(t *testing.T) { test(t, []imap.Cap{imap.CapMove}) })
}

func TestMoves(t *testing.T) {
	moveAndNot(t, func(t *testing.T, without []imap.Cap) {
		r := newRig(t, 3, without...)
		r.wants("move:Done", 1, 3)
		before := r.octets("INBOX", r.tasks[1].UID)
		r.work()
		r.wantIn("INBOX", "message 1")
		r.wantIn("Done", "message 0", "message 2")
		if got := r.octets("Done", 1); got != before {
			t.Errorf("the message became %q, want %q", got, before)
		}
		r.wantEnd(1, outbox.Done, "")
		r.wantEnd(2, outbox.Done, "")
		if want := []string{"1 server: moved to Done", "3 server: moved to Done"}; !slices.Equal(r.trail, want) {
			t.Errorf("the trail has %q, want %q", r.trail, want)
		}
	})
}

// TestDeletesNoOther: a second client has marked another message as deleted.
func TestDeletesNoOther(t *testing.T) {
	moveAndNot(t, func(t *testing.T, without []imap.Cap) {
		for _, action := range []string{"delete", "move:Done"} {
			t.Run(action, func(t *testing.T) {
				r := newRig(t, 2, without...)
				check(t, r.open("INBOX").AddFlag(t.Context(), []uint32{r.tasks[2].UID}, `\Deleted`))
				r.wants(action, 1)
				r.work()
				r.wantIn("INBOX", "message 1")
				r.wantEnd(1, outbox.Done, "")
			})
		}
	})
}

func TestFlags(t *testing.T) {
	r := newRig(t, 2)
	r.wants("seen", 1)
	r.wants("flag:$Forwarded", 2)
	r.work()
	r.wantEnd(1, outbox.Done, "")
	r.wantEnd(2, outbox.Done, "")
	for flag, want := range map[imap.Flag]uint32{`\Seen`: r.tasks[1].UID, "$Forwarded": r.tasks[2].UID} {
		if got := r.flagged(flag); !slices.Equal(got, []uint32{want}) {
			t.Errorf("%s is set on %d, want %d", flag, got, want)
		}
	}
}

// TestLeavesAlone: what is not certainly the message of a task that ended like that is left alone.
func TestLeavesAlone(t *testing.T) {
	type change = func(r *rig, task *tasks.Task)
	status := func(s tasks.Status) change { return func(_ *rig, task *tasks.Task) { task.Status = s } }
	keep := func(why tasks.KeepReason) change { return func(_ *rig, task *tasks.Task) { task.Keep = why } }
	delivery := func(s tasks.DeliveryStatus) change {
		return func(_ *rig, task *tasks.Task) { task.Deliveries[0].Status = s }
	}
	const (
		uncertain = "it is not certain that each recipient has"
		undecided = "it is not known whether a route matches"
	)
	tests := []struct {
		name, action string
		change       change
		status       outbox.Status
		why          string
	}{
		{"requeued", "delete", status(tasks.Received), outbox.Dropped, "the task is received now"},
		{"a recipient without it", "delete", delivery(tasks.Failed), outbox.Dropped, uncertain},
		{"uncertain", "delete", status(tasks.Uncertain), outbox.Dropped, "the task is uncertain now"},
		{"a recipient who waits", "move:Done", delivery(tasks.Pending), outbox.Dropped, uncertain},
		{"a recipient who is being sent to", "delete", delivery(tasks.Sending), outbox.Dropped, uncertain},
		{"one of two recipients refused", "move:Done", func(_ *rig, task *tasks.Task) {
			task.Deliveries = append(task.Deliveries, tasks.Delivery{Recipient: "y@firm.example", Status: tasks.Failed})
		}, outbox.Dropped, uncertain},
		{"not allowed", "delete", func(r *rig, _ *tasks.Task) {
			r.in.AllowDelete = false
		}, outbox.Dropped, "inbox set desk@firm.example --allow-delete"},
		{"not wanted any more", "delete", func(r *rig, task *tasks.Task) {
			task.Route = "court"
			r.worker.Wants = func(kind outbox.Kind, route, action string) (time.Duration, bool) {
				return 0, kind != outbox.Forwarded || route != "court" || action != "delete"
			}
		}, outbox.Dropped, "no longer in the section after"},
		{"wanted later now", "delete", func(r *rig, task *tasks.Task) {
			ended := time.Now().Add(-time.Hour)
			task.FinishedAt = &ended
			r.worker.Wants = func(outbox.Kind, string, string) (time.Duration, bool) { return 2 * time.Hour, true }
		}, outbox.Waiting, ""},
		{"a notice was forwarded", "delete", func(_ *rig, task *tasks.Task) {
			task.Form.Mode = "notice"
		}, outbox.Dropped, "only a notice"},
		{"a route may match", "delete", keep(tasks.KeepUndecided), outbox.Dropped, undecided},
		{"another route may match", "move:Done", keep(tasks.KeepUndecided), outbox.Dropped, undecided},
		{
			"a contact without an address", "move:Done", keep(tasks.KeepUnreached),
			outbox.Dropped, "a route names a recipient that has no address",
		},
		{
			"a recipient who reads it here", "delete", keep(tasks.KeepOwnCopy),
			outbox.Dropped, "the inbox's own address is a recipient",
		},
		{"a duplicate of what nobody has", "delete", func(r *rig, task *tasks.Task) {
			task.Deliveries[0].Status, task.Deliveries[0].DuplicateOf = tasks.Duplicated, 5
			failed := tasks.Delivery{Recipient: "x@firm.example", Status: tasks.Failed}
			r.tasks[5] = tasks.Task{ID: 5, Deliveries: []tasks.Delivery{failed}}
		}, outbox.Dropped, uncertain},
		{"a recipient bounced", "delete", func(_ *rig, task *tasks.Task) {
			task.Deliveries[0].Arrival = &tasks.Arrival{Status: tasks.Bounced}
		}, outbox.Dropped, uncertain},
		{"in that folder", "move:INBOX", func(*rig, *tasks.Task) {}, outbox.Dropped, "already in the folder"},
		{"another UIDVALIDITY", "delete", func(_ *rig, task *tasks.Task) {
			task.Epoch++
		}, outbox.Waiting, "UIDVALIDITY"},
		{"another UIDVALIDITY, which a scan compares", "delete", func(r *rig, task *tasks.Task) {
			r.in.Folders = []inbox.Folder{{ID: task.FolderID, Name: "INBOX", UIDValidity: task.Epoch, Active: true}}
			task.Epoch--
		}, outbox.Waiting, "UIDVALIDITY"},
		{"another UIDVALIDITY, which a scan has compared", "delete", func(r *rig, task *tasks.Task) {
			r.in.Folders = []inbox.Folder{{ID: task.FolderID, Name: "INBOX", UIDValidity: task.Epoch, Active: true}}
			r.in.Folders[0].Reconciled = task.Epoch
			task.Epoch--
		}, outbox.Done, "no longer in its folder"},
		{"another content", "delete", func(r *rig, task *tasks.Task) {
			n := r.noted[task.UID]
			n.Fingerprint[0]++
			r.noted[task.UID] = n
		}, outbox.DeadLetter, "another message"},
		{"another size and content", "seen", func(r *rig, task *tasks.Task) {
			n := r.noted[task.UID]
			n.Fingerprint[0]++
			n.Stated.Size++
			r.noted[task.UID] = n
		}, outbox.DeadLetter, "another message"},
		{"another size and date, never read", "seen", func(r *rig, task *tasks.Task) {
			n := r.noted[task.UID]
			n.Stated = tasks.Stated{Size: n.Stated.Size + 1, Received: n.Stated.Received.Add(time.Hour)}
			n.Fingerprint = n.Stated.Outline()
			r.noted[task.UID] = n
		}, outbox.DeadLetter, "another message"},
		{"another size, never read", "seen", func(r *rig, task *tasks.Task) {
			n := r.noted[task.UID]
			n.Stated.Size++
			n.Fingerprint = n.Stated.Outline()
			r.noted[task.UID] = n
		}, outbox.Dropped, "never read"},
		{"another date, never read", "move:Done", func(r *rig, task *tasks.Task) {
			n := r.noted[task.UID]
			n.Stated.Received = n.Stated.Received.Add(time.Hour)
			n.Fingerprint = n.Stated.Outline()
			r.noted[task.UID] = n
		}, outbox.Dropped, "never read"},
		{"never read", "delete", func(r *rig, task *tasks.Task) {
			n := r.noted[task.UID]
			n.Fingerprint = n.Stated.Outline()
			r.noted[task.UID] = n
		}, outbox.Dropped, "never read"},
		{"not in the ledger", "seen", func(r *rig, task *tasks.Task) {
			delete(r.noted, task.UID)
		}, outbox.DeadLetter, "registry"},
		{"no folder", "move:Nowhere", func(*rig, *tasks.Task) {}, outbox.Waiting, "after.create_folders"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 1)
			r.wants(tt.action, 1)
			task := r.tasks[1]
			tt.change(r, &task)
			r.tasks[1] = task
			r.work()
			r.wantEnd(1, tt.status, tt.why)
			r.wantIn("INBOX", "message 0")
			r.wantIn("Done")
			if got := r.flagged(`\Seen`); len(got) > 0 {
				t.Errorf("%d is marked", got)
			}
		})
	}
}

// TestGone: what is not there any more is moved or deleted already, and cannot be marked.
func TestGone(t *testing.T) {
	r := newRig(t, 3)
	r.wants("delete", 1)
	r.wants("move:Done", 2)
	r.wants("seen", 3)
	check(t, r.imap.Expunge(user, "INBOX", r.uids("INBOX")...))
	r.work()
	r.wantEnd(1, outbox.Done, "no longer in its folder")
	r.wantEnd(2, outbox.Done, "no longer in its folder")
	r.wantEnd(3, outbox.Dropped, "no longer in its folder")
}

// TestServerWithNeither: nothing is expunged by a server that would expunge more.
func TestServerWithNeither(t *testing.T) {
	r := newRig(t, 2, imap.CapMove, imap.CapUIDPlus)
	r.wants("delete", 1)
	r.wants("move:Done", 2)
	r.work()
	r.wantEnd(1, outbox.DeadLetter, "UIDPLUS")
	r.wantEnd(2, outbox.DeadLetter, "neither MOVE")
	r.wantIn("INBOX", "message 0", "message 1")
	if got := r.flagged(imap.FlagDeleted); len(got) > 0 {
		t.Errorf("%d is marked as deleted", got)
	}
}

func TestCreatesFolders(t *testing.T) {
	moveAndNot(t, func(t *testing.T, without []imap.Cap) {
		r := newRig(t, 1, without...)
		r.worker.CreateFolders = true
		r.wants("move:Archive/2026", 1)
		r.work()
		r.wantEnd(1, outbox.Done, "")
		r.wantIn("Archive/2026", "message 0")
	})
}

// TestNoServer: what a server cannot be reached for waits, and no try counts.
func TestNoServer(t *testing.T) {
	r := newRig(t, 1)
	dial := r.worker.Dial
	r.worker.Dial = func(context.Context, inbox.Inbox) (Server, error) { return nil, errors.New("no route to host") }
	r.wants("seen", 1)
	r.work()
	r.wantEnd(1, outbox.Waiting, "no route to host")
	if got := r.entries[0].Attempts; got != 0 {
		t.Errorf("%d tries count, want none", got)
	}
	r.worker.Dial = dial
	r.now += serverAgain
	r.work()
	r.wantEnd(1, outbox.Done, "")
}

func (r *rig) flagged(flag imap.Flag) []uint32 {
	r.t.Helper()
	client, err := imapclient.DialInsecure(r.imap.Addr(), nil)
	check(r.t, err)
	defer func() { _ = client.Close() }()
	check(r.t, client.Login(user, password).Wait())
	_, err = client.Select("INBOX", nil).Wait()
	check(r.t, err)
	found, err := client.UIDSearch(&imap.SearchCriteria{Flag: []imap.Flag{flag}}, nil).Wait()
	check(r.t, err)
	var uids []uint32
	for _, uid := range found.AllUIDs() {
		uids = append(uids, uint32(uid))
	}
	return uids
}

// gmail is a server on which EXPUNGE archives.
type gmail struct {
	*imapsrc.Conn
	trash string
}

func (g gmail) IsGmail() bool { return true }

func (g gmail) Trash(context.Context) (string, error) { return g.trash, nil }

func (gmail) Expunge(context.Context, []uint32) error {
	return errors.New("EXPUNGE archives the message")
}

// TestGmail: what is to be deleted goes to the folder for that, if Gmail shows it.
func TestGmail(t *testing.T) {
	for _, trash := range []string{"Done", ""} {
		r := newRig(t, 1)
		r.worker.Dial = func(ctx context.Context, _ inbox.Inbox) (Server, error) {
			conn, err := r.dial(ctx)
			return gmail{conn, trash}, err
		}
		r.wants("delete", 1)
		r.work()
		if trash == "" {
			r.wantEnd(1, outbox.DeadLetter, "show it in IMAP")
			r.wantIn("INBOX", "message 0")
			continue
		}
		r.wantEnd(1, outbox.Done, "")
		r.wantIn("INBOX")
		r.wantIn("Done", "message 0")
	}
}

// TestGivenUp: what a server refuses is tried again, and given up in the end. It holds up nothing
// else.
func TestGivenUp(t *testing.T) {
	r := newRig(t, 3)
	r.wants("move:Nowhere", 1)
	r.wants("move:Done", 2)
	for range maxTries {
		r.work()
		r.now += longest
	}
	r.wantEnd(1, outbox.DeadLetter, `no folder "Nowhere"`)
	r.wantEnd(2, outbox.Done, "")
	r.wantIn("INBOX", "message 0", "message 2")
	if want := "1 server: failed: move to Nowhere: "; !strings.HasPrefix(r.trail[len(r.trail)-1], want) {
		t.Errorf("the trail ends with %q, want %q", r.trail[len(r.trail)-1], want)
	}
}
