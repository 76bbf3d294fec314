package pass

import (
	"context"
	"errors"
	"log/slog"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/text"
)

// The methods of a Held in a process that stays up: Visit when something may have arrived, Deliver
// when something may be due, and Await in between.

// Visit scans the inbox under its scan lease, connects if there is no connection, and has what is
// due delivered. It does not wait for the deliverer. When another run scans the inbox, that run is
// busy, and only the deliverer works. A server that asked clients to back off is a *PausedError.
func (h *Held) Visit(ctx context.Context) (busy *inbox.Busy, err error) {
	if err := h.session.begin(ctx, h.dial); err != nil {
		return nil, err
	}
	h.tally.change(func(r *InboxReport) { r.Counters.Backlog = 0 })
	lease, busy, err := acquireScan(ctx, h.process.pass, h.in)
	if err != nil {
		return nil, err
	}
	if busy != nil {
		h.log.Debug("another run scans this inbox; delivering what is due", "holder", busy.Holder, "until", busy.Until)
		h.Deliver(ctx)
		return busy, nil
	}
	h.feed.begin()
	defer h.feed.end()
	return nil, lease.hold(ctx, h.log, h.scanner(lease, func() { h.Deliver(ctx) }).run)
}

// Deliver has what is due delivered, until nothing is or ctx ends. It does not wait for that. After
// a failure the next Visit or Deliver begins again.
func (h *Held) Deliver(ctx context.Context) {
	if !h.feed.registered() {
		return // whoever is at work goes on
	}
	h.process.delivering.Go(func() {
		d := h.deliverer()
		failed := d.run(ctx)
		if failed == nil && d.claimed > 0 {
			h.tally.change(func(r *InboxReport) { r.Error = "" })
		}
		err := h.besideScan(failed)
		if err == nil {
			return
		}
		h.cache.clear()
		if ctx.Err() == nil {
			h.undelivered(err)
			if h.feed.waits() { // registered while the deliverer failed
				h.Deliver(ctx)
			}
		}
	})
}

// undelivered logs why messages of the inbox wait, as a warning only once until some are processed
// again. What all inboxes share is somebody else's warning, once for all of them.
func (h *Held) undelivered(err error) {
	if !OfInbox(err) {
		h.log.Debug("the deliverer stopped", "error", err)
		return
	}
	level := slog.LevelDebug
	h.tally.change(func(r *InboxReport) {
		if r.Error == "" {
			r.Error, level = text.Error(err), slog.LevelWarn
		}
	})
	h.log.Log(context.Background(), level, "messages wait until the inbox can be read", "error", err)
}

// Adopt takes over the connection of a Held that is no longer used, and what it knows about the
// folders.
func (h *Held) Adopt(from *Held) {
	h.session, from.session = from.session, nil
	_ = h.session.begin(context.Background(), h.dial) // fails only with its context
}

// Ready reports whether there is a connection, and all folders were scanned: the inbox needs no
// Visit before Await.
func (h *Held) Ready() bool { return h.session.connected() && h.session.scanned.has(h.in.Watched()) }

// Connected reports whether there is a connection.
func (h *Held) Connected() bool { return h.session.connected() }

// OfInbox reports whether an error concerns one inbox, its account or its server, and not something
// that all inboxes share, such as the database or the disk.
func OfInbox(err error) bool {
	return errors.As(err, new(*dialError)) || errors.As(err, new(*imapsrc.Error)) ||
		errors.As(err, new(*PausedError)) || errors.Is(err, errTakenOver) || errors.Is(err, errEpoch) ||
		errors.Is(err, errNotConnected) || errors.Is(err, inbox.ErrRemoved)
}
