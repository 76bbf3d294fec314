package cmd

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"postrider/internal/inbox"
)

// TestAlertsThatCannotBeTold: the database goes away behind a pass. It is an error with the exit
// code of something to look at, and there is a list of alerts to print all the same.
func TestAlertsThatCannotBeTold(t *testing.T) {
	file := filepath.Join(t.TempDir(), "postrider.yaml")
	if err := os.WriteFile(file, []byte(scriptConfig+"alerts: {dead: 0}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := &app{out: &bytes.Buffer{}, err: &bytes.Buffer{}, config: file, logFormat: "text", env: noEnv}
	s, err := a.openBy(t.Context(), openNew)
	if err != nil {
		t.Fatal(err)
	}
	s.close()
	alerts, err := s.alertsAfter(t.Context(), inbox.Selection{})
	if alerts == nil || len(alerts) > 0 || exitCode(err) != exitRetry ||
		!strings.Contains(errorText(err), "the pass is over, but ") {
		t.Errorf("alerts are %v, error %v with exit code %d; want none, "+
			"and an error with %d that says what was being done", alerts, err, exitCode(err), exitRetry)
	}
	s.cfg.Alerts.Dead = nil
	if alerts, err := s.alertsAfter(t.Context(), inbox.Selection{}); alerts == nil || err != nil {
		t.Errorf("without thresholds alerts are %v, error %v; want that nothing is asked for", alerts, err)
	}
}
