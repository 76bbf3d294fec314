package cmd

import (
	"context"
	"fmt"
	"time"

	"postrider/internal/said"
)

// watched reports whether somebody sees what a pass prints: on a terminal, or of a dry run. Cron
// mails it otherwise.
func (a *app) watched(opts runOptions) bool { return opts.dryRun || isTerminal(a.err) }

// sayChanges prints what has changed since earlier passes, when no terminal shows this one.
func (a *app) sayChanges(ctx context.Context, s *services, r passReport, opts runOptions) error {
	if opts.quiet || a.watched(opts) {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	short, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	lines, err := said.New(s.db, s.cfg.Report.Remind).AfterPass(short, r.Report, r.Alerts, opts.chosen.Empty())
	if err != nil {
		s.log.Warn("could not look up or record which failures were reported; some may be reported again", "error", err)
	}
	for _, l := range lines {
		if err := a.sayLine(ctx, s, l); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) printTroubles(sentences []string) {
	for _, s := range sentences {
		_, err := fmt.Fprintln(a.err, s)
		a.printed(err)
	}
}

func (a *app) sayLine(ctx context.Context, s *services, l said.Line) error {
	var about []any
	switch len(l.Inboxes) {
	case 0:
	case 1:
		about = append(about, "inbox", l.Who())
	default:
		about = append(about, "inboxes", l.Who())
	}
	switch {
	case l.NoInbox:
		return s.warnNoInbox(ctx)
	case l.Failure != "":
		s.log.Error(l.Failure, append(about, "error", l.Error)...)
	case l.Good != "":
		s.log.Warn(l.Good, about...)
	default:
		a.printTroubles([]string{l.Sentence})
	}
	return nil
}

// warnNoInbox says that a pass has nothing to do, and how to change that.
func (s *services) warnNoInbox(ctx context.Context) error {
	all, err := s.inboxes.List(ctx)
	if err != nil {
		return err
	}
	s.log.Warn("there is no active inbox; " + activate(len(all)))
	return nil
}
