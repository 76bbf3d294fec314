package after

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/outbox"
)

// breaking is a session that breaks when one message is asked for, as with a server that crashes
// over a damaged message.
type breaking struct {
	*imapsrc.Conn
	meta, body uint32 // UIDs
	all        bool   // it breaks over each message
	names      bool   // the error says over which message
}

func (b breaking) Metadata(ctx context.Context, uids []uint32) ([]imapsrc.Meta, error) {
	if b.all || slices.Contains(uids, b.meta) {
		return nil, b.fall(0)
	}
	return b.Conn.Metadata(ctx, uids)
}

func (b breaking) Bodies(ctx context.Context, uids []uint32, each eachBody) (imapsrc.Result, error) {
	i := slices.Index(uids, b.body)
	if i < 0 {
		return b.Conn.Bodies(ctx, uids, each)
	}
	res, err := b.Conn.Bodies(ctx, uids[:i], each)
	return res, errors.Join(err, b.fall(b.body))
}

func (b breaking) fall(uid uint32) error {
	_ = b.Close()
	if !b.names {
		uid = 0
	}
	return &imapsrc.Error{Kind: imapsrc.KindNetwork, Folder: "INBOX", UID: uid, Err: io.ErrUnexpectedEOF}
}

// TestOneBreaksTheConnection: the other messages do not wait for one that breaks the connection
// each time, and that one is given up.
func TestOneBreaksTheConnection(t *testing.T) {
	for name, with := range map[string]breaking{
		"size and date":  {meta: 3},
		"content":        {body: 3},
		"content, named": {body: 3, names: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 5)
			r.with(func(c *imapsrc.Conn) Server {
				with.Conn = c
				return with
			})
			r.wants("delete", 1, 2, 3, 4, 5)
			r.work()
			r.wantIn("INBOX", "message 2")
			r.wantEnd(3, outbox.Waiting, "unexpected EOF")
			for range maxTries {
				r.now += longest
				r.work()
			}
			r.wantEnd(3, outbox.DeadLetter, "unexpected EOF")
		})
	}
}

// TestAllBreak: a server that breaks each connection is left alone after five, and asked again
// later.
func TestAllBreak(t *testing.T) {
	r := newRig(t, 10)
	logins := 0
	r.with(func(c *imapsrc.Conn) Server {
		logins++
		return breaking{Conn: c, all: true}
	})
	for id := range int64(10) {
		r.wants("seen", id+1)
	}
	r.work()
	r.now += serverAgain - time.Second
	r.work()
	if logins != 5 {
		t.Errorf("%d logins in %s, want 5", logins, serverAgain)
	}
	r.now += time.Second
	if r.work(); logins <= 5 {
		t.Errorf("%d logins after %s, want more", logins, serverAgain)
	}
}

// cutOff is a session that breaks after the messages were identified.
type cutOff struct{ *imapsrc.Conn }

func (c cutOff) Metadata(ctx context.Context, uids []uint32) ([]imapsrc.Meta, error) {
	metas, err := c.Conn.Metadata(ctx, uids)
	return metas, errors.Join(err, c.Close())
}

// TestCutOff: a connection that broke is not taken for a server that offers no MOVE, or no UIDPLUS.
func TestCutOff(t *testing.T) {
	for _, action := range []string{"move:Done", "delete"} {
		for range 10 {
			r := newRig(t, 2)
			r.with(func(c *imapsrc.Conn) Server { return cutOff{c} })
			r.wants(action, 1, 2)
			r.work()
			r.wantEnd(1, outbox.Waiting, "")
			r.wantEnd(2, outbox.Waiting, "")
		}
	}
}

// TestLogins: a server that refuses the login, or asks to be left alone, is not asked again for
// each action.
func TestLogins(t *testing.T) {
	notNow := errors.New("not now")
	for name, tt := range map[string]struct {
		err   error
		again time.Duration
	}{
		"a wrong password": {&imapsrc.Error{Kind: imapsrc.KindAuth, Err: notNow}, loginAgain},
		"a hint":           {&imapsrc.Error{Kind: imapsrc.KindUnavailable, Err: notNow, BackOff: time.Hour}, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1)
			logins := 0
			r.worker.Dial = func(context.Context, inbox.Inbox) (Server, error) {
				logins++
				return nil, tt.err
			}
			for range 2 * atOnce {
				r.wants("seen", 1)
				r.wants("flag:A", 1)
			}
			r.ended = func() { // another host looks for work
				if due, err := r.InboxesDue(t.Context(), outbox.Server); len(due) > 0 || err != nil {
					t.Errorf("while claims are released, the inboxes %d are due, %v; "+
						"want none: the pause came first", due, err)
				}
			}
			for r.now = 0; r.now < tt.again; r.now += time.Minute {
				r.work()
				r.wants("seen", 1)
			}
			if logins != 1 {
				t.Errorf("%d logins in %s, want one", logins, tt.again)
			}
			r.wantEnd(2, outbox.Waiting, "not now")
			if r.work(); logins != 2 {
				t.Errorf("%d logins after %s, want another one", logins, tt.again)
			}
			r.paused = 0 // an operator ends the pause
			if r.work(); logins != 3 {
				t.Errorf("%d logins when the pause was ended, want another one", logins)
			}
		})
	}
}

// slowly is a session whose contents come once two leases have been renewed.
type slowly struct {
	*imapsrc.Conn
	renewed <-chan struct{}
}

func (s slowly) Bodies(ctx context.Context, uids []uint32, each eachBody) (imapsrc.Result, error) {
	for range 2 {
		<-s.renewed
	}
	return s.Conn.Bodies(ctx, uids, each)
}

// TestSlowContents: a claim is renewed while contents are read, so that no other worker begins
// again.
func TestSlowContents(t *testing.T) {
	r := newRig(t, 1)
	r.renewed = make(chan struct{})
	r.worker.Lease = time.Millisecond
	r.with(func(c *imapsrc.Conn) Server { return slowly{c, r.renewed} })
	r.wants("delete", 1)
	r.work()
	r.wantEnd(1, outbox.Done, "")
}

// whileReading is a session during which something else happens.
type whileReading struct {
	*imapsrc.Conn
	f func()
}

func (w whileReading) Bodies(ctx context.Context, uids []uint32, each eachBody) (imapsrc.Result, error) {
	w.f()
	return w.Conn.Bodies(ctx, uids, each)
}

// TestForbiddenMeanwhile: what an operator has forbidden is not done, even if it has begun.
func TestForbiddenMeanwhile(t *testing.T) {
	for name, tt := range map[string]struct {
		f      func(r *rig)
		status outbox.Status
		why    string
	}{
		"deletions forbidden": {func(r *rig) { r.in.AllowDelete = false }, outbox.Dropped, "--allow-delete"},
		"inbox disabled":      {func(r *rig) { r.in.Active = false }, outbox.Waiting, ""},
		"inbox added again":   {func(r *rig) { r.in.ID++ }, outbox.Waiting, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1)
			r.with(func(c *imapsrc.Conn) Server { return whileReading{c, func() { tt.f(r) }} })
			r.wants("delete", 1)
			r.work()
			r.wantIn("INBOX", "message 0")
			r.wantEnd(1, tt.status, tt.why)
		})
	}
}
