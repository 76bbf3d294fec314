package notify

// All SQL of this package. One text serves MySQL, MariaDB and SQLite.

const (
	tableTold     = "monitored_emails_told"
	tableChannels = "monitored_emails_channels"
)

const (
	sqlInboxes = `SELECT id FROM monitored_emails ORDER BY id`

	// Served by monitored_emails_tasks_ended, for each inbox, and the primary key of
	// monitored_emails_told. In SQLite times are text, and equal times may be different texts;
	// addEnding compares them as times.
	sqlEndings = `
SELECT t.id, t.status, t.finished_at, n.at AS told FROM monitored_emails_tasks t
LEFT JOIN monitored_emails_told n ON n.channel = ? AND n.kind = 'task' AND n.ref_id = t.id
WHERE t.inbox_id IN ? AND t.status IN ? AND (n.ref_id IS NULL OR n.at <> t.finished_at) ORDER BY t.id`

	// Served by monitored_emails_arrivals_inbox, and the primary key of monitored_emails_told.
	sqlBounced = `
SELECT a.task_id AS id, a.status, a.reported_at AS finished_at, n.at AS told FROM monitored_emails_arrivals a
LEFT JOIN monitored_emails_told n ON n.channel = ? AND n.kind = 'bounce' AND n.ref_id = a.task_id
WHERE a.inbox_id IN ? AND a.status = 'bounced' AND (n.ref_id IS NULL OR a.reported_at > n.at)
ORDER BY a.task_id, a.reported_at`

	// Reads the whole table; it has a row for each inbox only. If the last failures are of the
	// other kind, too few to begin an outage, the outage is as it began.
	sqlOutages = `
SELECT e.id, e.email_address, e.failed_scans, e.last_error,
  CASE WHEN e.login_needed = 1 OR e.outage_until IS NULL AND e.failing_since > e.outage_since
  THEN 1 ELSE 0 END AS login_needed,
  e.outage_since, e.outage_until, n.at AS told FROM monitored_emails e
LEFT JOIN monitored_emails_told n ON n.channel = ? AND n.kind = 'inbox' AND n.ref_id = e.id
WHERE e.is_active = 1 AND e.outage_since IS NOT NULL
  AND (n.ref_id IS NULL OR n.at <> COALESCE(e.outage_until, e.outage_since))
ORDER BY e.email_address`

	// Reads the whole table; it has a row for each recipient whose mail bounced too often.
	sqlRepeated = `
SELECT r.id, r.recipient, r.since, r.bounces, r.why, r.suspended, n.at AS told FROM suspended_recipients r
LEFT JOIN monitored_emails_told n ON n.channel = ? AND n.kind = 'recipient' AND n.ref_id = r.id
WHERE r.resumed_at IS NULL ORDER BY r.recipient`

	// Rows whose task, inbox or recipient no longer exists. Served by primary keys; the table holds
	// dead, uncertain and bounced tasks only.
	sqlForgetTasks = `DELETE FROM monitored_emails_told
WHERE kind IN ('task', 'bounce') AND NOT EXISTS (SELECT 1 FROM monitored_emails_tasks t WHERE t.id = ref_id)`
	sqlForgetInboxes = `DELETE FROM monitored_emails_told
WHERE kind = 'inbox' AND NOT EXISTS (SELECT 1 FROM monitored_emails e WHERE e.id = ref_id)`
	sqlForgetRecipients = `DELETE FROM monitored_emails_told
WHERE kind = 'recipient' AND NOT EXISTS (SELECT 1 FROM suspended_recipients r WHERE r.id = ref_id)`
)

// PRIMARY KEY (channel)
const (
	sqlChannel = `SELECT * FROM monitored_emails_channels WHERE channel = ?`
	sqlHold    = `UPDATE monitored_emails_channels SET holder = ?, held_at = ? WHERE channel = ?`
	sqlRenew   = `UPDATE monitored_emails_channels SET held_at = ? WHERE channel = ? AND holder = ?`
	sqlLetGo   = `UPDATE monitored_emails_channels SET holder = '' WHERE channel = ? AND holder = ?`
	sqlTold    = `
UPDATE monitored_emails_channels SET told_at = ?, failures = 0, last_error = '', holder = ''
WHERE channel = ? AND holder = ?`
	sqlFailed = `
UPDATE monitored_emails_channels SET failures = failures + 1, failed_at = ?, last_error = ?, holder = ''
WHERE channel = ? AND holder = ?`
)
