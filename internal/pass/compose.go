package pass

import (
	"context"
	"sync"

	"postrider/internal/forward"
	"postrider/internal/inbox"
	"postrider/internal/message"
	"postrider/internal/route"
	"postrider/internal/tasks"
)

// begun reports whether a recipient has the message, or may have it: from then on its mode and the
// reason for it stay, so that all recipients get the same message.
func begun(t tasks.Task) bool { return t.Form.Mode != "" && t.Begun() }

// compose makes what goes out, by the current routes unless it has begun.
func (d *deliverer) compose(ctx context.Context, j *job) (_ *forward.Content, err error) {
	t := j.claim.Task
	defer caught("compose the message", d.log.With("task", t.ID), &err)
	mail := MailOf(d.in, t, j.msg)
	style := d.pass.Routes.Style(ctx, t.Route, mail, d.pass.Config.Style)
	if begun(t) {
		style.Mode, style.Fallback = route.Mode(t.Form.Mode), ""
	}
	return composed(ctx, d.pass.Composer, d.pass.Routes, mail, t, d.pass.Config.MaxSize, style)
}

// composed makes what will be sent of a message. of is its task with its route; if the message has
// no task, only the route is set.
func composed(
	ctx context.Context, by *forward.Composer, routes *route.Table,
	mail route.Mail, of tasks.Task, maxSize int64, style route.Style,
) (*forward.Content, error) {
	return by.Compose(ctx, mail.Message, forward.Origin{
		Trace: forward.Trace{Inbox: mail.Inbox, TaskID: of.ID}, Folder: mail.Folder, UID: of.UID,
		Registered: mail.At, Size: mail.Size, MaxSize: maxSize,
		Captured: sync.OnceValue(func() map[string]string { return routes.Captured(ctx, of.Route, mail) }),
	}, forward.Style{
		Mode: forward.Mode(style.Mode), Resent: style.Resent, Fallback: style.Fallback == route.FallbackAttach,
	})
}

// MailOf is what the routes look at of a task. m is its message: whole, its header alone, or nil.
func MailOf(in inbox.Inbox, t tasks.Task, m *message.Message) route.Mail {
	mail := route.Mail{
		Inbox: in.Address, Labels: in.Labels.Texts(), Folder: t.Folder,
		Message: m, Size: t.Identity.Size, At: t.CreatedAt,
	}
	if m != nil && !m.HeaderOnly {
		mail.Size = m.Body.Size()
	}
	return mail
}
