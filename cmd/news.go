package cmd

import (
	"context"
	"os"
	"sync"

	"postrider/internal/said"
)

// heard says who reads the log of this process: a person at a terminal, cron or the journal, or no
// one.
type heard struct {
	unwatched bool // no terminal shows it
	quiet     bool

	mu     sync.Mutex
	logged map[string]bool // by this process, while the database could not be used
}

// news reports whether to log a problem of this host that stops no mail. On a terminal it is logged
// each time, with --quiet never. Otherwise all processes together log it when it begins, and again
// after each report.remind. If the database cannot be used, each process logs it once.
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

// host is the name by which other hosts know this one. A run skips inboxes that another run of its
// host has locked, and delivers for those that another host scans.
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
