package pass

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"postrider/internal/forward"
	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/message"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

// withBodies returns the jobs whose messages are at hand: from the cache, or fetched by UID. Those
// that need no message, or whose message cannot be had, end here.
func (d *deliverer) withBodies(ctx context.Context, jobs []*job) ([]*job, error) {
	var ready []*job
	missing := map[int64][]*job{} // by folder
	for _, j := range jobs {
		err := d.takeOwned(ctx, j)
		t := j.claim.Task
		if j.msg = d.cache.take(placeOf(t)); j.msg != nil && t.Read && !isOf(t, j.msg) {
			_ = j.msg.Close()
			j.msg = nil
		}
		switch {
		case err != nil:
			d.ends(j)(d.unrecorded(ctx, j, nil, err))
		case d.settled(t):
			d.ends(j)(d.settle(ctx, j, t.Deliveries))
		case j.msg == nil && !j.claim.Recorded(): // it is claimed later
			d.end(j, "", nil)
		case j.msg != nil:
			ready = append(ready, j)
		default:
			missing[t.FolderID] = append(missing[t.FolderID], j)
		}
	}
	var failed error
	for _, list := range missing {
		found, err := d.fetch(ctx, list)
		ready = append(ready, found...)
		failed = errors.Join(failed, err)
	}
	return ready, failed
}

// settled reports whether there is nothing to send: all recipients have the message or wait for
// other tasks, or an outcome is unknown and waits for an operator. The message may be gone by then.
func (d *deliverer) settled(t tasks.Task) bool {
	sending := slices.ContainsFunc(t.Deliveries, func(d tasks.Delivery) bool { return d.Status == tasks.Sending })
	if sending && d.pass.Routes.Holds(t.Route, d.pass.Config.Policy.Hold) {
		return true
	}
	return len(t.Deliveries) > 0 && t.Revision == d.revision && len(recipientsToDo(t.Deliveries)) == 0
}

// takeOwned takes the rows that a task has to own, if its recipients stay the same whatever the
// message says: they waited for other tasks, or the task has begun.
func (d *deliverer) takeOwned(ctx context.Context, j *job) error {
	t := j.claim.Task
	waits := slices.ContainsFunc(t.Deliveries, tasks.Delivery.Waits)
	if !t.Read || t.Revision == d.revision && !waits || t.Revision != d.revision && !t.Begun() {
		return nil
	}
	return d.reserve(ctx, j, tasks.Reservation{})
}

// fetch fetches the messages of tasks of one folder. An error (of the connection or the database)
// ends the deliverer.
func (d *deliverer) fetch(ctx context.Context, jobs []*job) ([]*job, error) {
	first := jobs[0].claim.Task
	if i := slices.IndexFunc(jobs, func(j *job) bool { return j.claim.Task.Epoch != first.Epoch }); i > 0 {
		found, err := d.fetch(ctx, jobs[:i])
		more, errMore := d.fetch(ctx, jobs[i:])
		return append(found, more...), errors.Join(err, errMore)
	}
	batch := make([]fetched, len(jobs))
	for i, j := range jobs {
		t := j.claim.Task
		batch[i].meta.UID = t.UID
		batch[i].head = t.Form.Mode == string(forward.Notice)
		batch[i].notice = d.pass.Config.Notices && !t.Begun()
		if size, limit := t.Identity.Size, d.pass.Config.MaxSize; size > limit && !batch[i].head {
			batch[i].refused(&imapsrc.TooLargeError{Size: size, Max: limit})
		}
	}
	err := d.session.fetchBatch(ctx, &folder{row: inbox.Folder{Name: first.Folder, UIDValidity: first.Epoch}}, batch)
	if deleted(err) && d.unwatched(ctx, first.FolderID) {
		err = errDeleted
	}
	connection := err != nil && (lost(err) || ctx.Err() != nil)
	switch {
	case err == nil, connection, errors.Is(err, errDeleted):
	case errors.Is(err, errEpoch):
		d.log.Warn("the folder cannot be read; its tasks wait", "folder", first.Folder, "error", err)
	default:
		d.trouble(err)
	}
	var found []*job
	for i, j := range jobs {
		if d.received(ctx, j, batch[i], err) {
			found = append(found, j)
		}
	}
	if connection {
		return found, err
	}
	return found, d.failure()
}

// received gives a job what was fetched, and reports whether that is its message; otherwise it ends
// the job. failed is why not all could be fetched.
func (d *deliverer) received(ctx context.Context, j *job, it fetched, failed error) (ready bool) {
	j.claim.Task.Identity.Size = max(j.claim.Task.Identity.Size, it.announced)
	t, end := j.claim.Task, d.ends(j)
	j.msg = it.msg
	switch {
	case it.msg != nil && t.Read && isOf(t, it.msg):
		return true
	case it.msg != nil || it.gone || errors.Is(failed, errEpoch):
		return d.doubtful(ctx, j, it, failed)
	case errors.Is(failed, errDeleted):
		return end(d.vanished(ctx, j, failed.Error()))
	case it.skip != "":
		return end(d.tooLarge(ctx, j, it.skip))
	case it.err != nil:
		return end(d.fail(ctx, j, t.Deliveries, fmt.Errorf("fetch: %w", it.err)))
	case lost(failed) || ctx.Err() != nil:
		return end(d.release(ctx, j, "its folder could not be read: "+text.Error(failed), 0, nil))
	}
	return end(d.release(ctx, j, "its folder could not be read: "+text.Error(failed), d.pass.Config.Policy.Base, nil))
}

// isOf reports whether a message is the one that a task was registered for. If only a part of the
// message was read, it compares what the registry has of the header; if nothing was read, nothing
// can be compared.
func isOf(t tasks.Task, m *message.Message) bool {
	if t.Read && !m.HeaderOnly {
		return m.Fingerprint == t.Identity.Fingerprint
	}
	was, is := t.Identity, identity(m, t.Identity)
	// The registry cuts off what is too long, and writes text in UTF-8.
	same := func(was, is string) bool { return strings.HasPrefix(strings.ToValidUTF8(is, "\uFFFD"), was) }
	if was.MessageID != "" {
		return same(was.MessageID, is.MessageID)
	}
	return same(was.Subject, is.Subject) && same(was.Sender, is.Sender)
}

// doubtful is received for a job whose message did not come, or may be another one. The folder is
// looked up after the fetch: a scan may have begun a new epoch meanwhile.
func (d *deliverer) doubtful(ctx context.Context, j *job, it fetched, failed error) (ready bool) {
	t, end := j.claim.Task, d.ends(j)
	row, err := d.folder(ctx, t.FolderID)
	if err != nil {
		return end(d.unrecorded(ctx, j, nil, err))
	}
	current := row.UIDValidity == t.Epoch
	another := it.msg != nil && (t.Read || !isOf(t, it.msg))
	why := "it is no longer in its folder"
	switch {
	case it.msg != nil && !another && current: // nothing is known of its content
		return true
	case current && errors.Is(failed, errEpoch), !current && row.Reconciled != row.UIDValidity:
		why = "its UIDVALIDITY changed; the next scan looks for it"
		return end(d.release(ctx, j, why, d.pass.Config.Policy.Base, nil))
	case !current && row.Epoch() == t.UIDValidity():
		why = "it was not found again after the server gave UIDs to other messages"
	case !current:
		why = "it was not found again after UIDVALIDITY changed"
	case another:
		why = "the server gave its UID to another message"
		if err := d.pass.Inboxes.Distrust(context.WithoutCancel(ctx), t.FolderID, t.Epoch); err != nil {
			return end(d.unrecorded(ctx, j, nil, err))
		}
	}
	return end(d.vanished(ctx, j, why))
}

// vanished ends a claim whose message is not there, unless a scan has found it again.
func (d *deliverer) vanished(ctx context.Context, j *job, why string) (tasks.Status, error) {
	status, err := d.finish(ctx, j, tasks.Vanished(j.claim.Task, why))
	if errors.Is(err, tasks.ErrMoved) {
		return d.release(ctx, j, "it was found again under another UID", 0, nil)
	}
	return status, err
}

// errDeleted is the reason why the tasks of a deleted folder end: it is no longer watched.
var errDeleted = errors.New("its folder is not on the server, and is no longer watched")

// unwatched reports whether a folder is no longer watched by now.
func (d *deliverer) unwatched(ctx context.Context, folderID int64) bool {
	row, err := d.folder(ctx, folderID)
	return err == nil && !row.Active // an error of the database shows again when the claims end
}

// folder is a folder of the inbox as it is registered now; the zero row when it was removed.
func (d *deliverer) folder(ctx context.Context, id int64) (inbox.Folder, error) {
	in, err := d.pass.Inboxes.Get(context.WithoutCancel(ctx), d.in.Address)
	return rowOf(in, id), err
}
