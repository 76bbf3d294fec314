package cmd

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"postrider/internal/config"
	"postrider/internal/db"
)

// TestNews: a problem that lasts is logged once by all processes of a host, unless a terminal shows
// it, and once by each process that cannot ask the database.
func TestNews(t *testing.T) {
	d, err := db.Open(t.Context(), db.Config{Driver: db.SQLite, Path: filepath.Join(t.TempDir(), "p.db")})
	if err != nil {
		t.Fatal(err)
	}
	process := func(unwatched, quiet bool) *services {
		cfg := new(config.Config)
		cfg.Report.Remind = time.Hour
		s := newServices(cfg, slog.New(slog.DiscardHandler), d)
		s.heard.unwatched, s.heard.quiet = unwatched, quiet
		return s
	}
	want := func(s *services, problem string, want bool) {
		t.Helper()
		if got := s.news(t.Context(), problem); got != want {
			t.Errorf("%s is news: %t, want %t", problem, got, want)
		}
	}
	one, other := process(true, false), process(true, false)
	want(process(true, true), "textfile", false)
	want(process(false, false), "textfile", true)
	want(one, "textfile", true)
	want(other, "textfile", false)
	want(one, "textfile", false)
	want(process(false, false), "textfile", true)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*services{one, other} {
		want(s, "measures", true)
		want(s, "measures", false)
		want(s, "textfile", true)
	}
}
