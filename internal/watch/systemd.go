package watch

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// Notify tells the service manager how things are, *Systemd.
type Notify interface {
	Send(state ...string)
	Reloading()
	Watchdog() time.Duration // how often the manager wants to hear that the process works; 0: never
}

// Systemd speaks the protocol of sd_notify(3) with the manager that started this process. Without
// one it does nothing. That the manager does not listen changes nothing.
type Systemd struct {
	socket   string
	watchdog time.Duration
}

// NewSystemd reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID.
func NewSystemd(env func(string) (string, bool), pid int) *Systemd {
	get := func(name string) string {
		value, _ := env(name)
		return value
	}
	s := &Systemd{socket: get("NOTIFY_SOCKET")}
	if strings.HasPrefix(s.socket, "@") { // the abstract namespace of Linux
		s.socket = "\x00" + s.socket[1:]
	}
	micros, err := strconv.ParseInt(get("WATCHDOG_USEC"), 10, 64)
	if whose := get("WATCHDOG_PID"); err == nil && micros > 0 && (whose == "" || whose == strconv.Itoa(pid)) {
		s.watchdog = time.Duration(micros) * time.Microsecond
	}
	return s
}

// Send sends assignments such as READY=1.
func (s *Systemd) Send(state ...string) {
	if s.socket == "" {
		return
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: s.socket, Net: "unixgram"})
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = conn.Write([]byte(strings.Join(state, "\n")))
}

// Reloading says that the configuration is being read again. READY=1 says that this is over.
func (s *Systemd) Reloading() {
	s.Send("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", monotonic().Microseconds()))
}

// Watchdog implements Notify.
func (s *Systemd) Watchdog() time.Duration { return s.watchdog }

// statusEvery is how often a status that has changed is sent.
const statusEvery = time.Second

// keepNotified sends the status when it changes, and the watchdog's sign of life, until stop is
// called. It needs the lock of the inboxes for that: a process that has locked itself up is
// restarted.
func (w *Watch) keepNotified(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.notify(ctx)
	}()
	return func() { cancel(); <-done }
}

func (w *Watch) notify(ctx context.Context) {
	status := time.NewTicker(statusEvery)
	defer status.Stop()
	var alive <-chan time.Time
	if every := w.cfg.Notify.Watchdog(); every > 0 {
		ticker := time.NewTicker(every / 2)
		defer ticker.Stop()
		alive = ticker.C
	}
	for last := ""; ; {
		select {
		case <-ctx.Done():
			return
		case <-status.C:
			if now := w.status(); now != last {
				w.cfg.Notify.Send(now)
				last = now
			}
		case <-alive:
			w.count()
			w.cfg.Notify.Send("WATCHDOG=1")
		}
	}
}
