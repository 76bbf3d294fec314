package pass

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/tasks"
)

// Held is one inbox that a process works on: its session, its scanner, its deliverer, and what they
// share. Only one goroutine at a time may call its methods, except Deliver, which may be called
// meanwhile.
type Held struct {
	process  *Process
	revision string // of the rules in force
	in       inbox.Inbox
	log      *slog.Logger
	session  *session
	cache    *cache
	tally    *tally
	feed     *feed
}

// The bounds of the prefetch cache: two pages of messages, and the octets of two batches.
const cachedBatches = 2

// Hold makes an inbox ready to be worked on. It does not connect. Close it.
func (pr *Process) Hold(in inbox.Inbox) *Held {
	p := pr.pass
	log := p.Log.With("inbox", in.Address)
	h := &Held{
		process: pr, revision: p.revisionFor(in, pr.revision), in: in, log: log,
		cache: newCache(cachedBatches*maxBatchOctets, cachedBatches*p.Config.Page),
		tally: newTally(p.Observer, InboxReport{Email: in.Address, Labels: in.Labels}),
		feed:  newFeed(),
	}
	h.session = newSession(h.dial, log)
	return h
}

func (h *Held) dial(ctx context.Context) (Source, error) {
	return h.process.dial(ctx, h.in)
}

// Close closes the connection, unless another Held has adopted it.
func (h *Held) Close() {
	h.cache.close()
	if h.session != nil {
		h.session.close()
	}
}

// once does the work of a pass: it delivers what is due until nothing is, and meanwhile scans the
// inbox, unless another run does.
func (h *Held) once(ctx context.Context) error {
	lease, busy, err := acquireScan(ctx, h.process.pass, h.in)
	if err != nil {
		return err
	}
	h.feed.employ()
	if busy != nil {
		h.tally.change(func(r *InboxReport) {
			r.Busy = fmt.Sprintf("%s scans it (until %s unless renewed)", busy.Holder, busy.Until.Format(time.RFC3339))
		})
		h.log.Info("another run scans this inbox; delivering what is due", "holder", busy.Holder, "until", busy.Until)
		h.cache.close() // no scanner fills it
		return h.besideScan(h.deliverer().run(ctx))
	}
	h.feed.begin()
	delivered := make(chan error, 1)
	go func() {
		delivered <- h.deliverer().run(ctx)
		h.cache.close() // the scanner need not wait for it
	}()
	err = lease.hold(ctx, h.log, h.scanner(lease, func() { h.feed.registered() }).run)
	h.feed.end()
	return joined(err, <-delivered)
}

// besideScan is an error of the deliverer, unless it is that the server takes no second connection:
// the run that scans has one.
func (h *Held) besideScan(err error) error {
	kind := imapsrc.KindOf(err)
	if kind == imapsrc.KindLimit || kind == imapsrc.KindInUse || imapsrc.BackOffOf(err) > 0 {
		h.log.Info("the server takes no second connection", "error", err)
		return nil
	}
	return err
}

func (h *Held) scanner(lease *scanLease, registered func()) *scanner {
	return &scanner{
		pass: h.process.pass, revision: h.revision, in: lease.in, log: h.log,
		session: h.session, cache: h.cache, tally: h.tally, lease: lease.by, registered: registered,
	}
}

func (h *Held) deliverer() *deliverer {
	pr := h.process
	return &deliverer{
		pass: pr.pass, revision: h.revision, token: pr.token, gate: pr.gate, slots: pr.slots,
		leases: pr.leases, inHand: pr.inHand,
		in: h.in, log: h.log, session: h.session, cache: h.cache, tally: h.tally, feed: h.feed,
	}
}

// preview is a dry run: it reads, and shows what it finds.
func (h *Held) preview(ctx context.Context) error {
	p := h.process.pass
	err := p.Queue.List(ctx, tasks.Filter{Inboxes: []int64{h.in.ID}, Due: true}, func(t tasks.Task) error {
		if !isDecided(t, h.revision) && !t.Begun() { // a run decides it, or decides it again
			t.Route, t.Deliveries = "", nil
		}
		var err error
		if t.Deliveries, err = p.withhold(ctx, t.Deliveries); err != nil {
			return err
		}
		p.Observer.Would(wouldProcess(t), t)
		return nil
	})
	if err != nil {
		return err
	}
	h.cache.close()
	_, err = h.scanner(&scanLease{in: h.in}, func() {}).run(ctx)
	return err
}
