package watch

import (
	"context"
	"reflect"
	"sync"

	"postrider/internal/inbox"
)

// sync keeps the inboxes that are active now, each as it is now, and no others.
func (w *Watch) sync(ctx context.Context) { w.keepActive(ctx, kept{sessions: true}, false) }

// renew is sync by the setup that is in force now: every inbox gets a new keeper. Inboxes are those
// of another database if their IDs and addresses say so.
func (w *Watch) renew(ctx context.Context, keep kept) { w.keepActive(ctx, keep, true) }

func (w *Watch) keepActive(ctx context.Context, keep kept, renew bool) {
	boxes, err := w.current().Inboxes(ctx)
	keepers := w.all()
	if err != nil { // they are as they were; the next sync sees what has changed
		w.failed(ctx, err)
		boxes = nil
		for _, k := range keepers {
			boxes = append(boxes, k.in)
		}
	} else if w.trouble.over(looking); len(boxes) == 0 {
		w.trouble.over(visiting)
	}
	active := map[int64]inbox.Inbox{}
	for _, in := range boxes {
		active[in.ID] = in
	}
	var stopping sync.WaitGroup // at the same time: a silent server delays the end of its session
	for _, k := range keepers {
		switch in, ok := active[k.in.ID]; {
		case !ok:
			stopping.Go(func() { w.remove(k) })
		case renew || !same(k, in):
			stopping.Go(func() { w.set(in.ID, w.takeOver(ctx, k, in, keep)) })
		}
	}
	for _, in := range boxes {
		if w.keeper(in.ID) == nil {
			w.set(in.ID, w.keep(ctx, in))
		}
	}
	stopping.Wait()
}

// same reports whether no operator has changed the inbox since the keeper began.
func same(k *keeper, in inbox.Inbox) bool { return reflect.DeepEqual(settings(k.in), settings(in)) }

// failed notes an error of the database, unless the process is about to end.
func (w *Watch) failed(ctx context.Context, err error) {
	if ctx.Err() == nil {
		w.trouble.met(looking, err)
	}
}

func (w *Watch) remove(k *keeper) {
	k.stop().Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.keepers, k.in.ID)
}

// stopAll ends all keepers, and returns what they held.
func (w *Watch) stopAll() []Held {
	keepers := w.all()
	held := make([]Held, len(keepers))
	var stopping sync.WaitGroup
	for i, k := range keepers {
		stopping.Go(func() { held[i] = k.stop() })
	}
	stopping.Wait()
	return held
}

func (w *Watch) keeper(id int64) *keeper {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.keepers[id]
}

func (w *Watch) set(id int64, k *keeper) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keepers[id] = k
}

func (w *Watch) all() []*keeper {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]*keeper, 0, len(w.keepers))
	for _, k := range w.keepers {
		all = append(all, k)
	}
	return all
}

func (w *Watch) ids() (ids []int64) {
	for _, k := range w.all() {
		ids = append(ids, k.in.ID)
	}
	return ids
}

// settings is what an operator sets of an inbox: without what scans change.
func settings(in inbox.Inbox) inbox.Inbox {
	in.LastError, in.LastScannedAt, in.FailingSince = "", nil, nil
	folders := in.Folders
	in.Folders = nil
	for _, f := range folders {
		in.Folders = append(in.Folders, inbox.Folder{ID: f.ID, Name: f.Name, Active: f.Active})
	}
	return in
}

// login is what a session is opened with.
func login(in inbox.Inbox) [11]any {
	return [...]any{
		in.Address, in.Host, in.Port, in.Security, in.AllowPlaintext, in.Username, in.Auth, in.Password,
		in.CAFile, in.TLSFingerprint, in.ClientCert,
	}
}
