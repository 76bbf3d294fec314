package outbox

const (
	tableOccurrences  = "monitored_occurrences"
	tableOutbox       = "monitored_outbox"
	tableDestinations = "monitored_destinations"

	entryColumns  = entryKeys + `, body` + entryState
	listedColumns = entryKeys + `, ''` + entryState // without bodies, which can be large

	entryKeys  = `id, event_id, occurrence_id, destination, kind, task_id, inbox_id, action`
	entryState = `, status, attempt_count, worker, visible_at, error_message, created_at, finished_at`

	newColumns = "event_id, occurrence_id, destination, kind, task_id, inbox_id, action, body, " +
		"status, attempt_count, visible_at, receipt, worker, error_message, created_at, finished_at"
)

// Occurrences, by PRIMARY KEY (id).
const (
	sqlOccurrences = `SELECT id, kind, task_id, inbox_id, at FROM monitored_occurrences ORDER BY id LIMIT ?`

	sqlTakeOccurrences = `DELETE FROM monitored_occurrences WHERE id IN ?`

	// Both use monitored_outbox_order.
	sqlLanes = `
SELECT DISTINCT task_id, destination FROM monitored_outbox /*! FORCE INDEX (monitored_outbox_order) */
WHERE task_id IN ? AND action = '' AND visible_at > 0`

	sqlMade = `
SELECT id, event_id FROM monitored_outbox /*! FORCE INDEX (monitored_outbox_order) */
WHERE task_id IN ? AND receipt = ?`
)

// Processing entries. monitored_outbox_claim (destination, visible_at, id) has what is due; ended
// entries have no visible_at and are not in range. monitored_outbox_order (task_id, inbox_id,
// destination, occurrence_id) has the predecessors. The hints are for MariaDB and MySQL (SQLite
// reads them as comments): while the table fills, their statistics are old, and for each entry they
// would read everything that waits. NOT EXISTS has the same effect: MariaDB evaluates it for the
// whole table. An action waits for another action of its task only while that one is in progress,
// not while it waits: each checks its task when it runs, and one may be planned for next month.
const (
	sqlDue = `
SELECT ` + entryColumns + ` FROM monitored_outbox o /*! FORCE INDEX (monitored_outbox_claim) */
WHERE destination = ? AND visible_at <= ? AND (inbox_id = ? OR ? = 0) AND (
  SELECT 1 FROM monitored_outbox p /*! FORCE INDEX (monitored_outbox_order) */
  WHERE p.task_id = o.task_id AND p.inbox_id = o.inbox_id AND p.destination = o.destination
    AND (o.action = '' AND p.occurrence_id < o.occurrence_id AND p.visible_at > 0
      OR o.action <> '' AND p.id <> o.id AND p.visible_at > ? AND p.status = 'in_progress') LIMIT 1) IS NULL
ORDER BY visible_at, id LIMIT ?`

	// By monitored_outbox_claim, and all inboxes.
	sqlInboxesDue = `
SELECT DISTINCT inbox_id FROM monitored_outbox WHERE destination = ? AND visible_at <= ?
  AND inbox_id NOT IN (SELECT id FROM monitored_emails WHERE actions_at > ?)`

	sqlPause = `UPDATE monitored_emails SET actions_at = ? WHERE id = ? AND updated_at = ?`

	// The new receipt makes two claims of one entry conflict.
	sqlClaim = `
UPDATE monitored_outbox SET status = 'in_progress', attempt_count = attempt_count + 1, visible_at = ?,
  receipt = ?, worker = ?
WHERE id IN ? AND visible_at <= ?`

	underReceipt = ` id IN ? AND receipt = ? AND status = 'in_progress'`

	sqlFinish = `
UPDATE monitored_outbox SET status = ?, visible_at = ?, error_message = ?, attempt_count = attempt_count - ?,
  finished_at = ?
WHERE` + underReceipt

	sqlExtend = `UPDATE monitored_outbox SET visible_at = ? WHERE` + underReceipt

	sqlStand = `SELECT id, receipt FROM monitored_outbox WHERE id IN ? AND receipt IN ? AND status = ?`
)

// What an operator does, by PRIMARY KEY (id).
const (
	sqlEntry = `SELECT ` + entryColumns + ` FROM monitored_outbox WHERE id = ?`

	// Of monitored_emails, by PRIMARY KEY.
	sqlPausedUntil = `SELECT actions_at FROM monitored_emails WHERE id = ? AND actions_at > ?`

	sqlToChange = `SELECT id, task_id, inbox_id, kind, destination, action FROM monitored_outbox
WHERE id IN ? AND status IN ?`

	// An event that could not be made has nothing to send.
	sqlToRetry = sqlToChange + ` AND (action <> '' OR LENGTH(body) > 0)`

	sqlRetry = `
UPDATE monitored_outbox SET status = 'waiting', attempt_count = 0, visible_at = ?, receipt = '', error_message = '',
  finished_at = NULL, created_at = ?
WHERE id IN ? AND status IN ('waiting', 'dead', 'skipped')`

	sqlSkip = `
UPDATE monitored_outbox SET status = 'skipped', visible_at = NULL, receipt = '', error_message = ?, finished_at = ?
WHERE id IN ? AND status IN ('waiting', 'dead')`

	// By monitored_outbox_claim.
	sqlSkipOrphans = `
UPDATE monitored_outbox SET status = 'skipped', visible_at = NULL, receipt = '', error_message = ?, finished_at = ?
WHERE destination = ? AND visible_at > 0 AND inbox_id NOT IN (SELECT id FROM monitored_emails)`

	sqlPurge = `DELETE FROM monitored_outbox WHERE id IN ? AND status IN ('done', 'dead', 'skipped')`

	// By monitored_outbox_ended (finished_at). Dead entries are kept, so the query leaves them out.
	sqlOld = `SELECT id FROM monitored_outbox
WHERE finished_at < ? AND status IN ('done', 'skipped') ORDER BY finished_at LIMIT ?`

	// Reads the whole table, which has what retention leaves.
	sqlStats = `
SELECT destination, status, COUNT(*), COUNT(NULLIF(error_message, '')), MIN(created_at)
FROM monitored_outbox GROUP BY destination, status ORDER BY 1, 2`
)

// Destinations, by PRIMARY KEY (name).
const (
	destinationColumns = "target, failures, retry_at, gone, last_error"

	sqlDestinations = `SELECT name, ` + destinationColumns + ` FROM monitored_destinations`

	sqlDestination = sqlDestinations + ` WHERE name = ?`

	sqlEndPauses = `
UPDATE monitored_destinations SET retry_at = 0 WHERE name IN (SELECT destination FROM monitored_outbox WHERE id IN ?)`

	sqlEndPausesOfInboxes = `
UPDATE monitored_emails SET actions_at = 0
WHERE id IN (SELECT inbox_id FROM monitored_outbox WHERE id IN ? AND destination = ?)`

	sqlForgetDestination = `DELETE FROM monitored_destinations WHERE name = ?`
)
