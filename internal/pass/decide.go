package pass

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/dustin/go-humanize"

	"postrider/internal/forward"
	"postrider/internal/route"
	"postrider/internal/tasks"
)

// errInterrupted says that ctx ended before a decision was made.
var errInterrupted = errors.New("interrupted while a message was examined")

// unreadError says that the content of a message could not be read from its spool. When the message
// is fetched again, it may be possible to decide.
type unreadError struct{ err error }

func (e *unreadError) Error() string { return "read the message to decide on it: " + e.err.Error() }

func (e *unreadError) Unwrap() error { return e.err }

// ofMessage reports whether an error of decide concerns only that message: an attempt of its task
// is counted.
func ofMessage(err error) bool {
	return errors.As(err, new(*panicError)) || errors.As(err, new(*unreadError))
}

// decide makes the decision on a message whose content is at hand. Its error is an errInterrupted,
// a panicError, an unreadError, or that a report could not be recorded.
func (p *Pass) decide(
	ctx context.Context, m route.Mail, revision string, log *slog.Logger,
) (_ *tasks.Decision, err error) {
	defer caught("decide on the message", log, &err)
	report, err := p.report(ctx, m, log)
	if err != nil {
		return nil, err
	}
	if report != nil {
		report.Revision = revision
		return report, nil
	}
	d, by := byRoutes(ctx, p.Routes, m, p.Config.MaxReceived)
	if ctx.Err() != nil { // what was not examined may have decided otherwise
		return nil, fmt.Errorf("%w: %w", errInterrupted, ctx.Err())
	}
	if by.Err != nil {
		return nil, &unreadError{by.Err}
	}
	if len(by.Problems) > 0 { // without their text, which quotes the message
		log.Warn("a route could not use what it captured, names a contact without an email address, " +
			"or could not look for all contacts; `route test` and `task show` say which")
	}
	d.Revision = revision
	return &d, nil
}

// byRoutes says who gets a message, unless it is in a loop. The decision has no revision, and must
// not be used when ctx has ended.
func byRoutes(ctx context.Context, table *route.Table, m route.Mail, maxReceived int) (tasks.Decision, route.Decision) {
	by := table.Decide(ctx, m)
	if why, looped := forward.Looped(m.Message.Header, m.Inbox, maxReceived); looped {
		return tasks.Decision{Skip: tasks.SkipLoop, Reason: why}, by
	}
	d := tasks.Decision{Route: by.Route, Recipients: by.To, Reason: by.Reason, Notes: notesOf(by), Keep: keep(by)}
	if by.Priority == route.High {
		d.Priority = tasks.High
	}
	switch {
	case by.Loop:
		d.Skip = tasks.SkipLoop
	case by.Skip:
		d.Skip = tasks.SkipByRoute
	case len(by.To) == 0:
		d.Route = ""
	}
	return d, by
}

// keep says why the message must stay on its server.
func keep(d route.Decision) tasks.KeepReason {
	switch {
	case d.Unsure:
		return tasks.KeepUndecided
	case d.Unreached:
		return tasks.KeepUnreached
	case d.LeftOut != "":
		return tasks.KeepOwnCopy
	}
	return ""
}

func notesOf(d route.Decision) (notes []tasks.Note) {
	if len(d.To) == 0 {
		return nil // the reason says it
	}
	if left := d.Note(); left != "" {
		notes = append(notes, tasks.Note{Event: "left_out", Detail: left})
	}
	if len(d.Problems) > 0 {
		notes = append(notes, tasks.Note{Event: "not_used", Detail: strings.Join(d.Problems, "; ")})
	}
	if len(d.Doubts) > 0 {
		notes = append(notes, tasks.Note{Event: "undecided", Detail: strings.Join(d.Doubts, "; ")})
	}
	return notes
}

func tooLarge(size, limit int64) string {
	is, most := humanize.IBytes(uint64(size)), humanize.IBytes(uint64(limit))
	if is == most {
		is, most = fmt.Sprintf("%d octets", size), fmt.Sprint(limit)
	}
	return fmt.Sprintf("too_large: %s, forward.max_size is %s", is, most)
}
