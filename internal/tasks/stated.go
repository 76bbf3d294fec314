package tasks

import (
	"time"

	"postrider/internal/message"
)

// Stated is what a server says of a message without its content: INTERNALDATE and RFC822.SIZE.
type Stated struct {
	Received time.Time // to the second; zero when unknown
	Size     int64     // octets; 0 when unknown
}

// Outline identifies a message of which no more is known.
func (s Stated) Outline() message.Fingerprint { return message.Outline(s.Received, s.Size) }

// Seconds is as the registry keeps it: to the second, in UTC.
func (s Stated) Seconds() Stated {
	if !s.Received.IsZero() {
		s.Received = time.Unix(s.Received.Unix(), 0).UTC()
	}
	return s
}

// Differs says which of the values the server now states differently. Unknown values do not differ.
func (s Stated) Differs(now Stated) (date, size bool) {
	date = !s.Received.IsZero() && !now.Received.IsZero() && s.Received.Unix() != now.Received.Unix()
	size = s.Size > 0 && now.Size > 0 && s.Size != now.Size
	return date, size
}

// Noted is a message in the ledger, as it was when it was noted there.
type Noted struct {
	UID         uint32
	Fingerprint message.Fingerprint // of the content, or the outline while that is not known
	Stated      Stated
	Skip        SkipReason // of its task
}

// Gone reports whether the task ended because the message was gone.
func (n Noted) Gone() bool { return n.Skip == SkipVanished }

// Read reports whether the content is known, and not only the outline.
func (n Noted) Read() bool { return n.Fingerprint != n.Stated.Outline() }

// Likeness says whether the message that a server has at a UID now is the one that was noted there.
type Likeness int

// The likenesses.
const (
	Same     Likeness = iota // as far as size and date show
	Doubtful                 // the content has to decide
	Another                  // a different message
)

// Like compares a noted message with what the server states now. Servers correct sizes, and change
// dates when a mail store is moved or the clocks change. So if the content is known, only the
// content can show that it is a different message. Otherwise both size and date have to differ.
func (n Noted) Like(now Stated) Likeness {
	switch date, size := n.Stated.Differs(now); {
	case !date && !size:
		return Same
	case n.Read():
		return Doubtful
	case date && size:
		return Another
	}
	return Same
}
