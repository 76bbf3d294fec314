package pass

import (
	"context"
	"slices"
	"sync"

	"postrider/internal/forward"
	"postrider/internal/route"
	"postrider/internal/tasks"
)

// begun reports whether somebody has the message, or may have it: from then on it goes out in the mode it went out in, for
// the reason it had then, whatever routes and the DNS say now. Nobody gets two different ones.
func (j job) begun(ds []tasks.Delivery) bool {
	return j.claim.Mode != "" && slices.ContainsFunc(ds, reached)
}

// compose makes what goes out by the routes of today, unless it has begun.
func (j job) compose(ctx context.Context, via string, begun bool) (*forward.Content, error) {
	style := StyleOf(j.Routes.Style(via, j.mail(), j.Config.Style))
	if begun {
		style.Mode, style.Fallback = forward.Mode(j.claim.Mode), false
	}
	return j.Composer.Compose(ctx, j.msg, forward.Origin{
		Trace: forward.Trace{Inbox: j.in.Address, TaskID: j.claim.ID}, Folder: j.claim.Folder, UID: j.claim.UID,
		Registered: j.claim.CreatedAt, Size: j.size(), MaxSize: j.Config.MaxSize,
		Captured: sync.OnceValue(func() map[string]string { return j.Routes.Captured(via, j.mail()) }),
	}, style)
}

// form is what the registry keeps of a content.
func (j job) form(c *forward.Content, begun bool) tasks.Form {
	as := tasks.Form{Mode: string(c.Mode), ModeReason: c.Remark}
	if begun {
		as.ModeReason = j.claim.ModeReason
	}
	return as
}

// StyleOf is a style of routes, as package forward has it.
func StyleOf(s route.Style) forward.Style {
	return forward.Style{Mode: forward.Mode(s.Mode), Resent: s.Resent, Fallback: s.Fallback == route.FallbackAttach}
}

func reached(d tasks.Delivery) bool { return d.Status == tasks.Sending || d.Status == tasks.Delivered }

// mail is what the routes look at.
func (j job) mail() route.Mail {
	return route.Mail{Inbox: j.in.Address, Folder: j.claim.Folder, Message: j.msg, Size: j.size(), At: j.claim.CreatedAt}
}

// size is of the whole message, be it here or not.
func (j job) size() int64 {
	if j.msg.HeaderOnly {
		return j.claim.Size
	}
	return j.msg.Body.Size()
}
