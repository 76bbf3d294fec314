package cmd

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"postrider/internal/config"
	"postrider/internal/watch"
)

type watchOptions struct {
	listen  string
	timeout time.Duration
}

func (a *app) watchCommand() *cobra.Command {
	var opts watchOptions
	c := &cobra.Command{
		Use:   "watch [--listen ADDR] [--timeout D]",
		Short: "Stay up, and forward mail as soon as it arrives",
		Long: `watch stays up. It holds one connection to each active inbox and forwards what
arrives within a second, where the server offers IDLE; other servers, and other
folders than the INBOX, are asked every minute (watch.poll). Everything else is
as in ` + "`postrider run`" + `: both may run at the same time, on one host or on several.
One of them scans an inbox, and all of them forward what is due.

When a server, the relay or the database fails, watch stays up, logs it once,
and tries again with growing pauses. If the database cannot be reached when
watch starts, it exits with 1 at once; let systemd start it again
(Restart=always). The same holds when its SQLite file is replaced or moved.

It reads the configuration again on SIGHUP, within 4 seconds after the file
changes, and within a minute after contacts change (postrider contact). While
the new one has errors, the previous one stays in force. Inboxes that are added,
changed or disabled are noticed within 15 seconds. On SIGHUP, inboxes that fail
are tried again at once.

With --listen it also shows the status page, as ` + "`postrider serve`" + ` does.

SIGTERM, SIGINT and --timeout end it cleanly: messages in flight are finished,
the rest waits for the next start. A second signal ends it at once: no message
is lost, but one that is being sent may arrive twice. Under systemd use
Type=notify; the watchdog is served.

Examples:
  postrider watch                # until Ctrl-C
  postrider watch -v             # log each login and each message
  postrider watch --listen 127.0.0.1:8420
  systemctl reload postrider-watch     # read the configuration again
` + exitHelp,
		Args: takesNone,
		RunE: func(c *cobra.Command, _ []string) error { return a.watch(c.Context(), opts) },
	}
	c.Flags().StringVar(&opts.listen, "listen", "", "show the status page, too, at `ADDR`, host:port")
	c.Flags().DurationVar(&opts.timeout, "timeout", 0, "end cleanly after the duration `D`, such as 10m")
	return c
}

func (a *app) watch(ctx context.Context, opts watchOptions) error {
	if opts.timeout < 0 {
		return usage(errors.New("--timeout is negative"))
	}
	withoutReader()
	ctx, stop := untilSignal(ctx)
	defer stop()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // without this, a SIGHUP during the start would end the process
	defer signal.Stop(hangups)
	if opts.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, opts.timeout)
		defer cancel()
	}
	log := a.logger()
	path, err := config.Find(a.config, a.env)
	if err != nil {
		return usage(err)
	}
	var replaced error // the database file
	l := &watchLoader{app: a, log: log, end: func(why error) {
		replaced = why
		stop()
	}}
	if opts.listen != "" {
		if l.page, err = a.openLivePage(ctx, opts.listen); err != nil {
			return err
		}
		defer l.page.close()
	}
	first, err := l.load(ctx)
	if err != nil {
		return beforeItBegan(ctx, err)
	}
	w := watch.New(watch.Config{
		Load: l.load, Files: func() string { return fileState(path) }, Random: mathrand.Float64,
		Notify: watch.NewSystemd(a.env, os.Getpid()), Log: log,
	}, first)
	defer a.garbage(garbageOfWatch)()
	defer reloadOn(hangups, w)()
	if l.page != nil {
		defer l.page.serve(ctx, log)()
	}
	if isTerminal(a.err) {
		if l.page != nil {
			_, _ = fmt.Fprintln(a.err, "The status page is at", pageURL(l.page.access, l.page.listener))
		}
		_, _ = fmt.Fprintln(a.err, "Watching; Ctrl-C ends it.")
	}
	switch clean := w.Run(ctx); {
	case replaced != nil:
		return replaced
	case !clean:
		return errRetry
	}
	return nil
}

// How much garbage there may be before it is collected, in percent of the memory in use. A pass
// holds little and ends soon. What watch holds are mostly sessions that wait.
const (
	garbageOfRun   = 150
	garbageOfWatch = 30
)

// garbage sets how much garbage there may be, unless GOGC says so, until restore is called.
func (a *app) garbage(percent int) (restore func()) {
	if _, set := a.env("GOGC"); set {
		return func() {}
	}
	before := debug.SetGCPercent(percent)
	return func() { debug.SetGCPercent(before) }
}

// reloadOn has the configuration read again on each signal, until stop is called.
func reloadOn(hangups <-chan os.Signal, w *watch.Watch) (stop func()) {
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-hangups:
				w.Reload()
			case <-done:
				return
			}
		}
	}()
	return func() { close(done) }
}

// fileState differs when the file does.
func fileState(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(info.Size(), info.ModTime().UnixNano(), info.Mode())
}
