package after

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/outbox"
	"postrider/internal/tasks"
)

// visit is the work on one inbox.
type visit struct {
	worker *Worker
	in     inbox.Inbox
	boxes  []inbox.Inbox // the active ones
	log    *slog.Logger
	conn   Server        // nil before it is needed, and after it broke
	again  time.Duration // how long the actions of the inbox pause; 0 while its server works
	alone  int           // how many claims to process one at a time
	breaks int           // connections that broke

	several bool   // more than one claim is in hand
	stopped bool   // nothing more is done for the claims in hand: the connection broke, or the inbox was disabled
	why     string // the error because of which they are given back; empty for none
}

// drop ends the connection.
func (v *visit) drop() {
	if v.conn != nil {
		_ = v.conn.Close()
	}
	v.conn = nil
}

// atOnce is how many actions to claim next.
func (v *visit) atOnce() int {
	if v.alone == 0 {
		return atOnce
	}
	v.alone--
	return 1
}

// active looks the inbox up once more, and reports whether it is active.
func (v *visit) active(ctx context.Context) (bool, error) {
	in, err := v.worker.Inbox(ctx, v.in.Address)
	if errors.As(err, new(*inbox.NotFoundError)) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	same := in.ID == v.in.ID && in.Active
	if same {
		v.in = in
	}
	return same, nil
}

// sharedWith is another one of the active inboxes that watches a folder of the same account; empty
// if there is none. What one inbox moves or deletes there, the other one loses.
func sharedWith(in inbox.Inbox, active []inbox.Inbox, folder string) (address string) {
	for _, other := range active {
		if other.ID != in.ID && other.Account() == in.Account() && slices.Contains(other.Watched(), folder) {
			return other.Address
		}
	}
	return ""
}

// forwardsAgain is another one of the active inboxes that would forward what in moves to a folder;
// empty if there is none.
func (w *Worker) forwardsAgain(in inbox.Inbox, active []inbox.Inbox, folder string) (address string) {
	if w.Dedupe == tasks.DedupeAll {
		return ""
	}
	return sharedWith(in, active, folder)
}

// hold renews the leases of claims until stop is called. Whether they were lost is found out by
// still.
func (v *visit) hold(ctx context.Context, claims []outbox.Claim) (stop func()) {
	return tasks.Every(ctx, v.worker.Lease/3, func(context.Context) { // stop waits for a renewal, and does not end it
		_, _ = v.worker.Outbox.Extend(ctx, v.worker.Lease, claims...)
	})
}

// errRenewed is a folder in which the UID of the task may name another message.
var errRenewed = &notNow{"UIDVALIDITY of the folder changed; waiting for the next scan to identify the message"}

// errLost is a folder in which a scan has looked for the message of the task since, in vain.
var errLost = &notNow{"UIDVALIDITY of the folder changed, and the message was not found again"}

func (v *visit) openFolder(ctx context.Context, at place) error {
	f, err := v.conn.SelectToChange(ctx, at.folder)
	switch {
	case err != nil || f.UIDValidity == uint32(at.epoch):
		return err
	case slices.ContainsFunc(v.in.Folders, func(row inbox.Folder) bool {
		return row.ID == at.folderID && row.Epoch() == f.UIDValidity && row.Reconciled == row.UIDValidity
	}):
		return errLost
	}
	return errRenewed
}
