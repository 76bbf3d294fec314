package cmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"postrider/internal/config"
	"postrider/internal/db"
	"postrider/internal/health"
	"postrider/internal/inbox"
)

// runBroken is a pass with a configuration that cannot be read.
func (a *app) runBroken(ctx context.Context, opts runOptions, broken error) error {
	if opts.dryRun {
		return broken
	}
	s, boxes, err := a.begun(ctx, opts)
	if err != nil {
		return errors.Join(broken, fmt.Errorf("postrider: new messages are not registered meanwhile either: %w", err))
	}
	if s == nil {
		return broken
	}
	defer s.close()
	return a.registerOnly(ctx, s, boxes, opts, broken)
}

// registerOnly is a pass over inboxes that were worked on before, with a configuration that an edit broke: what is new is registered, so that
// it is known even if it is expunged before somebody mends that. The exit code is the same as if nothing had been touched.
func (a *app) registerOnly(ctx context.Context, s *services, boxes []inbox.Inbox, opts runOptions, broken error) error {
	boxes = slices.DeleteFunc(boxes, func(in inbox.Inbox) bool { return !in.Begun() })
	if len(boxes) == 0 || opts.dryRun || exitCode(broken) != exitUsage {
		return broken
	}
	watch := a.observer("registering", opts)
	p, err := s.registering(watch)
	if err != nil {
		return broken
	}
	_, _ = fmt.Fprintln(a.err, errorText(broken)) // where nobody can be told, there is all the more reason to register
	report := passReport{Report: p.Register(ctx, boxes), Alerts: []health.Alert{}}
	_, _ = fmt.Fprintf(a.err, "postrider: until that is mended, new messages are only registered (%d now), and nothing goes out\n", report.Totals.Registered)
	if err := errors.Join(watch.close(), a.printReport(report, opts)); err != nil {
		return err
	}
	return &exitError{code: exitUsage} // it has been told
}

// begun opens the database that there is, for what can be registered by; nil when there is none, or when nothing can.
func (a *app) begun(ctx context.Context, opts runOptions) (_ *services, boxes []inbox.Inbox, err error) {
	log, err := a.logger()
	if err != nil {
		return nil, nil, err
	}
	path, err := config.Find(a.config, a.env)
	if err != nil {
		return nil, nil, nil
	}
	cfg := config.Registering(path, a.env, a.envNames...)
	if cfg == nil {
		return nil, nil, errors.New("database, secrets, imap, concurrency, dedupe, forward.max_size and forward.too_large have to be sound for that, in a file that is whole, and cannot all be made out")
	}
	d, err := db.OpenCurrent(ctx, dbConfig(cfg))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	s := newServices(cfg, log, d)
	boxes, err = s.inboxes.Active(ctx, opts.inboxes)
	if err != nil {
		s.close()
		return nil, nil, err
	}
	return s, boxes, nil
}
