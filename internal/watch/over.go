package watch

import (
	"postrider/internal/inbox"
	"postrider/internal/pass"
)

// Over is Setup.Hold for a process.
func Over(p *pass.Process) func(in inbox.Inbox, from Held) Held {
	return func(in inbox.Inbox, from Held) Held {
		h := p.Hold(in)
		if before, ok := from.(*pass.Held); ok {
			h.Adopt(before)
		}
		return h
	}
}
