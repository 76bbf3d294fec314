package sqlqueue

// touch changes a task's row even if the statement sets nothing else: between database nodes only
// changed rows conflict. No two changes leave the same time.
const touch = `updated_at = CASE WHEN updated_at = ? THEN ? ELSE ? END`

// Scanning. The ledger's primary key is (folder_id, uid_validity, uid);
// monitored_emails_seen_fingerprint serves the look-up by content.
const (
	// These begin a registration, by primary key. `changes` makes it conflict with another one of
	// the same folder, and with the disabling of the inbox.
	sqlAdvance = `
UPDATE monitored_folders SET changes = changes + 1,
  last_seen_uid = CASE WHEN last_seen_uid < ? THEN ? ELSE last_seen_uid END
WHERE id = ? AND uid_validity = ? AND inbox_id = ?`

	sqlBaselined = `
UPDATE monitored_folders SET changes = changes + 1,
  baseline_uid = CASE WHEN baseline_uid < ? THEN ? ELSE baseline_uid END
WHERE id = ? AND uid_validity = ? AND inbox_id = ?`

	sqlInbox = `SELECT email_address, scan_token, is_active FROM monitored_emails WHERE id = ?`

	sqlSeenByUID = `
SELECT s.uid, s.task_id, COALESCE(t.skip_reason, '')
FROM monitored_emails_seen s LEFT JOIN monitored_emails_tasks t ON t.id = s.task_id
WHERE s.folder_id = ? AND s.uid_validity = ? AND s.uid IN ?`

	sqlNoted = `
SELECT s.uid, s.fingerprint, s.received, s.size, COALESCE(t.skip_reason, '')
FROM monitored_emails_seen s LEFT JOIN monitored_emails_tasks t ON t.id = s.task_id
WHERE s.folder_id = ? AND s.uid_validity = ? AND s.uid BETWEEN ? AND ? ORDER BY s.uid`

	sqlRestate = `
UPDATE monitored_emails_seen SET received = COALESCE(?, received), size = CASE WHEN ? > 0 THEN ? ELSE size END
WHERE folder_id = ? AND uid_validity = ? AND uid = ?`

	sqlRegisteredByUID = sqlSeenByUID + ` AND s.task_id > 0`

	sqlSeenByFingerprint = `
SELECT s.folder_id, s.uid_validity, s.task_id, s.fingerprint, s.purged_as,
  COALESCE(t.status, ''), COALESCE(t.skip_reason, '')
FROM monitored_emails_seen s LEFT JOIN monitored_emails_tasks t ON t.id = s.task_id
WHERE s.fingerprint IN ?
ORDER BY s.task_id, s.uid_validity, s.uid`

	// Read from the index monitored_emails_tasks_message alone.
	sqlTaskIDs = `
SELECT uid, id, '' FROM monitored_emails_tasks WHERE folder_id = ? AND uid_validity = ? AND uid IN ?`

	// Enters the tasks of a page that the ledger does not have, as sqlTaskIDs and sqlSeenByUID find
	// them.
	sqlEnterAgain = `
INSERT INTO monitored_emails_seen (` + seenColumns + `)
SELECT t.folder_id, t.uid_validity, t.uid, t.inbox_id, t.id, t.fingerprint, NULL, 0, ''
FROM monitored_emails_tasks t LEFT JOIN monitored_emails_seen s
  ON s.folder_id = t.folder_id AND s.uid_validity = t.uid_validity AND s.uid = t.uid
WHERE t.folder_id = ? AND t.uid_validity = ? AND t.uid IN ? AND s.uid IS NULL`

	sqlReason = `UPDATE monitored_emails_tasks SET error_message = ? WHERE id = ?`

	sqlMove = `UPDATE monitored_emails_tasks SET uid_validity = ?, uid = ?, updated_at = ? WHERE id = ?`

	// After a message was read, its outline identifies it in no epoch any more: another message may
	// have the same outline. By monitored_emails_seen_task.
	sqlReadSeen = `UPDATE monitored_emails_seen SET fingerprint = ? WHERE fingerprint = ? AND task_id = ?`

	// By the inbox's live tasks (monitored_emails_tasks_claim), as ended tasks of older epochs are
	// many.
	sqlUnreconciled = `
SELECT COUNT(*) FROM monitored_folders f
JOIN monitored_emails_tasks t ON t.inbox_id = f.inbox_id AND t.priority IN (0, 1) AND t.visible_at > 0
WHERE f.id = ? AND t.folder_id = f.id AND t.uid_validity <> ?`
)

// Claiming. monitored_emails_tasks_claim (inbox_id, priority, visible_at, id) has the order of the
// claim, which so locks no more rows than it takes. Ended tasks have no visible_at and are not in
// range.
const (
	// No join for the names: it would also lock the rows of the folder and the inbox.
	sqlDue = `
SELECT id, ` + taskColumns +
		` FROM monitored_emails_tasks WHERE inbox_id = ? AND priority = ? AND visible_at <= ? AND id NOT IN ?
ORDER BY visible_at, id LIMIT ?`

	// The same tasks of both priorities, by this index alone.
	sqlNext = `
SELECT id FROM (
  SELECT * FROM (SELECT priority, ` + nextRows + `) AS high
  UNION ALL SELECT * FROM (SELECT priority, ` + nextRows + `) AS normal
) AS next ORDER BY priority DESC, visible_at, id LIMIT ?`

	nextRows = `visible_at, id FROM monitored_emails_tasks
  WHERE inbox_id = ? AND priority = ? AND visible_at <= ? AND id NOT IN ? ORDER BY visible_at, id LIMIT ?`

	sqlPlaces = `
SELECT f.id, f.name, e.email_address FROM monitored_folders f JOIN monitored_emails e ON e.id = f.inbox_id
WHERE f.inbox_id = ? AND e.is_active = 1`

	// The new receipt makes two claims of one task conflict. The order of the assignments matters:
	// in MySQL an expression sees the new values of the columns to its left.
	sqlClaim = `
UPDATE monitored_emails_tasks SET
  lost_leases = lost_leases + CASE WHEN status = 'in_progress' THEN 1 ELSE 0 END,
  status = 'in_progress', attempt_count = attempt_count + 1, visible_at = ?, receipt = CONCAT(?, '-', id), worker = ?,
  updated_at = ?
WHERE id IN ?`

	sqlEndLost = `
UPDATE monitored_emails_tasks SET status = ?, skip_reason = '', lost_leases = lost_leases + 1, visible_at = NULL,
  receipt = '', error_message = ?, finished_at = ?, updated_at = ?
WHERE id = ?`
)

// Processing, by primary key. Each change changes the row even if the values are equal: on Galera
// only changed rows conflict.
const (
	underReceipts = ` id IN ? AND receipt IN ? AND status = 'in_progress'`

	sqlHold = `UPDATE monitored_emails_tasks SET ` + touch + ` WHERE` + underReceipts

	sqlExtend = `UPDATE monitored_emails_tasks SET ` + touch + `, visible_at = ? WHERE` + underReceipts

	sqlHeld = `SELECT id FROM monitored_emails_tasks WHERE` + underReceipts

	sqlSending = `UPDATE monitored_emails_tasks SET ` + touch + `, mode = ?, mode_reason = ? WHERE` + underReceipts

	// A claim that was only offered. Each claim, each disabling of the inbox and each operator
	// leaves a receipt, another status or another revision behind.
	sqlClaimSending = `
UPDATE monitored_emails_tasks SET
  status = 'in_progress', attempt_count = attempt_count + 1, visible_at = ?, receipt = CONCAT(?, '-', id), worker = ?,
  updated_at = ?, mode = ?, mode_reason = ?
WHERE revision = ? AND id IN ? AND receipt = '' AND status = 'received'`

	setFinished = `
UPDATE monitored_emails_tasks SET status = ?, skip_reason = ?, visible_at = ?, error_message = ?, updated_at = ?,
  finished_at = ? WHERE`

	sqlFinish   = setFinished + underReceipts
	sqlFinishAt = setFinished + ` uid_validity = ? AND uid = ? AND` + underReceipts

	sqlRelease = `
UPDATE monitored_emails_tasks SET status = 'received', attempt_count = attempt_count - 1, visible_at = ?,
  error_message = ?, updated_at = ? WHERE` + underReceipts

	sqlPostpone = `UPDATE monitored_emails_tasks SET visible_at = ? WHERE id = ?`

	sqlHolder = `
SELECT t.status, t.receipt, t.worker, e.is_active
FROM monitored_emails_tasks t JOIN monitored_emails e ON e.id = t.inbox_id
WHERE t.id = ?`

	sqlTask = `SELECT id, ` + taskColumns + ` FROM monitored_emails_tasks WHERE id = ?`

	sqlReserved = `
UPDATE monitored_emails_tasks SET fingerprint = ?, is_read = ?, message_id = ?, subject = ?, sender = ?, email_date = ?,
  size = ?, revision = ?, route = ?, priority = ?, keep_reason = ?
WHERE id = ?`
)

// Deliveries, by (task_id, recipient), and who owns which content: by the primary key (scope,
// fingerprint, recipient) and monitored_emails_once_task.
const (
	sqlDeliveries = `SELECT ` + deliveryKeys + `, ` + deliveryColumns +
		` FROM monitored_emails_deliveries WHERE task_id IN ? ORDER BY task_id, recipient`

	sqlDropDeliveries = `DELETE FROM monitored_emails_deliveries WHERE task_id = ? AND recipient IN ?`

	// Waiting deliveries of tasks that can be made due, by monitored_emails_deliveries_duplicate,
	// which seldom has any. A task in progress checks by itself when it is released.
	sqlWaiting = `SELECT ` + waitingRows

	waitingRows = `d.task_id, d.recipient, d.status, d.duplicate_of, d.code, d.reply, d.attempts, d.delivered_at
FROM monitored_emails_deliveries d JOIN monitored_emails_tasks t ON t.id = d.task_id
WHERE d.status = 'pending' AND t.status IN ('received', 'error') AND d.duplicate_of IN ?`

	// The deliveries of tasks, and the deliveries that wait for them, in any order.
	sqlAround = `
SELECT 0 AS waits, ` + deliveryKeys + `, ` + deliveryColumns + ` FROM monitored_emails_deliveries WHERE task_id IN ?
UNION ALL SELECT 1, ` + waitingRows

	// One at a time, by primary key: then MySQL waits for a locked row before it checks its
	// columns.
	sqlWake = `
UPDATE monitored_emails_tasks SET visible_at = ? WHERE id = ? AND visible_at > ? AND status IN ('received', 'error')`

	sqlOwners = `
SELECT ` + onceColumns + ` FROM monitored_emails_once WHERE scope IN ? AND fingerprint IN ? AND recipient IN ?`

	sqlStatuses = `SELECT id, status, skip_reason FROM monitored_emails_tasks WHERE id IN ?`

	sqlOwnedBy = `SELECT ` + onceColumns + ` FROM monitored_emails_once WHERE task_id IN ?`

	sqlGiveUp = `DELETE FROM monitored_emails_once WHERE task_id IN ? AND recipient IN ?`

	// When a task is purged.
	sqlKeepOwned = `UPDATE monitored_emails_once SET task_id = -task_id WHERE task_id IN ?`

	// Of a task that something other than the queue deleted.
	sqlDropOwned = `
DELETE FROM monitored_emails_once WHERE scope = ? AND fingerprint = ? AND recipient = ? AND task_id = ?`

	sqlGiveUpAll = `DELETE FROM monitored_emails_once WHERE task_id IN ?`
)

// The audit trail, by monitored_emails_events_task.
const (
	sqlEvent = `INSERT INTO monitored_emails_events (task_id, at, worker, event, detail) VALUES (?, ?, ?, ?, ?)`

	// Of an inbox. The task 0 is none.
	sqlInboxEvent = `
INSERT INTO monitored_emails_events (task_id, inbox_id, at, worker, event, detail) VALUES (0, ?, ?, ?, ?, ?)`

	sqlInboxEvents = `
SELECT task_id, at, worker, event, detail FROM monitored_emails_events WHERE task_id = 0 AND inbox_id = ?
ORDER BY id DESC LIMIT ?`

	sqlEventLike = `SELECT COUNT(*) FROM monitored_emails_events WHERE task_id = ? AND event = ? AND detail = ?`
)

// What operators do, by primary key.
const (
	// It comes first and decides. The receipt of the last claim becomes invalid.
	sqlTake = `UPDATE monitored_emails_tasks SET ` + touch + `, receipt = '' WHERE id = ? AND status IN ?`

	sqlRestart = `
UPDATE monitored_emails_tasks SET status = 'received', skip_reason = '', error_message = '', revision = '',
  receipt = '', visible_at = ?, queued_at = ?, finished_at = NULL
WHERE id = ?`

	sqlForgetAttempts = `UPDATE monitored_emails_tasks SET attempt_count = 0, lost_leases = 0 WHERE id = ?`

	sqlDoubt = `
UPDATE monitored_emails_tasks SET in_doubt = 1
WHERE id = ? AND EXISTS (SELECT 1 FROM monitored_emails_deliveries WHERE task_id = ? AND status = 'sending')`

	sqlEnd = `
UPDATE monitored_emails_tasks SET status = ?, skip_reason = ?, visible_at = NULL, error_message = ?, finished_at = ?
WHERE id = ?`

	sqlResolveDeliveries = `
UPDATE monitored_emails_deliveries SET status = 'delivered', delivered_at = ? WHERE task_id = ? AND status = 'sending'`

	// By monitored_emails_seen_task: a message that was found again has several rows.
	sqlPurgedAs = `UPDATE monitored_emails_seen SET purged_as = ? WHERE task_id IN ?`

	sqlForget = `DELETE FROM monitored_emails_seen WHERE task_id IN ?`

	sqlDelete = `DELETE FROM monitored_emails_tasks WHERE id IN ?` // deliveries go by foreign key

	// Tasks that something else deleted, by the primary key of the ledger.
	sqlLost = `
SELECT s.task_id FROM monitored_emails_seen s LEFT JOIN monitored_emails_tasks t ON t.id = s.task_id
WHERE s.folder_id = ? AND s.uid_validity = ? AND s.uid IN ? AND s.task_id > 0 AND s.purged_as = '' AND t.id IS NULL`

	// By monitored_emails_deliveries_duplicate.
	sqlDuplicates = `
SELECT DISTINCT t.id FROM monitored_emails_deliveries d JOIN monitored_emails_tasks t ON t.id = d.task_id
WHERE d.duplicate_of IN ? AND d.status = 'duplicate' AND t.status = 'skipped' AND t.skip_reason = 'duplicate'`
)

// Disabling and removing an inbox. monitored_emails_tasks_claim has its live tasks and all columns
// of the query. With more columns a server without statistics would scan the whole table.
const (
	// By monitored_folders_name. It conflicts with a concurrent registration.
	sqlChangeFolders = `UPDATE monitored_folders SET changes = changes + 1 WHERE inbox_id = ?`

	sqlLive = `SELECT id FROM monitored_emails_tasks WHERE inbox_id = ? AND priority IN (0, 1) AND visible_at > 0`

	// It conflicts with a concurrent claim of one of them.
	sqlTouchLive = `UPDATE monitored_emails_tasks SET ` + touch + ` WHERE id IN ? AND visible_at > 0`

	sqlStillLive = `
SELECT id, status, visible_at, worker FROM monitored_emails_tasks WHERE id IN ? AND visible_at > 0 ORDER BY id`

	sqlDisabled = `SELECT id FROM monitored_emails WHERE is_active = 0 ORDER BY id`

	// By monitored_emails_tasks_ended: few tasks are in progress. With a condition on visible_at,
	// servers would read all that are due.
	sqlClaimed = `SELECT id, visible_at FROM monitored_emails_tasks WHERE inbox_id IN ? AND status = 'in_progress'`

	// By the same index. Disable leaves only claims of what is being sent.
	sqlBeingSent = `SELECT id FROM monitored_emails_tasks WHERE inbox_id = ? AND status = 'in_progress'`

	// It conflicts with the end of the claim, and with a claim after the inbox was enabled.
	sqlTakeAbandoned = `
UPDATE monitored_emails_tasks SET ` + touch + ` WHERE id = ? AND status = 'in_progress' AND visible_at <= ?
  AND EXISTS (SELECT 1 FROM monitored_emails e WHERE e.id = monitored_emails_tasks.inbox_id AND e.is_active = 0)`

	sqlUnclaim = `
UPDATE monitored_emails_tasks SET status = 'received', visible_at = ?, receipt = '', attempt_count = attempt_count - 1
WHERE id IN ?`

	// By primary keys.
	sqlOfDisabled = `
SELECT t.id FROM monitored_emails_tasks t JOIN monitored_emails e ON e.id = t.inbox_id
WHERE t.id IN ? AND t.status IN ('received', 'error') AND e.is_active = 0`

	sqlUndecide = `UPDATE monitored_emails_tasks SET revision = '' WHERE id IN ?`

	sqlIsActive = `SELECT is_active FROM monitored_emails WHERE id = ?`

	sqlDisable = `UPDATE monitored_emails SET is_active = 0, updated_at = ? WHERE id = ?`

	sqlFolders = `SELECT id FROM monitored_folders WHERE inbox_id = ? ORDER BY id`

	// As it was before the first scan.
	sqlNoCursors = `
UPDATE monitored_folders SET uid_validity = 0, last_seen_uid = 0, start_uid = 0, baseline_uid = 0, reconciled = 0,
  initialized_at = NULL
WHERE inbox_id = ?`

	// By monitored_emails_tasks_message, and PRIMARY KEY.
	sqlTasksBetween      = `SELECT id FROM monitored_emails_tasks` + betweenUIDs
	sqlDeleteSeenBetween = `DELETE FROM monitored_emails_seen` + betweenUIDs
	betweenUIDs          = ` WHERE folder_id = ? AND uid_validity = ? AND uid BETWEEN ? AND ?`

	// What purged tasks of the inbox own in its scope, in portions, by PRIMARY KEY.
	sqlOnceUpTo = `
SELECT MAX(fingerprint) FROM (
  SELECT fingerprint FROM monitored_emails_once WHERE scope = ? ORDER BY fingerprint LIMIT ?) AS page`

	sqlDeleteOnceUpTo = `DELETE FROM monitored_emails_once WHERE scope = ? AND fingerprint <= ?`

	sqlDeleteInbox = `DELETE FROM monitored_emails WHERE id = ?` // folders go by foreign key
)
