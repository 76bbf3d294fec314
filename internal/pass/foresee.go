package pass

import (
	"fmt"

	"github.com/dustin/go-humanize"

	"postrider/internal/forward"
	"postrider/internal/route"
	"postrider/internal/tasks"
)

// Foresight is what a pass would do with a message that nobody has yet.
type Foresight struct {
	Status   tasks.Status // forwarded, if the relay accepts it; skipped; skipped_no_match
	Reason   string
	Decision route.Decision // the routes', also when it is skipped for another reason
}

// Foresee decides about a message as a pass would, and changes nothing. m.Message is there; of one that is too
// large, and whose header alone it is, a notice goes out.
func Foresee(table *route.Table, m route.Mail, maxSize int64, maxReceived int) Foresight {
	d := table.Decide(m)
	looped, loops := forward.Looped(m.Message.Header, m.Inbox, maxReceived)
	switch {
	case m.Size > maxSize && !m.Message.HeaderOnly:
		return Foresight{tasks.Skipped, tooLarge(m.Size, maxSize), d}
	case loops:
		return Foresight{tasks.Skipped, looped, d}
	case d.Skip:
		return Foresight{tasks.Skipped, d.Reason, d}
	case len(d.To) == 0:
		return Foresight{tasks.SkippedNoMatch, d.Reason, d}
	}
	return Foresight{tasks.Forwarded, d.Reason, d}
}

func tooLarge(size, limit int64) string {
	return fmt.Sprintf("too_large: %s, forward.max_size is %s", humanize.IBytes(uint64(size)), humanize.IBytes(uint64(limit)))
}
