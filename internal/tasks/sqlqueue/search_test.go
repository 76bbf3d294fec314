package sqlqueue

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/tasks"
)

// TestSearchPlans: SQLite reads a range of an index, and sorts nothing.
func TestSearchPlans(t *testing.T) {
	d, err := db.Open(t.Context(), db.Config{Driver: db.SQLite, Path: filepath.Join(t.TempDir(), "p.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	now, ids := time.Now().UTC(), []int64{1, 2}
	for _, c := range []struct {
		name, want, sql string
		args            []any
	}{
		{"search", "SEARCH monitored_emails_tasks USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)", sqlCandidates, []any{1, 9, 5}},
		{"search among few", "SEARCH monitored_emails_tasks USING INTEGER PRIMARY KEY (rowid=?)", sqlCandidatesOf, []any{ids}},
		{"recipients", "SEARCH monitored_emails_deliveries USING COVERING INDEX sqlite_autoindex_monitored_emails_deliveries_1 (task_id=?)", sqlRecipients, []any{ids}},
		{"few", "USING COVERING INDEX monitored_emails_tasks_ended (inbox_id=? AND status=?)", sqlFew, []any{ids, tasks.Statuses, 9}},
		{"history", "USING COVERING INDEX monitored_emails_tasks_ended (inbox_id=? AND status=? AND finished_at>? AND finished_at<?)", sqlHistory, []any{ids, endings, now, now}},
		{"trail of an inbox", "USING INDEX monitored_emails_events_task (task_id=?)", sqlInboxEvents, []any{1, 9}},
	} {
		var plan []struct{ Detail string }
		err := d.View(t.Context(), func(tx *gorm.DB) error { return tx.Raw("EXPLAIN QUERY PLAN "+c.sql, c.args...).Scan(&plan).Error })
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var got []string
		for _, step := range plan {
			got = append(got, step.Detail)
		}
		all := strings.Join(got, "\n")
		if !strings.Contains(all, c.want) || strings.Contains(all, "SCAN") || strings.Contains(all, "FOR ORDER BY") {
			t.Errorf("%s: the plan is\n%s\nwant %s, and nothing sorted or read whole", c.name, all, c.want)
		}
	}
}
