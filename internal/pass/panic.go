package pass

import (
	"fmt"
	"log/slog"
	"runtime/debug"
)

// panicError is a panic while one message was read. It is a bug of this program that the message
// triggers, so only that message's task fails, and others are processed.
type panicError struct {
	doing string
	value any
}

func (e *panicError) Error() string {
	return fmt.Sprintf("%s: a bug in this program, please report it: panic: %v", e.doing, e.value)
}

// caught makes a panicError of a panic, and logs it with its stack. It has to be deferred itself.
func caught(doing string, log *slog.Logger, err *error) {
	if value := recover(); value != nil {
		*err = &panicError{doing, value}
		log.Error("a message could not be processed", "error", *err, "stack", string(debug.Stack()))
	}
}
