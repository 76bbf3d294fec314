package pass

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"postrider/internal/message"
	"postrider/internal/route"
	"postrider/internal/tasks"
)

// Bounces reads the messages of one inbox as reports, *arrivals.Book.
type Bounces interface {
	// Of reports whether an inbox is that inbox.
	Of(inbox string) bool
	// Read returns what a message says, and false for one that is no report. Unless dry is set, it
	// records that. Doing it twice changes nothing.
	Read(ctx context.Context, m *message.Message, dry bool) (says string, ok bool, err error)
	// Review suspends those whose mail bounced too often. Doing it twice changes nothing.
	Review(ctx context.Context) error
	// Suspended says why nothing is sent to a recipient; empty for most.
	Suspended(ctx context.Context, recipient string) (why string, err error)
}

// report is the decision on a message that is read as a report; nil for every other. A message that
// is too large is not read, because only its header is there.
func (p *Pass) report(ctx context.Context, m route.Mail, log *slog.Logger) (*tasks.Decision, error) {
	if p.Bounces == nil || !p.Bounces.Of(m.Inbox) || m.Message.HeaderOnly {
		return nil, nil
	}
	says, ok, err := p.Bounces.Read(ctx, m.Message, p.Config.DryRun)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("%w: %w", errInterrupted, ctx.Err())
	case err != nil:
		return nil, fmt.Errorf("read a report: %w", err)
	case !ok:
		log.Info("a message in the bounce inbox is not a report; the routes decide who gets it")
		return nil, nil
	}
	return &tasks.Decision{Skip: tasks.SkipReport, Reason: says}, nil
}

// reads reports whether the messages of the inbox are read as reports, and what they say recorded.
func (s *scanner) reads() bool {
	return s.pass.Bounces != nil && !s.pass.Config.DryRun && s.pass.Bounces.Of(s.in.Address)
}

// review looks for recipients whose mail bounces too often, after the bounce inbox was scanned.
func (s *scanner) review(ctx context.Context) error {
	if !s.reads() || ctx.Err() != nil {
		return nil
	}
	return s.pass.Bounces.Review(ctx)
}

// withhold fails the deliveries to recipients that are suspended. One that may have the message
// already is left as it is.
func (p *Pass) withhold(ctx context.Context, ds []tasks.Delivery) ([]tasks.Delivery, error) {
	if p.Bounces == nil {
		return ds, nil
	}
	ds = slices.Clone(ds)
	for i := range ds {
		to := &ds[i]
		if !to.ToSend() {
			continue
		}
		why, err := p.Bounces.Suspended(context.WithoutCancel(ctx), to.Recipient)
		switch {
		case err != nil:
			return nil, fmt.Errorf("look up whether %s is suspended: %w", to.Recipient, err)
		case why != "":
			to.Status, to.Code, to.Reply = tasks.Failed, 0, why
		}
	}
	return ds, nil
}
