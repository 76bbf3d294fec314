package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"postrider/internal/demo"
)

func (a *app) demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Run a few passes with built-in servers; needs no configuration",
		Long: `demo starts an IMAP server with a few messages and an SMTP relay inside the
process, on loopback, and does real passes on a temporary SQLite file: one that
is killed half-way, one that takes over from it, one that sends what the relay
deferred, and one that has nothing left to do. It shows what arrived where, and
leaves nothing behind.

Exit codes:
  0   every message is accounted for, as promised
  1   a message is not accounted for, or the demo could not run`,
		Args: takesNone,
		RunE: func(c *cobra.Command, _ []string) error { return a.demo(c.Context()) },
	}
}

func (a *app) demo(ctx context.Context) error {
	// SIGHUP, too: a terminal that is closed must not leave files behind.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	withoutReader() // nor must `| head`
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, which the demo runs as a process of its own: %w", err)
	}
	var printed error
	out, err := demo.Run(ctx, demo.Options{
		Pass: func(ctx context.Context, config string) *exec.Cmd {
			return exec.CommandContext(ctx, self, "-c", config, "run", "--json")
		},
		Say: func(line string) {
			if _, err := fmt.Fprintln(a.out, line); err != nil {
				printed = cmp.Or(printed, err)
				stop()
			}
		},
	})
	if errors.Is(printed, syscall.EPIPE) {
		return fmt.Errorf("standard output was closed: %w", syscall.EPIPE)
	}
	if err = cmp.Or(printed, err); err != nil { // stop makes Run fail
		return err
	}
	return a.demoOutcome(out)
}

func (a *app) demoOutcome(out demo.Outcome) error {
	g := a.table("message", "state", "tries", "recipient", "reply", "copies")
	for _, r := range out.Rows {
		g.Add(r.Message, strings.ReplaceAll(string(r.Status), "_", " "), r.Attempts, r.Recipient, r.Reply, r.Copies)
	}
	a.printed(g.Print(a.out))
	a.print("%s\n", out.Verdict)
	if len(out.Faults) > 0 {
		return errors.New("not as promised:\n  " + strings.Join(out.Faults, "\n  "))
	}
	return nil
}
