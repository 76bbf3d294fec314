package watch

import "context"

// readIfChanged reads the configuration again when a file has changed, and has not changed since
// the last look: its author may still be writing.
func (w *Watch) readIfChanged(ctx context.Context) {
	now := w.cfg.Files()
	settled := now == w.seen
	w.seen = now
	if now != w.config && settled {
		w.read(ctx, true)
	}
}

// readIfStale reads the configuration again when the directory has changed, or when the last
// attempt failed: the cause may be the database or the program of a secret, which Config.Files does
// not show.
func (w *Watch) readIfStale(ctx context.Context) {
	if w.isBroken() {
		w.read(ctx, true)
		return
	}
	stale, err := w.current().Stale(ctx)
	if err != nil {
		w.failed(ctx, err)
	}
	if stale {
		w.read(ctx, true)
	}
}

// read reads the configuration again, and works by it from now on unless it has errors. Without
// keepPauses, inboxes that fail are visited at once.
func (w *Watch) read(ctx context.Context, keepPauses bool) {
	w.cfg.Notify.Reloading()
	defer w.cfg.Notify.Send("READY=1") // without a status, which new keepers do not have yet: notify sends it
	w.config = w.cfg.Files()
	next, err := w.cfg.Load(ctx)
	switch {
	case ctx.Err() != nil:
		if err == nil {
			next.End()
			next.Close()
		}
		return
	case err != nil:
		if w.fails(err.Error()) {
			w.cfg.Log.Error("the configuration cannot be used; the previous one stays in force", "error", err)
		}
		return
	}
	if w.fails("") {
		w.cfg.Log.Warn("the configuration is valid again and in force")
	} else {
		w.cfg.Log.Info("the configuration was read again")
	}
	old := w.use(next)
	w.renew(ctx, kept{sessions: old.Logins == next.Logins, pauses: keepPauses})
	w.ending.Go(func() {
		old.End()
		w.chores.wait() // they may be the old ones
		w.sayer.wait()
		old.Close()
	})
}

// fails notes why the configuration could not be read, and reports whether that is news. Why is
// empty when it could.
func (w *Watch) fails(why string) (news bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	news = w.broken != why
	w.broken = why
	return news
}

// use puts a setup into force, and returns the old one.
func (w *Watch) use(next *Setup) (old *Setup) {
	w.mu.Lock()
	defer w.mu.Unlock()
	old, w.setup = w.setup, next
	return old
}
