package after

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-imap/v2"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/message"
	"postrider/internal/outbox"
	"postrider/internal/route"
	"postrider/internal/tasks"
	"postrider/internal/testserver"
	"postrider/internal/testserver/memimap"
)

const (
	user     = "desk@firm.example"
	password = "secret"
)

// eachBody is what Conn.Bodies calls.
type eachBody = func(uint32, *message.Message) error

// rig is an inbox with messages whose tasks have ended. It is the registry and the outbox, too.
type rig struct {
	t       *testing.T
	imap    *memimap.Server
	in      inbox.Inbox
	others  []inbox.Inbox // active, too
	worker  *Worker
	spool   message.Spooler
	tasks   map[int64]tasks.Task
	noted   map[uint32]tasks.Noted
	entries []*outbox.Entry
	trail   []string
	now     time.Duration // since the beginning
	due     map[int64]time.Duration
	paused  time.Duration // the actions of the inbox pause until then
	dead    bool          // the worker was killed: nothing is recorded any more
	renewed chan struct{} // gets an element for each renewal that somebody waits for
	ended   func()        // called after outcomes were recorded, unless it is nil
}

// newRig has one message in the INBOX for each task, and none in the folder Done.
func newRig(t *testing.T, messages int, without ...imap.Cap) *rig {
	t.Helper()
	server, err := memimap.Start(memimap.Options{Without: without})
	check(t, err)
	t.Cleanup(server.Close)
	check(t, server.AddUser(user, password))
	check(t, server.CreateFolder(user, "Done"))
	r := &rig{
		t: t, imap: server, in: inbox.Inbox{ID: 7, Address: user, AllowDelete: true, Active: true},
		tasks: map[int64]tasks.Task{}, noted: map[uint32]tasks.Noted{}, due: map[int64]time.Duration{},
	}
	r.worker = &Worker{
		Outbox: r, Registry: r, Name: "test:1", Lease: 5 * time.Minute, Log: slog.New(slog.DiscardHandler),
		Now:     func() time.Time { return time.Now().Add(r.now) },
		Inbox:   func(context.Context, string) (inbox.Inbox, error) { return r.in, nil },
		Inboxes: func(context.Context) ([]inbox.Inbox, error) { return append(r.others, r.in), nil },
		Wants:   func(outbox.Kind, string, string) (time.Duration, bool) { return 0, true },
		Dial:    func(ctx context.Context, _ inbox.Inbox) (Server, error) { return r.dial(ctx) },
	}
	for i := range messages {
		mail := testserver.Mail("a@client.example", user, fmt.Sprint("message ", i), "x")
		_, err := server.Append(user, "INBOX", mail)
		check(t, err)
	}
	r.register()
	return r
}

// register makes a forwarded task of each message in the INBOX.
func (r *rig) register() {
	conn := r.open("INBOX")
	uids := r.uids("INBOX")
	metas, err := conn.Metadata(r.t.Context(), uids)
	check(r.t, err)
	f, err := conn.Select(r.t.Context(), "INBOX")
	check(r.t, err)
	for i, m := range metas {
		r.noted[m.UID] = tasks.Noted{UID: m.UID, Stated: tasks.Stated{Received: m.Received, Size: m.Size}}
		r.tasks[int64(i+1)] = tasks.Task{
			ID: int64(i + 1), InboxID: r.in.ID, FolderID: 3, Folder: "INBOX",
			Epoch: int64(f.UIDValidity), UID: m.UID, Status: tasks.Forwarded,
			Deliveries: []tasks.Delivery{{Recipient: "x@firm.example", Status: tasks.Delivered}},
		}
	}
	_, err = conn.Bodies(r.t.Context(), uids, func(uid uint32, m *message.Message) error {
		n := r.noted[uid]
		n.Fingerprint = m.Fingerprint
		r.noted[uid] = n
		for id, t := range r.tasks {
			if t.UID == uid {
				t.Identity.MessageID = m.Header.Get("Message-ID")
				r.tasks[id] = t
			}
		}
		return m.Close()
	})
	check(r.t, err)
}

func (r *rig) dial(ctx context.Context) (*imapsrc.Conn, error) {
	return imapsrc.Dial(ctx, imapsrc.Config{
		Host: "127.0.0.1", Port: r.imap.Port(), Security: imapsrc.SecurityNone, Proxy: "direct",
		Username: user, Password: password, DialTimeout: time.Minute, IdleTimeout: time.Minute,
		MaxSize: 50 << 20, Spooler: &r.spool, Logger: slog.New(slog.DiscardHandler),
	})
}

// open is a second client in a folder.
func (r *rig) open(folder string) *imapsrc.Conn {
	r.t.Helper()
	conn, err := r.dial(r.t.Context())
	check(r.t, err)
	r.t.Cleanup(func() { _ = conn.Close() })
	_, err = conn.SelectToChange(r.t.Context(), folder)
	check(r.t, err)
	return conn
}

func (r *rig) uids(folder string) []uint32 {
	r.t.Helper()
	uids, err := r.open(folder).UIDs(r.t.Context(), 1, 1<<32-1)
	check(r.t, err)
	return uids
}

// subjects are those of the messages in a folder, in order.
func (r *rig) subjects(folder string) []string {
	r.t.Helper()
	conn := r.open(folder)
	uids, err := conn.UIDs(r.t.Context(), 1, 1<<32-1)
	check(r.t, err)
	by := map[uint32]string{}
	_, err = conn.Bodies(r.t.Context(), uids, func(uid uint32, m *message.Message) error {
		by[uid] = m.Header.Text("Subject")
		return m.Close()
	})
	check(r.t, err)
	out := []string{}
	for _, uid := range uids {
		out = append(out, by[uid])
	}
	return out
}

func (r *rig) wantIn(folder string, want ...string) {
	r.t.Helper()
	got := r.subjects(folder)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		r.t.Errorf("%s has %q, want %q", folder, got, want)
	}
}

// wants adds an entry for each of the tasks.
func (r *rig) wants(action string, ids ...int64) {
	for _, id := range ids {
		n := int64(len(r.entries) + 1)
		r.entries = append(r.entries, &outbox.Entry{
			ID: n, OccurrenceID: n, Destination: outbox.Server, Kind: outbox.Kind(r.tasks[id].Status),
			TaskID: id, InboxID: r.in.ID, Action: action, Status: outbox.Waiting,
		})
	}
}

// problems are what the check says of actions in the INBOX.
func (r *rig) problems(actions, forwarded []route.Action) []string {
	r.t.Helper()
	problems, err := r.worker.Check(r.t.Context(), r.open("INBOX"), r.in, append(r.others, r.in), actions, forwarded)
	check(r.t, err)
	return problems
}

// watches are the folders of an inbox that watches them.
func watches(names ...string) (folders []inbox.Folder) {
	for _, name := range names {
		folders = append(folders, inbox.Folder{Name: name, Active: true})
	}
	return folders
}

func (r *rig) work() {
	r.t.Helper()
	check(r.t, r.worker.Work(r.t.Context(), []inbox.Inbox{r.in}))
}

// wantEnd checks how an entry ended, and a part of why.
func (r *rig) wantEnd(id int64, status outbox.Status, why string) {
	r.t.Helper()
	if e := r.entries[id-1]; e.Status != status || !strings.Contains(e.Error, why) {
		r.t.Errorf("entry %d (%s) is %s: %q, want %s: ...%s...", id, e.Action, e.Status, e.Error, status, why)
	}
}

// The outbox, with one claim of an entry at a time.

func (r *rig) InboxesDue(context.Context, string) ([]int64, error) {
	if r.now < r.paused {
		return nil, nil
	}
	return []int64{r.in.ID}, nil
}

func (r *rig) Pause(_ context.Context, _ int64, _ time.Time, d time.Duration) error {
	r.paused = r.now + d
	return nil
}

func (r *rig) List(context.Context, outbox.Filter) (out []outbox.Entry, _ error) {
	for _, e := range r.entries {
		out = append(out, *e)
	}
	return out, nil
}

func (r *rig) Receive(_ context.Context, want outbox.Want) (claims []outbox.Claim, _ error) {
	for _, e := range r.entries {
		live := e.Status == outbox.Waiting || e.Status == outbox.InProgress
		if live && r.due[e.ID] <= r.now && len(claims) < want.Max {
			e.Status, r.due[e.ID] = outbox.InProgress, r.now+want.Lease
			e.Attempts++
			claims = append(claims, outbox.Claim{Entry: *e, Receipt: fmt.Sprint(e.ID, e.Attempts)})
		}
	}
	return claims, nil
}

func (r *rig) Finish(_ context.Context, outcomes ...outbox.Outcome) ([]outbox.Claim, error) {
	if r.dead {
		return nil, errors.New("killed")
	}
	for _, o := range outcomes {
		e := r.entries[o.Claim.ID-1]
		e.Status, e.Error, r.due[e.ID] = o.Status, o.Error, r.now+o.Delay
		if o.Uncounted {
			e.Attempts--
		}
		if o.Trail.Event != "" {
			r.trail = append(r.trail, fmt.Sprintf("%d %s: %s", e.TaskID, o.Trail.Event, o.Trail.Detail))
		}
	}
	if r.ended != nil {
		r.ended()
	}
	return nil, nil
}

func (r *rig) Extend(context.Context, time.Duration, ...outbox.Claim) ([]outbox.Claim, error) {
	select {
	case r.renewed <- struct{}{}:
	default:
	}
	return nil, nil
}

// The registry.

func (r *rig) Tasks(_ context.Context, ids []int64) (map[int64]tasks.Task, error) {
	out := map[int64]tasks.Task{}
	for _, id := range ids {
		if t, ok := r.tasks[id]; ok {
			out[id] = t
		}
	}
	return out, nil
}

func (r *rig) Noted(_ context.Context, _, _ int64, from, to uint32) (out []tasks.Noted, _ error) {
	for uid := from; uid <= to; uid++ {
		if n, ok := r.noted[uid]; ok {
			out = append(out, n)
		}
	}
	return out, nil
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// octets is a message of the folder as the server has it.
func (r *rig) octets(folder string, uid uint32) string {
	r.t.Helper()
	var out bytes.Buffer
	_, err := r.open(folder).Bodies(r.t.Context(), []uint32{uid}, func(_ uint32, m *message.Message) error {
		_, err := io.Copy(&out, m.Body.Reader())
		return errors.Join(err, m.Close())
	})
	check(r.t, err)
	return out.String()
}
