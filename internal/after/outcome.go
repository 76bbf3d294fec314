package after

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/outbox"
	"postrider/internal/route"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

// cannot is what a server or folder is not able to do: trying again changes nothing.
type cannot struct{ why string }

func (e *cannot) Error() string { return e.why }

var (
	errNoUIDPLUS = &cannot{"the server offers no UIDPLUS (RFC 4315): without it messages of others would be expunged, so nothing is"}
	errNoTrash   = &cannot{"Gmail shows no folder for deleted messages; show it in IMAP (settings, Labels, Trash)"}
	errNoMove    = &cannot{"the server offers neither MOVE (RFC 6851) nor UIDPLUS (RFC 4315), so nothing can be moved safely"}
)

// admit decides, by the task, whether anything is to be done.
func (v *visit) admit(j *job, at place) {
	t, changes := j.task, at.action == route.Delete
	folder, moves := at.action.Folder()
	switch {
	case t.ID == 0:
		j.skip("the task was deleted")
	case outbox.Kind(t.Status) != j.claim.Kind:
		j.skip(fmt.Sprintf("the task is %s now", t.Status))
	case !v.Wants(j.claim.Kind, t.Route, j.claim.Action):
		j.skip("the configuration does not say so any more")
	case (changes || moves) && t.Status == tasks.Forwarded && !arrived(t):
		j.skip("a recipient did not get the message")
	case moves && folder == t.Folder:
		j.skip("the message is in that folder")
	case changes && !v.in.AllowDelete:
		j.skip(fmt.Sprintf("nothing may be deleted in this inbox; to allow it: postrider inbox set %s --allow-delete, then postrider event retry %d", v.in.Address, j.claim.ID))
	}
}

// arrived reports whether each recipient has the message, from this task or from another one.
func arrived(t tasks.Task) bool {
	for _, d := range t.Deliveries {
		if d.Status != tasks.Delivered && d.Status != tasks.Duplicated {
			return false
		}
	}
	return true
}

func (j *job) done(what string) {
	j.end = &outbox.Outcome{Claim: j.claim, Status: outbox.Done, Trail: outbox.Line{Event: "server", Detail: what}}
}

// gone ends a job whose message is not in its folder: it was moved or deleted, by an earlier try or
// by somebody else.
func (j *job) gone(a route.Action) {
	const why = "the message is not in its folder any more"
	if _, marks := a.Flag(); marks {
		j.skip(why)
		return
	}
	j.done(did(a) + ", or gone before")
	j.end.Error = why
}

func (j *job) skip(why string) {
	j.end = &outbox.Outcome{Claim: j.claim, Status: outbox.Dropped, Error: why}
}

// back is to be tried again, and the try does not count.
func (j *job) back(pause time.Duration) {
	j.end = &outbox.Outcome{Claim: j.claim, Status: outbox.Waiting, Error: j.claim.Error, Delay: pause, Uncounted: true}
}

// dead gives a job up.
func (j *job) dead(why string) {
	j.log.Warn("what follows on the server was given up", "task", j.task.ID, "action", j.claim.Action, "error", why)
	j.end = &outbox.Outcome{
		Claim: j.claim, Status: outbox.DeadLetter, Error: why,
		Trail: outbox.Line{Event: "server", Detail: "not " + did(route.Action(j.claim.Action)) + ": " + why},
	}
}

// refused is to be tried again, but not for ever.
func (j *job) refused(why string) {
	if j.claim.Attempts >= maxTries {
		j.dead(why)
		return
	}
	pause := min(firstPause<<min(max(j.claim.Attempts-1, 0), 10), longest)
	j.end = &outbox.Outcome{Claim: j.claim, Status: outbox.Waiting, Error: why, Delay: pause}
}

// notNow is what is in the way, perhaps until somebody changes it.
type notNow struct{ why string }

func (e *notNow) Error() string { return e.why }

// refusal reports whether err concerns the messages or the folder, and not the server.
func refusal(err error) bool {
	return errors.As(err, new(*notNow)) || ofKind(err, imapsrc.KindMessage, imapsrc.KindNoFolder, imapsrc.KindNoCursor)
}

func ofKind(err error, kinds ...imapsrc.Kind) bool {
	var e *imapsrc.Error
	return errors.As(err, &e) && slices.Contains(kinds, e.Kind)
}

// fail ends jobs that met an error of the server.
func (v *visit) fail(ctx context.Context, jobs []*job, err error) {
	why, never := text.Brief(err), new(cannot)
	switch {
	case errors.As(err, &never):
		for _, j := range jobs {
			j.dead(why)
		}
	case refusal(err):
		for _, j := range jobs {
			j.refused(why)
		}
	case ctx.Err() != nil:
		v.broken = true
		for _, j := range jobs {
			j.back(0)
		}
		return
	default:
		v.broken = true
		for _, j := range jobs {
			j.back(serverAgain)
			j.end.Error = why
		}
	}
	v.log.Info("what follows on the server is not done yet", "messages", len(jobs), "error", why)
}
