package pass

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/text"
)

// Process is one process at work: what all inboxes that it works on share. A pass makes one and
// ends it. A process that stays up keeps one, see Stay, until its configuration changes.
type Process struct {
	pass     *Pass
	revision string // of the rules in force
	token    string // of what it offers
	gate     *gate
	slots    *slots
	leases   *leases
	dial     Dial[Source]
	hosts    *hosts // nil in a process that stays up

	delivering sync.WaitGroup // deliverers of a process that stays up
	stop       []func()
	before     atomic.Pointer[Process] // what this one takes the place of, until that has ended
	ended      atomic.Bool
}

// begin keeps what is held of leases and limits until End.
func (p *Pass) begin(ctx context.Context) *Process {
	pr := p.process()
	pr.stop = []func(){pr.leases.keep(context.WithoutCancel(ctx)), p.keepLimits(ctx)}
	return pr
}

func (p *Pass) process() *Process {
	return &Process{
		pass: p, revision: p.revision(), token: rand.Text(), gate: &gate{now: p.Now}, slots: newSlots(p.Config.Senders),
		leases: newLeases(p.Queue, p.Config.Lease, p.Log), dial: p.Dial,
	}
}

// Stay begins a process that stays up. End it. After the nth fault of the relay in a row, nothing
// is handed to the relay for relayAgain(n). before is the Process that this one replaces in the
// same operating system process, or nil: tasks that it is still sending are not claimed.
func (p *Pass) Stay(ctx context.Context, relayAgain func(n int) time.Duration, before *Process) *Process {
	pr := p.begin(ctx)
	pr.gate.again = relayAgain
	pr.before.Store(before)
	return pr
}

// inHand are the tasks whose claims this operating system process has.
func (pr *Process) inHand() []int64 {
	ids := pr.leases.tasks()
	before := pr.before.Load()
	switch {
	case before == nil:
		return ids
	case before.ended.Load():
		pr.before.Store(nil)
		return ids
	}
	return append(ids, before.inHand()...)
}

// End waits until all deliverers have ended, and gives up what the process holds. The contexts of
// its visits have ended by then, so that messages in flight are finished and the rest is
// released.
func (pr *Process) End() {
	pr.delivering.Wait()
	for _, stop := range pr.stop {
		stop()
	}
	pr.ended.Store(true)
}

// RelayFault is why the relay was at fault when it was last tried; nil when it was not, and when
// that was forgotten.
func (pr *Process) RelayFault() error { return pr.gate.last() }

// ForgetRelayFault is for when nothing waits for the relay: then it is not tried again, and whether
// it is still at fault does not become known.
func (pr *Process) ForgetRelayFault() { pr.gate.forget() }

// RelayTries is how often the relay took a message or was at fault, and the fault of the last time;
// nil when it took the message.
func (pr *Process) RelayTries() (n int, fault error) { return pr.gate.tried() }

// inbox works on one inbox in a pass.
func (pr *Process) inbox(ctx context.Context, in inbox.Inbox) InboxReport {
	h := pr.Hold(in)
	defer h.Close()
	work := h.once
	if pr.pass.Config.DryRun {
		work = h.preview
	}
	if err := work(ctx); err != nil && ctx.Err() == nil {
		level, left := pr.pass.failure(), ""
		if pr.hosts.names(in.Address) {
			level, left = slog.LevelInfo, ServerOf(in)
		}
		h.tally.change(func(r *InboxReport) { r.Error, r.Left = text.Error(err), left })
		h.log.Log(ctx, level, "the inbox failed", "error", err)
	}
	return h.tally.report()
}
