package sqlqueue

// Scanning. The ledger's primary key is (folder_id, uid_validity, uid); monitored_emails_seen_fingerprint serves the look-up
// by content.
const (
	sqlFolder = `SELECT uid_validity FROM monitored_folders WHERE id = ?`

	sqlScanToken = `SELECT scan_token, is_active FROM monitored_emails WHERE id = ?`

	// Not the inbox's row: MariaDB checks the foreign key to it when a claim or a finish changes visible_at. The rows are locked
	// one by one in the order of their ids: an index would give them in another.
	sqlScopeInbox = `SELECT id FROM monitored_folders WHERE inbox_id = ? ORDER BY id`
	sqlScopeAll   = `SELECT id FROM monitored_folders ORDER BY id LIMIT 1`
	sqlScopeOne   = `SELECT id FROM monitored_folders WHERE id = ?`

	sqlSeenByUID = `SELECT uid, task_id FROM monitored_emails_seen WHERE folder_id = ? AND uid_validity = ? AND uid IN ?`

	sqlRegisteredByUID = sqlSeenByUID + ` AND task_id > 0`

	sqlSeenByFingerprint = `
SELECT s.inbox_id, s.folder_id, s.uid_validity, s.task_id, s.fingerprint, s.purged_as,
  COALESCE(t.status, '') AS status, COALESCE(t.route, '') AS route, COALESCE(t.error_message, '') AS reason,
  EXISTS (SELECT 1 FROM monitored_emails_deliveries d WHERE d.task_id = t.id AND d.status IN ('delivered', 'sending')) AS reached
FROM monitored_emails_seen s LEFT JOIN monitored_emails_tasks t ON t.id = s.task_id
WHERE s.fingerprint IN ?
ORDER BY s.task_id, s.uid_validity, s.uid`

	sqlTaskIDs = `SELECT id AS task_id, uid FROM monitored_emails_tasks WHERE folder_id = ? AND uid_validity = ? AND uid IN ?`

	sqlMoveTask = `UPDATE monitored_emails_tasks SET uid_validity = ?, uid = ?, updated_at = ? WHERE id = ?`

	sqlAdvance = `
UPDATE monitored_folders SET last_seen_uid = CASE WHEN last_seen_uid < ? THEN ? ELSE last_seen_uid END WHERE id = ?`

	sqlBaselined = `
UPDATE monitored_folders SET baseline_uid = CASE WHEN baseline_uid < ? THEN ? ELSE baseline_uid END WHERE id = ? AND uid_validity = ?`

	// By way of the inbox's live tasks (monitored_emails_tasks_claim): ended tasks of older epochs are many.
	sqlUnreconciled = `
SELECT COUNT(*) FROM monitored_folders f
JOIN monitored_emails_tasks t ON t.inbox_id = f.inbox_id AND t.priority IN (0, 1) AND t.visible_at > 0
WHERE f.id = ? AND t.folder_id = f.id AND t.uid_validity <> ?`
)

// Working off. monitored_emails_tasks_claim (inbox_id, priority, visible_at, id) gives the claim its order, so that
// it locks no more rows than it takes; ended tasks have no visible_at and are not in its range. The order of the
// assignments in sqlClaim matters: MySQL sees the columns to the left already changed.
const (
	// No join for the names: FOR UPDATE would lock the rows of the folder and the inbox, too.
	sqlDue = `
SELECT * FROM monitored_emails_tasks WHERE inbox_id = ? AND priority = ? AND visible_at <= ? AND id NOT IN ?
ORDER BY visible_at, id LIMIT ?`

	sqlNextDue = `
SELECT visible_at FROM monitored_emails_tasks WHERE inbox_id = ? AND priority = ? AND visible_at > 0 AND id NOT IN ?
ORDER BY visible_at LIMIT 1`

	sqlPlaces = `
SELECT f.id, f.name, e.email_address AS inbox FROM monitored_folders f JOIN monitored_emails e ON e.id = f.inbox_id
WHERE f.inbox_id = ? AND e.is_active = 1`

	sqlClaim = `
UPDATE monitored_emails_tasks SET
  lost_leases = lost_leases + CASE WHEN status = 'in_progress' THEN 1 ELSE 0 END,
  status = 'in_progress', attempt_count = attempt_count + 1, visible_at = ?, receipt = CONCAT(?, '-', id), worker = ?, updated_at = ?
WHERE id IN ?`

	sqlPoisoned = `
UPDATE monitored_emails_tasks SET status = ?, lost_leases = lost_leases + 1, visible_at = NULL,
  receipt = '', error_message = ?, finished_at = ?, updated_at = ?
WHERE id = ?`

	sqlExtend = `UPDATE monitored_emails_tasks SET visible_at = ? WHERE id = ? AND receipt = ? AND status = 'in_progress'`

	sqlSending = `UPDATE monitored_emails_tasks SET route = ?, mode = ?, mode_reason = ? WHERE id = ? AND receipt = ? AND status = 'in_progress'`

	sqlFinish = `
UPDATE monitored_emails_tasks SET status = ?, visible_at = ?, route = ?, error_message = ?, updated_at = ?, finished_at = ?
WHERE id = ? AND receipt = ? AND status = 'in_progress'`

	sqlRelease = `
UPDATE monitored_emails_tasks SET status = 'received', visible_at = ?, attempt_count = attempt_count - 1, error_message = ?, updated_at = ?
WHERE id = ? AND receipt = ? AND status = 'in_progress'`

	sqlHolder = `
SELECT t.status, t.receipt, t.worker, e.is_active AS in_use FROM monitored_emails_tasks t JOIN monitored_emails e ON e.id = t.inbox_id
WHERE t.id = ?`

	sqlEvent = `INSERT INTO monitored_emails_events (task_id, at, worker, event, detail) VALUES (?, ?, ?, ?, ?)`

	sqlEventLike = `SELECT COUNT(*) FROM monitored_emails_events WHERE task_id = ? AND event = ? AND detail = ?` // by monitored_emails_events_task

	sqlIdentity = `
SELECT inbox_id, folder_id, uid_validity, uid, fingerprint, route FROM monitored_emails_tasks
WHERE id = ? AND receipt = ? AND status = 'in_progress'`

	sqlIdentify = `
UPDATE monitored_emails_tasks SET fingerprint = ?, message_id = ?, subject = ?, sender = ?, email_date = ?, size = ?, route = ?, updated_at = ?
WHERE id = ? AND receipt = ? AND status = 'in_progress'`

	sqlIdentifySeen = `UPDATE monitored_emails_seen SET fingerprint = ? WHERE folder_id = ? AND uid_validity = ? AND uid = ?`

	// What has been read is not known by its outline any more, in no epoch: another message may have the same one. By
	// monitored_emails_seen_fingerprint.
	sqlReadSeen = `UPDATE monitored_emails_seen SET fingerprint = ? WHERE fingerprint = ? AND task_id = ?`

	// As package ledger has it of a task in progress. Who asks holds its receipt, and nobody else changes either.
	sqlMayHaveHeirs = `
SELECT t.inbox_id, t.route <> '' OR EXISTS (
  SELECT 1 FROM monitored_emails_deliveries d WHERE d.task_id = t.id AND d.status IN ('delivered', 'sending')) AS accounts
FROM monitored_emails_tasks t WHERE t.id = ?`

	// An heir is a task that was skipped as the duplicate of one by which nobody else gets the message. It is found by its
	// fingerprint, in monitored_emails_seen_fingerprint.
	sqlDuplicates = `
SELECT DISTINCT t.id, t.inbox_id, t.route, e.is_active AS active FROM monitored_emails_seen s JOIN monitored_emails_tasks t ON t.id = s.task_id
JOIN monitored_emails e ON e.id = t.inbox_id
WHERE t.status = 'skipped' AND t.error_message = ? AND s.fingerprint = `

	sqlHeirsFirst = ` ORDER BY e.is_active DESC, t.id`

	// By the row where the message is now: that is its content also when the task was registered unread.
	sqlHeirs = sqlDuplicates + `(
  SELECT n.fingerprint FROM monitored_emails_tasks o
  JOIN monitored_emails_seen n ON n.folder_id = o.folder_id AND n.uid_validity = o.uid_validity AND n.uid = o.uid WHERE o.id = ?)` + sqlHeirsFirst

	sqlStillHeirs = `SELECT id FROM monitored_emails_tasks WHERE id IN ? AND status = 'skipped' AND error_message = ? ORDER BY id`

	sqlHeirsOfLost = sqlDuplicates + `?` + sqlHeirsFirst

	sqlTask = `SELECT * FROM monitored_emails_tasks WHERE id = ?`

	sqlInherit = `
UPDATE monitored_emails_tasks SET status = 'received', visible_at = ?, receipt = '', error_message = '', queued_at = ?, updated_at = ?,
  finished_at = NULL
WHERE id = ? AND status = 'skipped'`

	sqlDecided = `SELECT route, mode, mode_reason FROM monitored_emails_tasks WHERE id = ?`

	sqlDecide = `UPDATE monitored_emails_tasks SET route = ?, mode = ?, mode_reason = ? WHERE id = ?`

	sqlKeepDelivered = `DELETE FROM monitored_emails_deliveries WHERE task_id = ? AND status <> 'delivered'`

	sqlNewOriginal = `UPDATE monitored_emails_tasks SET error_message = ? WHERE id IN ?`

	sqlHolderEvent = `
INSERT INTO monitored_emails_events (task_id, at, worker, event, detail)
SELECT id, ?, worker, ?, ? FROM monitored_emails_tasks WHERE id = ?`
)

// What people do, by primary key. It takes the receipt of the last claim away.
const (
	sqlRequeue = `
UPDATE monitored_emails_tasks SET status = 'received', visible_at = ?, receipt = '', attempt_count = 0, lost_leases = 0, error_message = '',
  queued_at = ?, updated_at = ?, finished_at = NULL
WHERE id = ? AND status IN ?`

	// Nobody has it: the routes of today decide anew.
	sqlForgetRoute      = `UPDATE monitored_emails_tasks SET route = '' WHERE id IN ?`
	sqlForgetDeliveries = `DELETE FROM monitored_emails_deliveries WHERE task_id IN ?`

	sqlReached = `SELECT COUNT(*) FROM monitored_emails_deliveries WHERE task_id = ? AND status IN ('delivered', 'sending')`

	sqlRequeueDeliveries = `
UPDATE monitored_emails_deliveries SET status = 'pending' WHERE task_id = ? AND status IN ('failed', 'sending')`

	sqlEnd = `
UPDATE monitored_emails_tasks SET status = ?, visible_at = NULL, receipt = '', error_message = ?, updated_at = ?, finished_at = ?
WHERE id = ? AND status IN ?`

	sqlWithout = `SELECT COUNT(*) FROM monitored_emails_deliveries WHERE task_id = ? AND status IN ('pending', 'failed')`

	sqlResolveDeliveries = `
UPDATE monitored_emails_deliveries SET status = 'delivered', delivered_at = ? WHERE task_id = ? AND status = 'sending'`

	// A duplicate stays while its original, an equal message (monitored_emails_seen_fingerprint), may need it to take its place.
	sqlPurgeable = `
SELECT t.status, t.error_message, t.fingerprint, n.fingerprint AS noted FROM monitored_emails_tasks t
LEFT JOIN monitored_emails_seen n ON n.folder_id = t.folder_id AND n.uid_validity = t.uid_validity AND n.uid = t.uid
WHERE t.id = ? AND t.status IN ? AND NOT (t.status = 'skipped' AND EXISTS (
  SELECT 1 FROM monitored_emails_seen s JOIN monitored_emails_tasks o ON o.id = s.task_id
  WHERE s.fingerprint = t.fingerprint AND o.status <> 'forwarded' AND t.error_message = CONCAT(?, o.id)))`

	// The rows of the ledger are found by the task's fingerprint (monitored_emails_seen_fingerprint), and by the one of
	// the row where its message is now: a task that was registered unread may have been found again by its content.
	sqlPurgedAs = `UPDATE monitored_emails_seen SET purged_as = ? WHERE fingerprint IN ? AND task_id IN ?`

	sqlDelete = `DELETE FROM monitored_emails_tasks WHERE id IN ?`

	// What others have deleted, by the primary key of the ledger, and then by monitored_emails_seen_fingerprint.
	sqlLost = `
SELECT s.task_id, s.fingerprint FROM monitored_emails_seen s LEFT JOIN monitored_emails_tasks t ON t.id = s.task_id
WHERE s.folder_id = ? AND s.uid_validity = ? AND s.uid IN ? AND s.task_id > 0 AND s.purged_as = '' AND t.id IS NULL`

	sqlForget = `DELETE FROM monitored_emails_seen WHERE fingerprint IN ? AND task_id IN ?`
)

// Taking an inbox out of use. monitored_emails_tasks_claim has its live tasks, and all that is asked for: otherwise a server that
// does not know yet how many tasks there are would rather read all of them.
const (
	sqlLive = `SELECT id FROM monitored_emails_tasks WHERE inbox_id = ? AND priority IN (0, 1) AND visible_at > 0`

	sqlStillLive = `SELECT id, status FROM monitored_emails_tasks WHERE id IN ? AND visible_at > 0 ORDER BY id`

	sqlReachedOf = `SELECT DISTINCT task_id FROM monitored_emails_deliveries WHERE task_id IN ? AND status IN ('delivered', 'sending')`

	sqlUnclaim = `
UPDATE monitored_emails_tasks SET status = 'received', visible_at = ?, receipt = '', attempt_count = attempt_count - 1, updated_at = ?
WHERE id = ?`

	// As sqlHeirs, for many tasks at once: by what their messages are known, and the reasons of the duplicates in other inboxes.
	sqlNoted = `
SELECT o.fingerprint, n.fingerprint AS noted FROM monitored_emails_tasks o
LEFT JOIN monitored_emails_seen n ON n.folder_id = o.folder_id AND n.uid_validity = o.uid_validity AND n.uid = o.uid WHERE o.id IN ?`

	sqlSkippedElsewhere = `
SELECT DISTINCT t.error_message FROM monitored_emails_seen s JOIN monitored_emails_tasks t ON t.id = s.task_id
WHERE s.fingerprint IN ? AND s.inbox_id <> ? AND t.status = 'skipped'`

	sqlDisable = `UPDATE monitored_emails SET is_active = 0, updated_at = ? WHERE id = ?`

	// As it was before the first scan.
	sqlNoCursors = `
UPDATE monitored_folders SET uid_validity = 0, last_seen_uid = 0, start_uid = 0, baseline_uid = 0, initialized_at = NULL WHERE inbox_id = ?`

	// By PRIMARY KEY and UNIQUE (folder_id, uid_validity, uid). Deliveries go by foreign key.
	sqlDeleteSeenBetween  = `DELETE FROM monitored_emails_seen WHERE folder_id = ? AND uid_validity = ? AND uid BETWEEN ? AND ?`
	sqlDeleteTasksBetween = `DELETE FROM monitored_emails_tasks WHERE folder_id = ? AND uid_validity = ? AND uid BETWEEN ? AND ?`

	sqlDeleteInbox = `DELETE FROM monitored_emails WHERE id = ?` // folders go by foreign key, and what came meanwhile with them
)

// Retention, in portions: monitored_emails_tasks_ended gives the oldest tasks first, the primary key the oldest events.
const (
	sqlExpired = `
SELECT t.id, t.fingerprint, n.fingerprint AS noted FROM monitored_emails_tasks t
LEFT JOIN monitored_emails_seen n ON n.folder_id = t.folder_id AND n.uid_validity = t.uid_validity AND n.uid = t.uid
WHERE t.inbox_id = ? AND t.status = 'forwarded' AND t.finished_at < ? ORDER BY t.finished_at LIMIT ?`

	// Not those that tell that an outcome was unknown, of a task that is there and was not forwarded.
	sqlOldestEvents = `
SELECT v.id, v.at FROM monitored_emails_events v
LEFT JOIN monitored_emails_tasks t ON t.id = v.task_id AND v.event = 'uncertain' AND t.status <> 'forwarded'
WHERE t.id IS NULL ORDER BY v.id LIMIT ?`

	sqlDeleteEvents = `DELETE FROM monitored_emails_events WHERE id IN ?`
)

// Reading.
const (
	// LEFT keeps MariaDB from beginning with the folder, and sorting all of its tasks for each portion.
	sqlTasks = `
SELECT t.*, e.email_address AS inbox, f.name AS folder
FROM monitored_emails_tasks t
LEFT JOIN monitored_emails e ON e.id = t.inbox_id
LEFT JOIN monitored_folders f ON f.id = t.folder_id`

	sqlDeliveries = `SELECT * FROM monitored_emails_deliveries WHERE task_id IN ? ORDER BY task_id, recipient`

	sqlEvents = `SELECT * FROM monitored_emails_events WHERE task_id = ? ORDER BY id`

	sqlCounts = `SELECT status, COUNT(*) AS n FROM monitored_emails_tasks WHERE inbox_id = ? GROUP BY status`

	sqlDueCount = `SELECT COUNT(*) FROM monitored_emails_tasks WHERE inbox_id = ? AND priority IN (0, 1) AND visible_at <= ?`

	// By monitored_emails_tasks_ended.
	sqlLastDay = `
SELECT COUNT(*) AS ended, COALESCE(SUM(CASE WHEN attempt_count > 1 THEN 1 ELSE 0 END), 0) AS retried FROM monitored_emails_tasks
WHERE inbox_id = ? AND status IN ('forwarded', 'dead') AND finished_at > ?`

	// By monitored_emails_events_kind. Those of tasks that have been purged count for no inbox.
	sqlConflicts = `
SELECT COUNT(*) FROM monitored_emails_events v JOIN monitored_emails_tasks t ON t.id = v.task_id
WHERE v.event = 'conflict' AND v.at > ? AND t.inbox_id = ?`

	// Audit: the ledger and all it leads to by their primary keys, in one statement, so that a task that is deleted meanwhile is told
	// either with all it had or as deleted. A row for each delivery.
	sqlAccounted = `
SELECT s.uid, s.task_id, s.purged_as, COALESCE(t.status, '') AS status, COALESCE(t.error_message, '') AS reason, t.queued_at, t.visible_at,
  COALESCE(d.recipient, '') AS recipient, COALESCE(d.status, '') AS delivery, COALESCE(d.code, 0) AS code, COALESCE(d.reply, '') AS reply,
  COALESCE(d.attempts, 0) AS attempts, d.delivered_at
FROM monitored_emails_seen s
LEFT JOIN monitored_emails_tasks t ON t.id = s.task_id
LEFT JOIN monitored_emails_deliveries d ON d.task_id = t.id
WHERE s.folder_id = ? AND s.uid_validity = ? AND s.uid BETWEEN ? AND ?`

	// IDs ascend: what comes before a task, or an event of one, of before that time was registered before. A message that was found
	// again has several rows.
	sqlPurged = `
SELECT COUNT(DISTINCT task_id) FROM monitored_emails_seen
WHERE inbox_id = ? AND purged_as <> ''
  AND task_id > (SELECT COALESCE(MAX(id), 0) FROM monitored_emails_tasks WHERE created_at < ?)
  AND task_id > (SELECT COALESCE(MAX(task_id), 0) FROM monitored_emails_events WHERE at < ?)`

	sqlSeenBetween = sqlAccounted + ` ORDER BY s.uid`

	// Not those that were found again in a later epoch: by monitored_emails_seen_fingerprint, when the task is gone.
	sqlLeftBehind = sqlAccounted + ` AND s.task_id > 0 AND (
  t.id IS NOT NULL AND t.uid_validity = s.uid_validity AND t.uid = s.uid
  OR t.id IS NULL AND s.uid_validity = (SELECT MAX(n.uid_validity) FROM monitored_emails_seen n
    WHERE n.fingerprint = s.fingerprint AND n.task_id = s.task_id))
ORDER BY s.uid`

	sqlNextEpoch = `SELECT MIN(uid_validity) FROM monitored_emails_seen WHERE folder_id = ? AND uid_validity > ? AND uid_validity < ?`

	sqlNextPage = `
SELECT MIN(uid) AS first, MAX(uid) AS last FROM (
  SELECT uid FROM monitored_emails_seen WHERE folder_id = ? AND uid_validity = ? AND uid > ? ORDER BY uid LIMIT ?) AS page`

	sqlOldest = `
SELECT queued_at FROM monitored_emails_tasks WHERE inbox_id = ? AND status IN ('received', 'in_progress', 'error')
ORDER BY queued_at LIMIT 1`
)
