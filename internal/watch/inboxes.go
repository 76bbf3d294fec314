package watch

import (
	"context"
	"reflect"
	"sync"

	"postrider/internal/inbox"
)

// sync keeps the inboxes that are active now, each as it is now, and no others.
func (w *Watch) sync(ctx context.Context) {
	boxes, err := w.current().Inboxes(ctx)
	if err != nil {
		w.failed(ctx, err)
		return
	}
	w.trouble.over(looking)
	if len(boxes) == 0 {
		w.trouble.over(visiting)
	}
	active := map[int64]inbox.Inbox{}
	for _, in := range boxes {
		active[in.ID] = in
		if w.keeper(in.ID) == nil {
			w.set(in.ID, w.keep(ctx, in))
		}
	}
	w.replace(ctx, active, kept{sessions: true}, func(k *keeper, in inbox.Inbox) bool {
		return !same(k, in)
	})
}

// same reports whether no operator has changed the inbox since the keeper began.
func same(k *keeper, in inbox.Inbox) bool { return reflect.DeepEqual(settings(k.in), settings(in)) }

// replace ends the keepers of inboxes that are not in now, and has new ones take over from those
// that changed says. It does so at the same time: a silent server delays the end of its session.
func (w *Watch) replace(
	ctx context.Context, now map[int64]inbox.Inbox, keep kept, changed func(*keeper, inbox.Inbox) bool,
) {
	var stopping sync.WaitGroup
	for _, k := range w.all() {
		switch in, ok := now[k.in.ID]; {
		case !ok:
			stopping.Go(func() { w.remove(k) })
		case changed(k, in):
			stopping.Go(func() { w.set(in.ID, w.takeOver(ctx, k, in, keep)) })
		}
	}
	stopping.Wait()
}

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

// renew keeps all inboxes by the setup that is in force now. Inboxes are those of another database
// if their IDs and addresses say so.
func (w *Watch) renew(ctx context.Context, keep kept) {
	boxes, err := w.current().Inboxes(ctx)
	now := map[int64]inbox.Inbox{}
	if err != nil { // as they were; sync sees later what has changed
		w.failed(ctx, err)
		for _, k := range w.all() {
			now[k.in.ID] = k.in
		}
	}
	for _, in := range boxes {
		now[in.ID] = in
	}
	w.replace(ctx, now, keep, func(*keeper, inbox.Inbox) bool { return true })
	w.sync(ctx)
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
