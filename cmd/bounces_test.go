package cmd

import (
	"testing"

	"postrider/internal/config"
	"postrider/internal/pass"
)

// TestWithBounces: the row of a bounce inbox that is not read is in its place by address.
func TestWithBounces(t *testing.T) {
	s := &services{cfg: &config.Config{Bounces: config.Bounces{Inbox: "bounces@firm.example"}}}
	rows := []pass.InboxReport{{Email: "ann@firm.example"}, {Email: "desk@firm.example"}}
	rows = s.withBounces(t.Context(), rows, nil, true)
	if len(rows) != 3 || rows[1].Email != "bounces@firm.example" || rows[1].Error == "" {
		t.Errorf("the rows are %+v, want that of the bounce inbox second, with an error", rows)
	}
}
