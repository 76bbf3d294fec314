package outbox

import (
	"errors"
	"fmt"
	"time"
)

// ErrGone reports that the destination wants no more events: it is disabled.
var ErrGone = errors.New("the destination wants no more events")

// Refused reports that the destination will never take this message.
type Refused struct {
	Err    error
	Unsent bool // perhaps this host refused it, so it does not show that the destination works
}

func (e *Refused) Error() string { return fmt.Sprintf("refused: %v", e.Err) }

// Unwrap implements the interface of package errors.
func (e *Refused) Unwrap() error { return e.Err }

// Later reports that the destination asks to be left alone for a while.
type Later struct {
	After time.Duration
	Err   error
}

func (e *Later) Error() string { return fmt.Sprintf("asks for a pause of %s: %v", e.After, e.Err) }

// Unwrap implements the interface of package errors.
func (e *Later) Unwrap() error { return e.Err }
