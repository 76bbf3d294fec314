package cmd

import (
	"context"
	"os"
	"sync"

	"postrider/internal/said"
)

// heard is who gets what a process logs: a person at a terminal, cron or a journal, or nobody.
type heard struct {
	unwatched bool // no terminal shows it
	quiet     bool

	mu     sync.Mutex
	logged map[string]bool // by this process, when the database could not tell
}

// news reports whether to log a problem of this host that this process has met, and that keeps it
// from no work: each time on a terminal, and never with --quiet. Otherwise it is logged when it
// begins, and again after report.remind, whichever process meets it. Without the database each
// process logs it once.
func (s *services) news(ctx context.Context, problem string) bool {
	switch {
	case s.heard.quiet:
		return false
	case !s.heard.unwatched:
		return true
	}
	state := said.State{Subject: "host:" + s.host() + ":" + problem, Holds: true}
	changes, err := said.New(s.db, s.cfg.Report.Remind).Changes(ctx, []said.State{state})
	if err == nil {
		return len(changes) > 0
	}
	s.heard.mu.Lock()
	defer s.heard.mu.Unlock()
	before := s.heard.logged[problem]
	s.heard.logged[problem] = true
	return !before
}

// host is the name of this host for the others. A run skips inboxes that another run of its host
// has locked, and delivers for those that another host scans.
func (s *services) host() string {
	if s.cfg.Concurrency.Host != "" {
		return s.cfg.Concurrency.Host
	}
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}
