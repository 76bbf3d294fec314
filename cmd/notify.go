package cmd

import (
	"context"
	"fmt"

	"postrider/internal/forward"
	"postrider/internal/notify"
)

// notifier reports failures.
func (a *app) notifier(s *services, made *forward.Composer, relay *forward.Relay) *notify.Notifier {
	return &notify.Notifier{
		Config: s.notifyConfig(), Store: notify.NewStore(s.db), Tasks: s.queue, Composer: made, Relay: notify.Over(relay), Env: a.env, Log: s.log,
	}
}

// report does that, and records what it used of the provider's limits.
func (s *services) report(ctx context.Context, n *notify.Notifier, relayUp bool) {
	n.Notify(ctx, relayUp)
	if err := s.quota.Flush(context.WithoutCancel(ctx)); err != nil {
		s.log.Warn("could not record how much of smtp.limits was used; recipients count for longer than they should", "error", err)
	}
}

func (s *services) notifyConfig() notify.Config {
	c := notify.Config{
		To: s.cfg.Notify.To, Hook: s.cfg.Hook, AtMost: s.cfg.Notify.AtMost, Host: s.host(), Worker: s.worker(),
		Lease: s.cfg.Concurrency.Lease,
	}
	for _, on := range s.cfg.Notify.On {
		c.On = append(c.On, notify.Kind(on))
	}
	return c
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
