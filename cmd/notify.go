package cmd

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"postrider/internal/forward"
	"postrider/internal/notify"
)

// notifier tells what failed.
func (a *app) notifier(s *services, made *forward.Composer, relay *forward.Relay) *notify.Notifier {
	return &notify.Notifier{
		Config: s.notifyConfig(), Store: notify.NewStore(s.db), Tasks: s.queue, Composer: made, Relay: notify.Over(relay), Env: a.env, Log: s.log,
	}
}

// tell does that, and notes what it took of the provider's limits.
func (s *services) tell(ctx context.Context, n *notify.Notifier, relayUp bool) {
	n.Tell(ctx, relayUp)
	if err := s.quota.Flush(context.WithoutCancel(ctx)); err != nil {
		s.log.Warn("what counts against the limits of the relay's provider could not be noted; it counts for longer", "error", err)
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

// waitingNotices are what nobody could be told yet.
func (s *services) waitingNotices(ctx context.Context) ([]notify.Waiting, error) {
	return notify.NewStore(s.db).Waiting(ctx, s.notifyConfig())
}

func (a *app) printWaiting(all []notify.Waiting) error {
	for _, w := range all {
		line := fmt.Sprintf("notices: %d waiting for %s", w.Waiting, strings.TrimPrefix(w.Channel, "mail:"))
		if w.LastError != "" {
			line += "; the last try failed: " + shorten(w.LastError, 300)
		}
		if _, err := fmt.Fprintln(a.out, printable(line)); err != nil {
			return err
		}
	}
	return nil
}

// checkHook looks for the program.
func checkHook(hook []string) finding {
	path, err := exec.LookPath(hook[0])
	if err != nil {
		err = fmt.Errorf("%w; correct the key hook, or make the file executable", err)
	}
	return finding{what: "hook", text: path, err: err}
}
