package pass

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/tasks"
)

// work is one inbox while a pass works on it: its scanner, its deliverer, and what they share.
type work struct {
	shared   *shared
	revision string // of the rules in force
	in       inbox.Inbox
	log      *slog.Logger
	session  *session
	cache    *cache
	tally    *tally
}

// The bounds of the prefetch cache: two pages of messages, and the octets of two batches.
const cachedBatches = 2

func newWork(s *shared, in inbox.Inbox) *work {
	p := s.pass
	log := p.Log.With("inbox", in.Address)
	return &work{
		shared: s, revision: p.revisionFor(in, s.revision), in: in, log: log,
		session: newSession(func(ctx context.Context) (Source, error) { return s.hosts.dial(ctx, in, p.Dial) }, log),
		cache:   newCache(cachedBatches*maxBatchOctets, cachedBatches*p.Config.Page),
		tally:   &tally{observer: p.Observer, sum: InboxReport{Email: in.Address, Labels: in.Labels}},
	}
}

func (w *work) close() {
	w.cache.close()
	w.session.close()
}

// run delivers what is due, and scans the inbox beside that unless another run does.
func (w *work) run(ctx context.Context) error {
	lease, busy, err := acquireScan(ctx, w.shared.pass, w.in)
	if err != nil {
		return err
	}
	if busy != nil {
		w.tally.change(func(r *InboxReport) { r.Busy = busyText(busy) })
		w.log.Info("another run scans this inbox; delivering what is due", "holder", busy.Holder, "until", busy.Until)
		w.cache.close() // no scanner fills it
		return w.besideScan(w.deliverer().run(ctx, closedPages()))
	}
	pages := newPages()
	delivered := make(chan error, 1)
	go func() {
		delivered <- w.deliverer().run(ctx, pages)
		w.cache.close() // the scanner need not wait for it
	}()
	err = lease.hold(ctx, w.log, w.scanner(lease, pages.registered).run)
	pages.end()
	return errors.Join(err, <-delivered)
}

// besideScan is an error of the deliverer, unless it is that the server takes no second connection:
// the run that scans has one.
func (w *work) besideScan(err error) error {
	var e *imapsrc.Error
	if errors.As(err, &e) && (e.Kind == imapsrc.KindLimit || e.Kind == imapsrc.KindInUse || e.BackOff > 0) {
		w.log.Info("the server takes no second connection", "error", err)
		return nil
	}
	return err
}

func busyText(b *inbox.Busy) string {
	return fmt.Sprintf("%s scans it (until %s unless renewed)", b.Holder, b.Until.Format(time.RFC3339))
}

func (w *work) scanner(lease *scanLease, registered func()) *scanner {
	return &scanner{
		pass: w.shared.pass, revision: w.revision, in: lease.in, log: w.log,
		session: w.session, cache: w.cache, tally: w.tally, lease: lease.by, registered: registered,
	}
}

func (w *work) deliverer() *deliverer {
	s := w.shared
	return &deliverer{
		pass: s.pass, revision: w.revision, gate: s.gate, slots: s.slots, leases: s.leases,
		in: w.in, log: w.log, session: w.session, cache: w.cache, tally: w.tally,
	}
}

// preview is a dry run: it reads, and shows what it finds.
func (w *work) preview(ctx context.Context) error {
	p := w.shared.pass
	err := p.Queue.List(ctx, tasks.Filter{InboxID: w.in.ID, Due: true}, func(t tasks.Task) error {
		p.Observer.Due(t)
		return nil
	})
	if err != nil {
		return err
	}
	w.cache.close()
	_, err = w.scanner(&scanLease{in: w.in}, func() {}).run(ctx)
	return err
}

// pages is how a scanner says that a page is registered, and that it has ended.
type pages struct{ news chan struct{} }

func newPages() pages { return pages{news: make(chan struct{}, 1)} }

func closedPages() pages {
	p := newPages()
	p.end()
	return p
}

// registered does not wait: that something is registered is said until somebody hears it.
func (p pages) registered() {
	select {
	case p.news <- struct{}{}:
	default:
	}
}

func (p pages) end() { close(p.news) }

// backOff is for how long the server asked to be left alone, an hour at most.
func backOff(err error) time.Duration {
	var e *imapsrc.Error
	if !errors.As(err, &e) {
		return 0
	}
	return min(e.BackOff, time.Hour)
}
