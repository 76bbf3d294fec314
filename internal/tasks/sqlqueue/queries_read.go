package sqlqueue

import "strings"

// Retention, in portions. monitored_emails_tasks_ended has the oldest tasks of an inbox first, the
// primary key the oldest events.
const (
	sqlExpired = `
SELECT id FROM monitored_emails_tasks
WHERE inbox_id IN ? AND status = 'forwarded' AND finished_at < ? ORDER BY inbox_id, status, finished_at LIMIT ?`

	// By primary key, as there is no index by time alone: lines are written in the order of their
	// ids, or nearly so. It skips those that were written while the clock was ahead.
	sqlExpiredEvents = `
SELECT id FROM (SELECT id, at FROM monitored_emails_events WHERE at <= ? ORDER BY id LIMIT ?) oldest WHERE at < ?`

	sqlDeleteEvents = `DELETE FROM monitored_emails_events WHERE id IN ?`
)

// Headers for events, by PRIMARY KEY (task_id). Old ones are found by
// monitored_emails_headers_created (created_at): a task ends after it was registered. Occurrences
// are few. They have no index by task, because each of them would change it twice.
const (
	sqlHeaders = `SELECT task_id, header FROM monitored_emails_headers WHERE task_id IN ?`

	sqlOldHeaders = `
SELECT h.task_id FROM monitored_emails_headers h JOIN monitored_emails_tasks t ON t.id = h.task_id
WHERE h.created_at < ? AND t.finished_at < ?
  AND h.task_id NOT IN (SELECT task_id FROM monitored_occurrences)
ORDER BY h.created_at LIMIT ?`

	sqlDeleteHeaders = `DELETE FROM monitored_emails_headers WHERE task_id IN ?`
)

// sqlTasks has no WHERE yet. The joins are LEFT: with inner joins MariaDB starts at the folder and
// sorts all of its tasks for each portion. With another column of the inbox than its address, MySQL
// sorts, too.
var sqlTasks = "SELECT t.id, t." + strings.ReplaceAll(taskColumns, ", ", ", t.") +
	`, COALESCE(e.email_address, ''), COALESCE(f.name, ''),
	EXISTS (SELECT 1 FROM monitored_emails o WHERE o.id = t.inbox_id AND o.is_active = 0)
FROM monitored_emails_tasks t
LEFT JOIN monitored_emails e ON e.id = t.inbox_id
LEFT JOIN monitored_folders f ON f.id = t.folder_id`

// Reading.
const (
	// By monitored_emails_events_task.
	sqlTrails = `SELECT task_id, at, worker, event, detail FROM monitored_emails_events WHERE task_id IN ? ORDER BY id`

	// By monitored_emails_tasks_ended, which has all columns. Live tasks have not finished.
	sqlCounts = `
SELECT inbox_id, status, COUNT(*), SUM(CASE WHEN finished_at > ? THEN 1 ELSE 0 END),
  SUM(CASE WHEN finished_at > ? AND attempt_count > 1 THEN 1 ELSE 0 END)
FROM monitored_emails_tasks WHERE inbox_id IN ? GROUP BY inbox_id, status`

	// By monitored_emails_tasks_claim. A server without statistics may take
	// monitored_emails_tasks_ended; by the status it finds only live tasks there, too.
	sqlLiveCounts = `
SELECT inbox_id, SUM(CASE WHEN visible_at <= ? THEN 1 ELSE 0 END), MIN(queued_at) FROM monitored_emails_tasks
WHERE inbox_id IN ? AND priority IN (0, 1) AND visible_at > 0 AND status IN ('received', 'in_progress', 'error')
GROUP BY inbox_id`

	// By monitored_emails_tasks_claim, which has all columns.
	sqlDueCounts = `
SELECT inbox_id, COUNT(*) FROM monitored_emails_tasks
WHERE inbox_id IN ? AND priority IN (0, 1) AND visible_at <= ? GROUP BY inbox_id`

	// By monitored_emails_tasks_claim, which has all columns.
	sqlNextDue = `
SELECT MIN(visible_at) FROM monitored_emails_tasks WHERE inbox_id IN ? AND priority IN (0, 1) AND visible_at > ?`

	// By monitored_emails_events_kind. Events of purged tasks count for no inbox.
	sqlConflicts = `
SELECT t.inbox_id, COUNT(*) FROM monitored_emails_events v JOIN monitored_emails_tasks t ON t.id = v.task_id
WHERE v.event = 'conflict' AND v.at > ? GROUP BY t.inbox_id`

	// Audit: the ledger with its tasks and deliveries, by primary keys; a row for each delivery. It
	// is one statement, so a task that is deleted meanwhile appears either complete or as deleted.
	sqlAccounted = `
SELECT s.uid, s.fingerprint, s.received, s.size, COALESCE(t.skip_reason, ''), s.task_id, s.purged_as,
  COALESCE(t.status, ''), COALESCE(t.error_message, ''), COALESCE(t.mode, ''),
  t.queued_at, t.visible_at, COALESCE(d.recipient, ''), COALESCE(d.status, ''), d.duplicate_of,
  COALESCE(d.code, 0), COALESCE(d.reply, ''), COALESCE(d.attempts, 0), d.delivered_at,
  COALESCE(a.status, ''), COALESCE(a.code, 0), COALESCE(a.enhanced, ''), COALESCE(a.reply, ''),
  COALESCE(a.remote, ''), COALESCE(a.target, ''), a.at
FROM monitored_emails_seen s
LEFT JOIN monitored_emails_tasks t ON t.id = s.task_id
LEFT JOIN monitored_emails_deliveries d ON d.task_id = t.id
LEFT JOIN monitored_emails_arrivals a ON a.task_id = d.task_id AND a.recipient = d.recipient
WHERE s.folder_id = ? AND s.uid_validity = ? AND s.uid BETWEEN ? AND ?`

	// IDs ascend: if a task, or its event, is older than that time, all lower IDs were registered
	// before that time, too. By monitored_emails_seen_task.
	sqlPurged = `
SELECT COUNT(DISTINCT task_id) FROM monitored_emails_seen
WHERE inbox_id = ? AND purged_as <> ''
  AND task_id > (SELECT COALESCE(MAX(id), 0) FROM monitored_emails_tasks WHERE created_at < ?)
  AND task_id > (SELECT COALESCE(MAX(task_id), 0) FROM monitored_emails_events WHERE at < ?)`

	sqlSeenBetween = sqlAccounted + ` ORDER BY s.uid`

	sqlHighest = `SELECT COALESCE(MAX(uid), 0) FROM monitored_emails_seen WHERE folder_id = ? AND uid_validity = ?`

	// Without those that were found again in a later epoch. For a deleted task that is looked up by
	// monitored_emails_seen_task.
	sqlLeftBehind = sqlAccounted + ` AND s.task_id > 0 AND (
  t.id IS NOT NULL AND t.uid_validity = s.uid_validity AND t.uid = s.uid
  OR t.id IS NULL AND s.uid_validity = (SELECT MAX(n.uid_validity) FROM monitored_emails_seen n
    WHERE n.task_id = s.task_id))
ORDER BY s.uid`

	sqlNextEpoch = `SELECT MIN(uid_validity) FROM monitored_emails_seen ` +
		`WHERE folder_id = ? AND uid_validity > ? AND uid_validity < ?`

	sqlNextPage = `
SELECT MIN(uid), MAX(uid) FROM (
  SELECT uid FROM monitored_emails_seen WHERE folder_id = ? AND uid_validity = ? AND uid > ?
  ORDER BY uid LIMIT ?) AS page`
)

// Searching.
const (
	candidateColumns = `id, inbox_id, status, created_at, sender, subject, message_id`

	// By PRIMARY KEY, no more rows than the limit.
	sqlCandidates = `
SELECT ` + candidateColumns + ` FROM monitored_emails_tasks WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT ?`

	sqlCandidatesOf = `SELECT ` + candidateColumns + ` FROM monitored_emails_tasks WHERE id IN ? ORDER BY id DESC`

	// By PRIMARY KEY.
	sqlRecipients = `SELECT task_id, recipient FROM monitored_emails_deliveries WHERE task_id IN ?`

	// By monitored_emails_tasks_ended, which has all columns.
	sqlFew = `SELECT id FROM monitored_emails_tasks WHERE inbox_id IN ? AND status IN ? LIMIT ?`

	sqlInboxIDs = `SELECT id FROM monitored_emails`

	// By monitored_emails_tasks_ended, which has all columns. The text of a time begins with the
	// day and the hour.
	sqlHistory = `
SELECT SUBSTR(CAST(finished_at AS CHAR), 1, 13), status, COUNT(*) FROM monitored_emails_tasks
WHERE inbox_id IN ? AND status IN ? AND finished_at >= ? AND finished_at < ? GROUP BY 1, 2`
)
