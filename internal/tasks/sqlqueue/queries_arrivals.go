package sqlqueue

// What became of deliveries after the relay had accepted them. Workers read and write none of it.
const (
	// It makes the change conflict with others of the task. By PRIMARY KEY.
	sqlTouch = `UPDATE monitored_emails_tasks SET ` + touch + ` WHERE id = ?`

	// By the primary keys.
	sqlDeliveryOf = `
SELECT t.inbox_id, t.created_at, t.queued_at, d.status, d.delivered_at, COALESCE(a.status, ''), COALESCE(a.target, '')
FROM monitored_emails_tasks t JOIN monitored_emails_deliveries d ON d.task_id = t.id
LEFT JOIN monitored_emails_arrivals a ON a.task_id = d.task_id AND a.recipient = d.recipient
WHERE t.id = ? AND d.recipient = ?`

	// By PRIMARY KEY (task_id, recipient).
	sqlArrivals = `SELECT ` + arrivalKeys + `, ` + arrivalColumns + ` FROM monitored_emails_arrivals WHERE task_id IN ?`

	// By monitored_emails_arrivals_inbox (inbox_id, status, reported_at, task_id), which has all
	// columns.
	sqlArrivalCounts = `
SELECT inbox_id, status, COUNT(*), COUNT(DISTINCT task_id), SUM(CASE WHEN reported_at > ? THEN 1 ELSE 0 END)
FROM monitored_emails_arrivals WHERE inbox_id IN ? AND status IN ? GROUP BY inbox_id, status`

	// By monitored_emails_arrivals_status (status, reported_at, recipient). The condition is
	// tasks.Arrival.OfMailbox.
	sqlBounces = `
SELECT recipient, COUNT(*) FROM monitored_emails_arrivals WHERE status = 'bounced' AND reported_at > ? AND target = ''
  AND (enhanced LIKE '5.1.%' AND enhanced NOT IN ('5.1.7', '5.1.8') OR enhanced = '5.2.1')
GROUP BY recipient`

	// By PRIMARY KEY. The last condition on the task is sameID of the dialect.
	sqlSentAs = `
SELECT id FROM monitored_emails_tasks WHERE id BETWEEN ? AND ? AND created_at >= ? AND %s ORDER BY id DESC LIMIT ?`

	sameIDOnSQLite = `message_id = ?`
	sameIDOnMySQL  = `CAST(message_id AS BINARY) = ?` // its collation would take <AbC@x> for <abc@x>

	sqlBouncedCandidates = `
SELECT ` + candidateColumns +
		` FROM monitored_emails_tasks WHERE id BETWEEN ? AND ? AND id` + bouncedTasks + ` ORDER BY id DESC LIMIT ?`

	// For a condition on t.id, or id, of tasks. By monitored_emails_arrivals_status.
	bouncedTasks = ` IN (SELECT task_id FROM monitored_emails_arrivals WHERE status = 'bounced')`
)

// Requeueing, by the primary keys. The order of the assignments matters: in MySQL an expression
// sees the new values of the columns to its left.
const (
	sqlTakeAgain = sqlTake + ` AND (status <> 'forwarded' OR EXISTS (
  SELECT 1 FROM monitored_emails_arrivals a WHERE a.task_id = monitored_emails_tasks.id AND a.status = 'bounced'))`

	sqlRequeueDeliveries = `
UPDATE monitored_emails_deliveries SET code = CASE WHEN status = 'delivered' THEN 0 ELSE code END,
  reply = CASE WHEN status = 'delivered' THEN '' ELSE reply END,
  status = 'pending', duplicate_of = NULL, delivered_at = NULL
WHERE task_id = ? AND (status <> 'delivered' OR recipient IN (
  SELECT recipient FROM monitored_emails_arrivals WHERE task_id = ? AND status = 'bounced'))`

	sqlForgetArrivals = `
DELETE FROM monitored_emails_arrivals WHERE task_id = ? AND recipient IN (
  SELECT recipient FROM monitored_emails_deliveries WHERE task_id = ? AND status = 'pending')`
)
