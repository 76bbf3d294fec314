package cmd

import (
	"context"
	"fmt"
	"time"

	"postrider/internal/forward"
	"postrider/internal/notify"
)

// notifier reports failures.
func (a *app) notifier(s *services, made *forward.Composer, relay *forward.Relay) *notify.Notifier {
	return &notify.Notifier{
		Config: s.notifyConfig(), Store: notify.NewStore(s.db), Tasks: s.queue, Composer: made, Env: a.env, Log: s.log,
		Begin: func(ctx context.Context, env forward.Envelope, c *forward.Content) (notify.Transaction, error) {
			return relay.Begin(ctx, env, c)
		},
	}
}

// report does that, and records what it used of the provider's limits.
func (s *services) report(ctx context.Context, n *notify.Notifier, relayUp bool) {
	n.Notify(ctx, relayUp)
	s.keepQuota(ctx)
}

// reportFirst sends the mails before a pass, and reports whether nothing failed. Else endless mail
// would use up the provider's limits before each notice.
func (s *services) reportFirst(ctx context.Context, n *notify.Notifier) (ok bool) {
	if !s.quota.Limited() {
		return true
	}
	defer s.keepQuota(ctx)
	return n.Mail(ctx)
}

// noticeTime is how long notices may take after --timeout.
const noticeTime = 10 * time.Second

// reportLast is report at the end of a pass.
func (s *services) reportLast(ctx, signalled context.Context, n *notify.Notifier, relayUp bool) {
	ctx, cancel := beyond(ctx, signalled)
	defer cancel()
	s.report(ctx, n, relayUp)
}

// beyond lasts longer than the --timeout of ctx by noticeTime, so that passes that always use it up
// report, too. Without --timeout only a signal ends it.
func beyond(ctx, signalled context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return signalled, func() {}
	}
	if now := time.Now(); end.Before(now) {
		end = now
	}
	return context.WithDeadline(signalled, end.Add(noticeTime))
}

func (s *services) keepQuota(ctx context.Context) {
	if err := s.quota.Flush(context.WithoutCancel(ctx)); err != nil {
		s.log.Warn("could not record how much of smtp.limits was used; recipients count for longer than they should",
			"error", err)
	}
}

func (s *services) notifyConfig() notify.Config {
	return notify.Config{
		To: s.cfg.Notify.To, On: s.cfg.Notify.On, AtMost: s.cfg.Notify.AtMost, Hook: s.cfg.Hook,
		Host: s.host(), Worker: s.worker(), Lease: s.cfg.Concurrency.Lease,
	}
}

// waitingNotices are the failures not reported yet.
func (s *services) waitingNotices(ctx context.Context) ([]notify.Waiting, error) {
	return notify.NewStore(s.db).Waiting(ctx, s.notifyConfig())
}

// checkHook looks for the program.
func checkHook(hook []string) finding {
	path, err := notify.Program(hook[0])
	if err != nil {
		err = fmt.Errorf("%s %w", hook[0], err)
	}
	return finding{what: "hook", text: path, err: err}
}
