package sqlqueue

import (
	"fmt"
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
	const (
		byID  = "SEARCH monitored_emails_tasks USING INTEGER PRIMARY KEY "
		ended = "USING COVERING INDEX " + tasksEnded
		ofIDs = "SEARCH monitored_emails_deliveries USING COVERING INDEX " + deliveriesKey + " (task_id=?)"
	)
	for _, c := range []struct {
		name, want, sql string
		args            []any
	}{
		{"search", byID + "(rowid>? AND rowid<?)", sqlCandidates, []any{1, 9, 5}},
		{"search among few", byID + "(rowid=?)", sqlCandidatesOf, []any{ids}},
		{"recipients", ofIDs, sqlRecipients, []any{ids}},
		{"few", ended + " (inbox_id=? AND status=?)", sqlFew, []any{ids, tasks.Statuses, 9}},
		{
			"history", ended + " (inbox_id=? AND status=? AND finished_at>? AND finished_at<?)",
			sqlHistory,
			[]any{ids, endings, now, now},
		},
		{"trail of an inbox", "USING INDEX monitored_emails_events_task (task_id=?)", sqlInboxEvents, []any{1, 9}},
	} {
		var plan []struct{ Detail string }
		err := d.View(t.Context(), func(tx *gorm.DB) error {
			return tx.Raw("EXPLAIN QUERY PLAN "+c.sql, c.args...).Scan(&plan).Error
		})
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

// TestTextsInSQL: the database compares texts, so that Go is handed few tasks of many.
func TestTextsInSQL(t *testing.T) {
	on(t, func(t *testing.T, r registry) {
		inboxID := r.inbox(t, "texts@example.com")
		page := tasks.Page{
			InboxID: inboxID, FolderID: r.folder(t, inboxID, "INBOX", 1), Epoch: 1, Entries: entries(1, 100),
		}
		for i := range page.Entries {
			id := &page.Entries[i].Identity
			id.Sender, id.MessageID = "Clerk <clerk@court.example>", fmt.Sprintf("<%d@court.example>", i)
			id.Subject = fmt.Sprintf("Hearing no-%d.", i)
		}
		page.Entries[0].Decision.Recipients = []string{"Ann@firm.example"}
		if _, err := New(r.DB).Register(t.Context(), page); err != nil {
			t.Fatal(err)
		}
		for _, f := range []tasks.Filter{
			{Sender: "court", Subject: "HEARING NO-7."},
			{MessageID: "<7@"},
			{Recipient: "aNN@"},
			{Recipient: "ann@", Limit: 5},
		} {
			sql, args := New(r.DB).portion(f, time.Now(), 0, 500)
			var rows []struct{ ID int64 }
			if r.query(t, &rows, sql, args...); len(rows) != 1 {
				t.Errorf("%+v: the database hands out %d tasks of 100, want 1", f, len(rows))
			}
		}
	}, "sqlite", "mariadb", "mysql")
}
