package pass

import (
	"context"
	"sync"

	"postrider/internal/forward"
	"postrider/internal/route"
	"postrider/internal/tasks"
)

// begun reports whether a recipient has the message, or may have it: from then on it goes out in
// the mode it went out in, for the reason it had then. No two recipients get different ones.
func begun(t tasks.Task) bool { return t.Form.Mode != "" && t.Begun() }

// compose makes what goes out, by the current routes unless it has begun.
func (d *deliverer) compose(ctx context.Context, j *job) (_ *forward.Content, err error) {
	t := j.claim.Task
	defer caught("compose the message", d.log.With("task", t.ID), &err)
	mail := d.mail(j)
	style := StyleOf(d.pass.Routes.Style(ctx, t.Route, mail, d.pass.Config.Style))
	if begun(t) {
		style.Mode, style.Fallback = forward.Mode(t.Form.Mode), false
	}
	return d.pass.Composer.Compose(ctx, j.msg, forward.Origin{
		Trace: forward.Trace{Inbox: d.in.Address, TaskID: t.ID}, Folder: t.Folder, UID: t.UID,
		Registered: t.CreatedAt, Size: j.size(), MaxSize: d.pass.Config.MaxSize,
		Captured: sync.OnceValue(func() map[string]string { return d.pass.Routes.Captured(ctx, t.Route, mail) }),
	}, style)
}

// StyleOf is a style of routes, as package forward has it.
func StyleOf(s route.Style) forward.Style {
	return forward.Style{Mode: forward.Mode(s.Mode), Resent: s.Resent, Fallback: s.Fallback == route.FallbackAttach}
}
