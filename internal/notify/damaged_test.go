package notify

import (
	"context"
	"errors"
	"strings"
	"testing"

	"postrider/internal/db"
	"postrider/internal/tasks"
)

// TestUnreadable checks that a task that cannot be read is listed, too.
func TestUnreadable(t *testing.T) {
	b := newBench(t, config(t, "sqlite"))
	b.dies("one")
	b.dies("two")
	b.exec(`UPDATE monitored_emails_deliveries SET attempts = 'odd' WHERE task_id = 1`)
	b.wantSent("one of two", "postrider: 2 messages are dead")
	if len(b.relay.sent) == 0 {
		t.FailNow()
	}
	text := body(t, b.relay.sent[0].raw)
	for _, want := range []string{
		"\nTask 1 has been dead since ", " UTC\n  reason:   it cannot be read: ", "\"odd\"", "postrider task show 1\n",
		"\nTask 2 has been dead since ", "subject:  two\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the digest is\n%s\nwant %q in it", text, want)
		}
	}
	b.later()
	b.wantSent("once more")
}

// TestUnavailable checks that nothing goes out while the database cannot be read: a notice without
// its details would count as sent.
func TestUnavailable(t *testing.T) {
	b := newBench(t, config(t, "sqlite"))
	b.dies("one")
	stored := b.Tasks
	b.Tasks = awayTasks{}
	b.wantSent("the database is away")
	if !strings.Contains(b.logs.String(), "read task 1 for a failure notice: ") {
		t.Errorf("the log is %q, want which task could not be read", b.logs)
	}
	b.Tasks = stored
	b.later()
	b.wantSent("it is back", oneDead)
}

// awayTasks are tasks in a database that is away.
type awayTasks struct{}

func (awayTasks) Get(context.Context, int64) (tasks.Task, error) {
	return tasks.Task{}, &db.UnavailableError{Err: errors.New("connection refused")}
}

// TestDamaged checks that invalid values in the database are logged with their row, and that
// everything else is reported.
func TestDamaged(t *testing.T) {
	for _, tt := range []struct{ name, sql, sent, logged string }{
		{
			"no time", `UPDATE monitored_emails_tasks SET finished_at = 'gone' WHERE id = 1`,
			oneDead + ", 1 inbox is unreachable",
			`task 1 cannot be reported: ` +
				`finished_at of its row in the table monitored_emails_tasks is \"gone\", not a time`,
		},
		{
			"an empty time", `UPDATE monitored_emails_tasks SET finished_at = NULL WHERE id = 1`,
			oneDead + ", 1 inbox is unreachable", "is NULL, not a time",
		},
		{
			"a time as SQLite writes it",
			`UPDATE monitored_emails_tasks SET finished_at = datetime('now') WHERE id = 1`,
			"postrider: 2 messages are dead, 1 inbox is unreachable", "",
		},
		{
			"a time of another zone",
			`UPDATE monitored_emails_tasks SET finished_at = '2026-11-20 11:00:00+01:00' WHERE id = 1`,
			"postrider: 2 messages are dead, 1 inbox is unreachable", "",
		},
		{
			"an outage with a T",
			`UPDATE monitored_emails SET outage_since = '2026-11-20T10:00:00Z', failing_since = '2026-11-20 10:00:00'`,
			"postrider: 2 messages are dead, 1 inbox is unreachable", "",
		},
		{
			"an outage since never", `UPDATE monitored_emails SET outage_since = 'gone'`,
			"postrider: 2 messages are dead",
			`inbox desk@firm.example cannot be reported: ` +
				`in its row in the table monitored_emails outage_since is \"gone\"`,
		},
		{
			"an outage until never", `UPDATE monitored_emails SET outage_until = 'gone'`,
			"postrider: 2 messages are dead", `outage_until \"gone\"`,
		},
		{
			"less than no scans", `UPDATE monitored_emails SET failed_scans = -7`, "postrider: 2 messages are dead",
			"failed_scans -7",
		},
		{
			"a text for a number", `UPDATE monitored_emails SET failed_scans = 'many'`, "",
			"in the table monitored_emails: ",
		},
		{
			"a delivery with an unknown status", `UPDATE monitored_emails_deliveries SET status = 'odd'`,
			"postrider: 2 messages are dead, 1 inbox is unreachable", "",
		},
		{
			"a holder from the future",
			`INSERT INTO monitored_emails_channels (channel, told_at, failures, failed_at, last_error, holder, held_at)
			VALUES ('mail:ops@firm.example', 9000000000000000000, 9000000000000000000, 9000000000000000000,
				'', 'odd', 9000000000000000000)`,
			"postrider: 2 messages are dead, 1 inbox is unreachable", "",
		},
		{
			"less than no failures",
			`INSERT INTO monitored_emails_channels (channel, told_at, failures, failed_at, last_error, holder, held_at)
			VALUES ('mail:ops@firm.example', -9000000000000000000, -9000000000000000000, 0,
				'', 'odd', -9000000000000000000)`,
			"postrider: 2 messages are dead, 1 inbox is unreachable", "",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, config(t, "sqlite"))
			b.Config.AtMost = 0
			b.dies("one")
			b.dies("two")
			for range 3 {
				b.scan("no")
			}
			b.exec(tt.sql)
			var want []string
			if tt.sent != "" {
				want = append(want, tt.sent)
			}
			b.wantSent(tt.name, want...)
			if !strings.Contains(b.logs.String(), tt.logged) ||
				strings.Contains(b.logs.String(), "WARN") != (tt.logged != "") {
				t.Errorf("the log is\n%s\nwant %q", b.logs, tt.logged)
			}
			b.wantSent("once more")
		})
	}
}
