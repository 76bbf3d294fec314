package pass

import (
	"slices"

	"postrider/internal/forward"
	"postrider/internal/route"
	"postrider/internal/tasks"
)

// compose makes what goes out by the routes of today. Once somebody has the message, or may have it, it goes out as it did
// then: nobody gets two different ones.
func (j job) compose(via string, ds []tasks.Delivery) (*forward.Content, error) {
	style := StyleOf(j.Routes.Style(via, j.Config.Style))
	if j.claim.Mode != "" && slices.ContainsFunc(ds, reached) {
		style.Mode, style.Fallback = forward.Mode(j.claim.Mode), false
	}
	return j.Composer.Compose(j.msg, forward.Origin{
		Trace: forward.Trace{Inbox: j.in.Address, TaskID: j.claim.ID}, Folder: j.claim.Folder, UID: j.claim.UID,
		Registered: j.claim.CreatedAt, Size: j.size(), MaxSize: j.Config.MaxSize,
	}, style)
}

// StyleOf is a style of routes, as package forward has it.
func StyleOf(s route.Style) forward.Style {
	return forward.Style{Mode: forward.Mode(s.Mode), Resent: s.Resent, Fallback: s.Fallback == route.FallbackAttach}
}

func reached(d tasks.Delivery) bool { return d.Status == tasks.Sending || d.Status == tasks.Delivered }

// size is of the whole message, be it here or not.
func (j job) size() int64 {
	if j.msg.HeaderOnly {
		return j.claim.Size
	}
	return j.msg.Body.Size()
}
