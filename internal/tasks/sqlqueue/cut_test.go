package sqlqueue

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/tasks"
)

// cutter is a proxy between a queue and its server. It passes a command on, and cuts the connection
// when the server has answered: the command was executed, but its answer is lost.
type cutter struct {
	net.Listener
	backend string
	left    atomic.Int64 // commands until the cut; below zero none is to come
	serving sync.WaitGroup
}

func newCutter(t *testing.T, backend string) *cutter {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{Listener: ln, backend: backend}
	c.left.Store(-1)
	c.serving.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			c.serving.Go(func() { c.serve(client) })
		}
	})
	t.Cleanup(func() { _ = ln.Close(); c.serving.Wait() })
	return c
}

func (c *cutter) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", c.backend)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	var cut atomic.Bool
	c.serving.Go(func() {
		defer func() { _ = client.Close() }()
		buf := make([]byte, 1<<16)
		for {
			n, err := server.Read(buf)
			if err != nil || cut.Load() {
				return
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	})
	// A packet is its length (3 octets, little endian), a number that is 0 at the start of a
	// command, and its payload.
	for {
		head := make([]byte, 4)
		if _, err := io.ReadFull(client, head); err != nil {
			return
		}
		packet := make([]byte, int(head[0])|int(head[1])<<8|int(head[2])<<16)
		if _, err := io.ReadFull(client, packet); err != nil {
			return
		}
		if head[3] == 0 && c.left.Add(-1) == 0 {
			cut.Store(true)
		}
		if _, err := server.Write(append(head, packet...)); err != nil {
			return
		}
	}
}

// TestAnswerLost runs each operation while the connection is lost at its first command, its second,
// and so on. At the last one COMMIT was executed, and its answer is lost. The operation always
// succeeds, and happens once.
func TestAnswerLost(t *testing.T) {
	onServers(t, func(t *testing.T, r registry) {
		behind, _, _ := strings.Cut(strings.SplitAfter(r.cfg.DSN, "tcp(")[1], ")")
		c := newCutter(t, behind)
		through := strings.Replace(r.cfg.DSN, behind, c.Addr().String(), 1)
		d, err := db.Open(t.Context(), db.Config{Driver: db.MySQL, DSN: through})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = d.Close() }()
		for name, trial := range trials {
			t.Run(name, func(t *testing.T) {
				for n, cut := int64(1), true; cut; n++ {
					e := newExample(t, r, New(d))
					op, proof := trial(e)
					c.left.Store(n)
					err := op()
					if cut = c.left.Swap(-1) <= 0; err != nil {
						t.Fatalf("the answer to command %d was lost: %v", n, err)
					}
					e.n = n
					proof()
					if n == 1 && !cut || n > 80 {
						t.Fatalf("cut after %d commands: %t; want each to be cut in turn", n, cut)
					}
				}
			})
		}
	})
}

// example is an inbox with a queue that loses its connection, and one that does not.
type example struct {
	t             *testing.T
	lossy, intact *Queue
	inbox, folder int64
	n             int64 // the command whose answer was lost
}

var examples atomic.Int64

func newExample(t *testing.T, r registry, lossy *Queue) *example {
	t.Helper()
	e := &example{t: t, lossy: lossy, intact: New(r.DB)}
	e.inbox = r.inbox(t, fmt.Sprintf("lost%d@example.com", examples.Add(1)))
	e.folder = r.folder(t, e.inbox, "INBOX", 1)
	return e
}

func (e *example) page() tasks.Page {
	return tasks.Page{
		InboxID: e.inbox, FolderID: e.folder, Epoch: 1, Cursor: 2, Dedupe: tasks.DedupeInbox,
		Entries: entries(uint32(1+10*e.inbox), 2),
	}
}

func (e *example) want(n int) tasks.Want {
	return tasks.Want{InboxID: e.inbox, Max: n, Lease: time.Hour, Worker: "worker", MaxLostLeases: 3}
}

func (e *example) register() {
	e.t.Helper()
	if _, err := e.intact.Register(e.t.Context(), e.page()); err != nil {
		e.t.Fatal(err)
	}
}

func (e *example) claim() tasks.Claim {
	e.t.Helper()
	e.register()
	claims, err := e.intact.Receive(e.t.Context(), e.want(1))
	if err != nil || len(claims) != 1 {
		e.t.Fatalf("claimed %d, %v; want 1", len(claims), err)
	}
	return claims[0]
}

// proves checks a task's status, its attempts and its trail.
func (e *example) proves(id int64, status tasks.Status, attempts int, trail ...string) {
	e.t.Helper()
	got, err := e.intact.Get(e.t.Context(), id)
	if err != nil || got.Status != status || got.Attempts != attempts || got.LostLeases != 0 {
		e.t.Errorf("the answer to command %d was lost: %s, %d attempts, %d lost leases, %v; want %s, %d, 0",
			e.n, got.Status, got.Attempts, got.LostLeases, err, status, attempts)
	}
	events, err := e.intact.Events(e.t.Context(), id)
	if err != nil || len(events) != len(trail) {
		e.t.Errorf("the answer to command %d was lost: events %+v, %v; want %q", e.n, events, err, trail)
	}
}

// owns checks which recipients a task owns.
func (e *example) owns(id int64, want ...string) {
	e.t.Helper()
	var got []string
	err := e.intact.db.View(e.t.Context(), func(tx *gorm.DB) error {
		const owned = "SELECT recipient FROM monitored_emails_once WHERE task_id = ? ORDER BY recipient"
		return tx.Raw(owned, id).Scan(&got).Error
	})
	if err != nil || !slices.Equal(got, want) {
		e.t.Errorf("the answer to command %d was lost: task %d owns %v, %v; want %v", e.n, id, got, err, want)
	}
}

var trials = map[string]func(e *example) (op func() error, proof func()){
	"register": func(e *example) (func() error, func()) {
		var regs []tasks.Registration
		op := func() (err error) { regs, err = e.lossy.Register(e.t.Context(), e.page()); return err }
		return op, func() {
			claims, err := e.intact.Receive(e.t.Context(), e.want(10))
			if err != nil || len(claims) != 2 || len(regs) != 2 ||
				claims[0].Task.ID != regs[0].TaskID || claims[1].Task.ID != regs[1].TaskID {
				e.t.Errorf("the answer to command %d was lost: registered %v, claimed %d, %v; want both, once",
					e.n, regs, len(claims), err)
			}
		}
	},
	"baseline": func(e *example) (func() error, func()) {
		return func() error { return e.lossy.Baseline(e.t.Context(), e.page()) }, func() {
			unseen, err := e.intact.Unseen(e.t.Context(), e.folder, 1, uidsOf(e.page().Entries))
			if err != nil || len(unseen) != 0 {
				e.t.Errorf("the answer to command %d was lost: unseen %v, %v; want none", e.n, unseen, err)
			}
		}
	},
	"receive": func(e *example) (func() error, func()) {
		e.register()
		var claims []tasks.Claim
		op := func() (err error) { claims, err = e.lossy.Receive(e.t.Context(), e.want(1)); return err }
		return op, func() {
			others, err := e.intact.Receive(e.t.Context(), e.want(10))
			if err != nil || len(claims) != 1 || len(others) != 1 {
				e.t.Fatalf("the answer to command %d was lost: claimed %d, left %d, %v; want 1 and 1",
					e.n, len(claims), len(others), err)
			}
			err = e.intact.Finish(e.t.Context(), claims[0].Receipt, tasks.Result{Status: tasks.Forwarded})
			if err != nil {
				e.t.Errorf("the answer to command %d was lost: finish: %v", e.n, err)
			}
			e.proves(claims[0].Task.ID, tasks.Forwarded, 1)
		}
	},
	"extend": func(e *example) (func() error, func()) {
		c := e.claim()
		var lost []tasks.Receipt
		op := func() (err error) {
			lost, err = e.lossy.Extend(e.t.Context(), time.Hour, []tasks.Receipt{c.Receipt})
			return err
		}
		return op, func() {
			if len(lost) != 0 {
				e.t.Errorf("the answer to command %d was lost: lost %v, want none", e.n, lost)
			}
		}
	},
	"sending": func(e *example) (func() error, func()) {
		c := e.claim()
		ds := []tasks.Delivery{{Recipient: "bob@example.com", Status: tasks.Sending}}
		return func() error {
			return e.lossy.Sending(e.t.Context(), c, tasks.Form{Mode: "redirect"}, ds)
		}, func() { e.proves(c.Task.ID, tasks.InProgress, 1) }
	},
	"sending what was offered": func(e *example) (func() error, func()) {
		regs, err := e.intact.Register(e.t.Context(), e.page())
		if err != nil || regs[0].Task == nil {
			e.t.Fatalf("%v; want that it can be offered", err)
		}
		c := tasks.Offer(*regs[0].Task, "offer", "here", time.Hour)
		ds := []tasks.Delivery{{Recipient: "bob@example.com", Status: tasks.Sending}}
		return func() error {
			return e.lossy.Sending(e.t.Context(), c, tasks.Form{Mode: "redirect"}, ds)
		}, func() { e.proves(c.Task.ID, tasks.InProgress, 1) }
	},
	"forwarded": func(e *example) (func() error, func()) {
		c := e.claim()
		ds := []tasks.Delivery{{Recipient: "bob@example.com", Status: tasks.Delivered}}
		res := tasks.Result{Status: tasks.Forwarded, Deliveries: ds}
		return func() error { return e.lossy.Finish(e.t.Context(), c.Receipt, res) },
			func() { e.proves(c.Task.ID, tasks.Forwarded, 1) }
	},
	"error": func(e *example) (func() error, func()) {
		c := e.claim()
		res := tasks.Result{Status: tasks.Error, Reason: "451", Delay: time.Hour}
		return func() error { return e.lossy.Finish(e.t.Context(), c.Receipt, res) },
			func() { e.proves(c.Task.ID, tasks.Error, 1, "error") }
	},
	"release": func(e *example) (func() error, func()) {
		c := e.claim()
		return func() error { return e.lossy.Release(e.t.Context(), c, "stopped", 0, nil) },
			func() { e.proves(c.Task.ID, tasks.Received, 0) }
	},
	"reserve": func(e *example) (func() error, func()) {
		c := e.claim()
		var ds []tasks.Delivery
		op := func() (err error) {
			decision := &tasks.Decision{
				Route: "court", Recipients: []string{"ann@firm.example"},
				Notes: []tasks.Note{{Event: "left_out", Detail: "bob"}},
			}
			res := tasks.Reservation{
				Identity: &c.Task.Identity, Decision: decision, Revision: "r2", Dedupe: tasks.DedupeInbox,
			}
			ds, err = e.lossy.Reserve(e.t.Context(), c.Receipt, res)
			return err
		}
		return op, func() {
			e.proves(c.Task.ID, tasks.InProgress, 1, "left_out")
			got, err := e.intact.Get(e.t.Context(), c.Task.ID)
			if err != nil || got.Route != "court" || got.Revision != "r2" ||
				len(ds) != 1 || !slices.Equal(got.Deliveries, ds) {
				e.t.Errorf("the answer to command %d was lost: it goes by %q to %v, %v; want court and %v",
					e.n, got.Route, got.Deliveries, err, ds)
			}
			e.owns(c.Task.ID, "ann@firm.example")
		}
	},
	"note": func(e *example) (func() error, func()) {
		c := e.claim()
		return func() error {
			return e.lossy.Note(e.t.Context(), c.Receipt, tasks.Note{Event: "left_out", Detail: "bob"})
		}, func() { e.proves(c.Task.ID, tasks.InProgress, 1, "left_out") }
	},
	"dead": func(e *example) (func() error, func()) {
		c := e.claim()
		ds := []tasks.Delivery{{Recipient: "desk@firm.example", Status: tasks.Failed}}
		res := tasks.Result{Status: tasks.Dead, Reason: "550", Deliveries: ds}
		return func() error {
				return e.lossy.Finish(e.t.Context(), c.Receipt, res)
			}, func() {
				e.proves(c.Task.ID, tasks.Dead, 1, "dead")
				e.owns(c.Task.ID)
			}
	},
	"skip": func(e *example) (func() error, func()) {
		c := e.claim()
		if err := e.intact.Release(e.t.Context(), c, "", 0, nil); err != nil {
			e.t.Fatal(err)
		}
		op := func() error { _, err := e.lossy.Skip(e.t.Context(), tasks.By{Who: "ann"}, c.Task.ID); return err }
		return op, func() {
			e.proves(c.Task.ID, tasks.Skipped, 0, "skipped")
			e.owns(c.Task.ID, "desk@firm.example", "desk@firm.example")
		}
	},
	"disable": func(e *example) (func() error, func()) {
		c := e.claim()
		return func() error { return e.lossy.Disable(e.t.Context(), tasks.By{Who: "ann"}, e.inbox) }, func() {
			e.proves(c.Task.ID, tasks.Received, 0, "released")
			if claims, err := e.intact.Receive(e.t.Context(), e.want(10)); err != nil || len(claims) != 0 {
				e.t.Errorf("the answer to command %d was lost: claimed %d, %v; want none of a disabled inbox",
					e.n, len(claims), err)
			}
		}
	},
	"remove": func(e *example) (func() error, func()) {
		c := e.claim()
		return func() error { return e.lossy.Remove(e.t.Context(), "ann", e.inbox) }, func() {
			var left int
			newest := "SELECT COUNT(*) FROM monitored_emails_events WHERE event = 'released' AND task_id = ?"
			err := e.intact.db.View(e.t.Context(), func(tx *gorm.DB) error {
				return tx.Raw(newest, c.Task.ID).Scan(&left).Error
			})
			if err != nil || left != 1 {
				e.t.Errorf("the answer to command %d was lost: the claim was taken away %d times, %v; want once",
					e.n, left, err)
			}
			if _, err := e.intact.Get(e.t.Context(), c.Task.ID); !errors.Is(err, tasks.ErrNotFound) {
				e.t.Errorf("the answer to command %d was lost: the task is there (%v), want it gone with its inbox",
					e.n, err)
			}
		}
	},
	"requeue": func(e *example) (func() error, func()) {
		c := e.claim()
		if err := e.intact.Finish(e.t.Context(), c.Receipt, tasks.Result{Status: tasks.Dead}); err != nil {
			e.t.Fatal(err)
		}
		op := func() error { _, err := e.lossy.Requeue(e.t.Context(), tasks.By{Who: "ann"}, c.Task.ID); return err }
		return op, func() { e.proves(c.Task.ID, tasks.Received, 0, "dead", "requeued") }
	},
}
