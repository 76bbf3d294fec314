package after

import (
	"context"
	"slices"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/outbox"
	"postrider/internal/route"
)

// Deletion is a message that is to be deleted, as `run --dry-run --json` prints it.
type Deletion struct {
	Inbox   string    `json:"inbox"`
	Folder  string    `json:"folder"`
	UID     uint32    `json:"uid"`
	Task    int64     `json:"task"`
	Subject string    `json:"subject"`
	At      time.Time `json:"at"` // not before
}

// Deletions are the messages of the inboxes that Work will delete, if nothing changes until then.
func (w *Worker) Deletions(ctx context.Context, boxes []inbox.Inbox) ([]Deletion, error) {
	of := map[int64]inbox.Inbox{}
	for _, in := range boxes {
		of[in.ID] = in
	}
	live := outbox.Filter{Destination: outbox.Server, Statuses: []outbox.Status{outbox.Waiting, outbox.InProgress}}
	entries, err := w.Outbox.List(ctx, live)
	if err != nil {
		return nil, err
	}
	var ids []int64
	entries = slices.DeleteFunc(entries, func(e outbox.Entry) bool {
		_, ok := of[e.InboxID]
		return !ok || e.Action != string(route.Delete)
	})
	for _, e := range entries {
		ids = append(ids, e.TaskID)
	}
	known, err := withOriginals(ctx, w.Registry, ids)
	if err != nil {
		return nil, err
	}
	active, err := w.Inboxes(ctx)
	out := []Deletion{}
	for _, e := range entries {
		t, at := known[e.TaskID], e.VisibleAt.UTC()
		delay, _ := w.Wants(e.Kind, t.Route, e.Action)
		if t.FinishedAt != nil && at.Before(t.FinishedAt.Add(delay)) { // delete_after is longer now
			at = t.FinishedAt.Add(delay).UTC()
		}
		v := &visit{worker: w, in: of[e.InboxID], boxes: active}
		j := &job{claim: outbox.Claim{Entry: e}, task: t, known: known}
		if v.admit(j, place{action: route.Delete}, at); j.end == nil {
			out = append(out, Deletion{
				Inbox: t.Inbox, Folder: t.Folder, UID: t.UID,
				Task: t.ID, Subject: t.Identity.Subject, At: at,
			})
		}
	}
	return out, err
}

// MayDelete reports whether messages in a folder of one of the active inboxes may be deleted.
func MayDelete(active []inbox.Inbox, address, folder string) bool {
	return slices.ContainsFunc(active, func(in inbox.Inbox) bool {
		return in.Address == address && in.AllowDelete && sharedWith(in, active, folder) == ""
	})
}
