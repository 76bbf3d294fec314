package after

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"postrider/internal/address"
	"postrider/internal/imapsrc"
	"postrider/internal/outbox"
	"postrider/internal/route"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

// cannot is an action that the server or the folder does not support: it is not tried again.
type cannot struct{ why string }

func (e *cannot) Error() string { return e.why }

var (
	errNoUIDPLUS = &cannot{"the server offers no UIDPLUS (RFC 4315): " +
		"a message cannot be deleted without also expunging others"}
	errNoTrash = &cannot{"Gmail shows no folder for deleted messages; show it in IMAP (settings, Labels, Trash)"}
	errNoMove  = &cannot{"the server offers neither MOVE (RFC 6851) nor UIDPLUS (RFC 4315), " +
		"so nothing can be moved safely"}
)

// admit decides, by the task, whether anything is to be done now.
func (v *visit) admit(j *job, at place, now time.Time) {
	t, deletes := j.task, at.action == route.Delete
	folder, moves := at.action.Folder()
	delay, wanted := v.worker.Wants(j.claim.Kind, t.Route, j.claim.Action)
	other, kept := sharedWith(v.in, v.boxes, t.Folder), keeps(t, deletes)
	reader := v.worker.forwardsAgain(v.in, v.boxes, folder)
	switch {
	case t.ID == 0:
		j.skip("the task was deleted")
	case outbox.Kind(t.Status) != j.claim.Kind:
		j.skip(fmt.Sprintf("the task is %s now", t.Status))
	case !wanted:
		j.skip("this action is no longer in the section after of the configuration")
	case delay > 0 && t.FinishedAt != nil && now.Before(t.FinishedAt.Add(delay)):
		j.back(t.FinishedAt.Add(delay).Sub(now))
	case (deletes || moves) && kept != "":
		j.skip(kept)
	case (deletes || moves) && t.Status == tasks.Forwarded && !arrived(t, j.known):
		j.skip("it is not certain that each recipient has the message")
	case (deletes || moves) && other != "":
		j.skip(fmt.Sprintf("the inbox %s has the same account and watches the folder %q, too, "+
			"and would lose the message; to allow it: watch the folder in one inbox only, "+
			"then postrider event retry %d", other, t.Folder, j.claim.ID))
	case moves && folder == t.Folder:
		j.skip(fmt.Sprintf("the message is already in the folder %q", folder))
	case moves && reader != "" && t.Status == tasks.Forwarded: // else nobody has the message yet
		j.skip(fmt.Sprintf("the inbox %s has the same account and watches the folder %q, "+
			"and would forward the message again; to allow it: watch the folder in one inbox only, "+
			"then postrider event retry %d", reader, folder, j.claim.ID))
	case deletes && !v.in.AllowDelete:
		j.skip(fmt.Sprintf("nothing may be deleted in this inbox; to allow it: postrider inbox set %s --allow-delete, "+
			"then postrider event retry %d", text.Arg(v.in.Address), j.claim.ID))
	}
}

// keeps says why a message must not be moved, or with deletes not be deleted, whoever has it; empty
// if it may be.
func keeps(t tasks.Task, deletes bool) string {
	switch {
	case t.Form.Mode == "notice": // it goes out in place of the message
		return "only a notice was forwarded, and the message stays where the notice says it is"
	case t.Keep == tasks.KeepUndecided:
		return fmt.Sprintf("it is not known whether a route matches (see postrider task show %d), "+
			"and the message stays", t.ID)
	case t.Keep == tasks.KeepUnreached:
		return fmt.Sprintf("a route names a recipient that has no address (see postrider task show %d), "+
			"and the message stays", t.ID)
	case t.Keep == tasks.KeepOwnCopy && deletes:
		return "the inbox's own address is a recipient, and this is its only copy"
	}
	return ""
}

// MayBeDeleted reports whether the message of a task that is due or would be registered may be
// deleted once it has ended, as far as that is known before its next attempt: each recipient has it
// or may get it.
func MayBeDeleted(t tasks.Task) bool {
	return keeps(t, true) == "" && !slices.ContainsFunc(t.Deliveries, func(d tasks.Delivery) bool {
		return d.Status == tasks.Failed || d.Status == tasks.Sending || d.Waits() || d.HasBounced()
	})
}

// arrived reports whether there are recipients, each has the message, from this task or from
// another one, and none of them has bounced. Of another task that is purged this is not known: an
// operator may have skipped it, or it may have bounced.
func arrived(t tasks.Task, known map[int64]tasks.Task) bool {
	if len(t.Deliveries) == 0 {
		return false
	}
	for _, d := range t.Deliveries {
		by := t
		if d.Status == tasks.Duplicated {
			by = known[d.DuplicateOf]
		}
		if !slices.ContainsFunc(by.Deliveries, func(own tasks.Delivery) bool {
			return address.Mailbox(own.Recipient) == address.Mailbox(d.Recipient) &&
				own.Status == tasks.Delivered && !own.HasBounced()
		}) {
			return false
		}
	}
	return true
}

// words says what an action does, and what it has done.
func words(a route.Action) (do, did string) {
	flag, marks := a.Flag()
	folder, moves := a.Folder()
	switch {
	case a == route.Seen:
		return "mark as read", "marked as read"
	case marks:
		return "set flag " + flag, "flag " + flag + " set"
	case moves:
		return "move to " + text.Line(folder), "moved to " + text.Line(folder)
	}
	return "delete", "deleted"
}

func (j *job) done(what string) {
	j.end = &outbox.Outcome{Claim: j.claim, Status: outbox.Done, Trail: outbox.Line{Event: "server", Detail: what}}
}

// gone ends a job whose message is not in its folder: an earlier try or another client moved or
// deleted it.
func (j *job) gone(a route.Action) {
	const why = "the message is no longer in its folder"
	if _, marks := a.Flag(); marks {
		j.skip(why)
		return
	}
	j.done(why + " (moved or deleted earlier)")
	j.end.Error = why
}

func (j *job) skip(why string) {
	j.end = &outbox.Outcome{Claim: j.claim, Status: outbox.Dropped, Error: why}
}

// back releases a job; the try does not count.
func (j *job) back(pause time.Duration) {
	j.end = &outbox.Outcome{Claim: j.claim, Status: outbox.Waiting, Error: j.claim.Error, Delay: pause, Uncounted: true}
}

// dead gives a job up.
func (j *job) dead(why string) {
	do, _ := words(route.Action(j.claim.Action))
	j.log.Warn("action on the IMAP server given up", "task", j.task.ID, "action", j.claim.Action, "error", why)
	j.end = &outbox.Outcome{
		Claim: j.claim, Status: outbox.DeadLetter, Error: why,
		Trail: outbox.Line{Event: "server", Detail: "failed: " + do + ": " + why},
	}
}

// refused ends a try that failed; after maxTries the job is dead.
func (j *job) refused(why string) {
	if j.claim.Attempts >= maxTries {
		j.dead(why)
		return
	}
	pause := min(firstPause<<min(max(j.claim.Attempts-1, 0), 10), longest)
	j.end = &outbox.Outcome{Claim: j.claim, Status: outbox.Waiting, Error: why, Delay: pause}
}

// stays is refused for a message that may be copied already. A copy that the next try may not
// recognise, or that was made again, is the last one.
func (j *job) stays(why string) {
	if j.copied && (!j.noted.Read() || j.claim.Attempts >= maxCopies) {
		folder, _ := route.Action(j.claim.Action).Folder()
		j.dead(why + "; a copy is in the folder " + folder)
		return
	}
	j.refused(why)
}

// notNow is an obstacle that may be gone later.
type notNow struct{ why string }

func (e *notNow) Error() string { return e.why }

// refusal reports whether err concerns the messages or the folder, and not the server.
func refusal(err error) bool {
	return errors.As(err, new(*notNow)) || ofKind(err, imapsrc.KindMessage, imapsrc.KindNoFolder, imapsrc.KindNoCursor)
}

func ofKind(err error, kinds ...imapsrc.Kind) bool {
	return slices.Contains(kinds, imapsrc.KindOf(err))
}

// fail ends jobs that met an error of the server. What it does not end is given back by work.
func (v *visit) fail(ctx context.Context, jobs []*job, err error) {
	why, never := text.Brief(err), new(cannot)
	switch {
	case errors.As(err, &never):
		for _, j := range jobs {
			j.dead(why)
		}
	case refusal(err):
		for _, j := range jobs {
			j.stays(why)
		}
	case ctx.Err() != nil:
		v.stopped = true
		v.drop()
		return
	case v.conn == nil || ofKind(err, imapsrc.KindUnavailable, imapsrc.KindLimit, imapsrc.KindInUse, imapsrc.KindLocal):
		v.leave(err)
	default:
		v.broke(jobs, err)
	}
	v.log.Info("actions on the IMAP server were not carried out", "messages", len(jobs), "error", why)
}

// leave pauses the actions of an inbox: the error is about its server, and not about messages.
func (v *visit) leave(err error) {
	v.stopped, v.why, v.again = true, text.Brief(err), serverAgain
	if ofKind(err, imapsrc.KindAuth, imapsrc.KindExpired) {
		v.again = loginAgain
	}
	v.again = max(v.again, imapsrc.BackOffOf(err))
	v.drop()
}

// broke ends the job over which the connection broke, if that is known. Otherwise each of the
// claims in hand is tried alone.
func (v *visit) broke(jobs []*job, err error) {
	v.stopped, v.why = true, text.Brief(err)
	v.drop()
	if v.breaks++; v.breaks == maxBreaks {
		v.again = serverAgain
	}
	at := new(imapsrc.Error)
	_ = errors.As(err, &at)
	named := slices.IndexFunc(jobs, func(j *job) bool { return j.task.UID == at.UID && j.task.Folder == at.Folder })
	switch {
	case !v.several:
		jobs[0].refused(v.why)
	case named >= 0:
		jobs[named].refused(v.why)
	default:
		v.alone = atOnce
	}
}
