package cmd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"postrider/internal/address"
	"postrider/internal/arrivals"
	"postrider/internal/config"
	"postrider/internal/forward"
	"postrider/internal/inbox"
	"postrider/internal/pass"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

// bounces returns the reader of reports for a registry; nil if bounces.inbox is not set.
func (s *services) bounces(queue tasks.Queue) pass.Bounces {
	b := s.cfg.Bounces
	if b.Inbox == "" {
		return nil
	}
	return arrivals.New(arrivals.Config{
		Inbox: b.Inbox, Signer: s.cfg.Signer, MaxAge: b.MaxAge, Worker: s.worker(),
		After: b.SuspendAfter, Within: b.SuspendWithin, Suspend: b.Suspend,
	}, queue, arrivals.NewStore(s.db), s.log, time.Now)
}

// bounceInbox says why the bounce inbox is not among those that a run works on; nil if it is, or if
// there is none.
func bounceInbox(cfg *config.Config, active []inbox.Inbox) error {
	want := cfg.Bounces.Inbox
	if want == "" || slices.ContainsFunc(active, func(in inbox.Inbox) bool { return address.Same(in.Address, want) }) {
		return nil
	}
	return fmt.Errorf("there is no active inbox %s, so bounces are not read (bounces.inbox): "+
		"`postrider inbox add %[2]s`, or `postrider inbox enable %[2]s`", want, text.Arg(want))
}

// withBounces adds a row for a bounce inbox that was removed or disabled, in order of addresses. A
// run prints it like that of an inbox that cannot be read. There is no failure notice: such an
// inbox has no scans that fail.
func (s *services) withBounces(
	ctx context.Context, rows []pass.InboxReport, active []inbox.Inbox, quiet bool,
) []pass.InboxReport {
	err := bounceInbox(s.cfg, active)
	if err == nil {
		return rows
	}
	if !quiet { // else the printed rows say it
		s.log.ErrorContext(ctx, "bounces are not read", "inbox", s.cfg.Bounces.Inbox, "error", err)
	}
	row := pass.InboxReport{Email: s.cfg.Bounces.Inbox, Error: text.Error(err)}
	byEmail := func(r pass.InboxReport, email string) int { return strings.Compare(r.Email, email) }
	i, _ := slices.BinarySearchFunc(rows, row.Email, byEmail)
	return slices.Insert(rows, i, row)
}

// checkBounces checks that the bounce inbox is active. The checks of the relay and of the inboxes
// do the rest.
func (s *services) checkBounces(ctx context.Context) finding {
	b := s.cfg.Bounces
	f := finding{what: "bounces", text: "messages of the inbox " + b.Inbox + " are read as reports"}
	if b.Address == "" {
		f.text += ", and matched by Message-ID and recipient"
	}
	active, err := s.inboxes.Active(ctx)
	if err == nil {
		err = bounceInbox(s.cfg, active)
	}
	f.err = err
	return f
}

// noDSN returns a note if bounces.confirm has no effect, because the relay does not offer DSN.
func noDSN(cfg *config.Config, info forward.Info) []finding {
	if !cfg.Bounces.Confirm || info.DSN {
		return nil
	}
	return []finding{{
		what: "relay", note: true,
		text: "it does not offer DSN (RFC 3461): bounces.confirm has no effect; only bounces come",
	}}
}
