package inbox

// All SQL of this package. One text serves MySQL, MariaDB and SQLite.

const (
	inboxColumns = `id, email_address, email_password, description, is_active, host, port, security,
		allow_plaintext, allow_delete, username, auth, ca_file, tls_fingerprint, client_cert, start,
		last_error, failing_since, created_at, updated_at, last_scanned_at`
	sqlInboxes = `SELECT ` + inboxColumns + ` FROM monitored_emails `

	sqlListInboxes = sqlInboxes + `ORDER BY email_address`
	sqlGetInbox    = sqlInboxes + `WHERE email_address = ?` // UNIQUE (email_address)
	sqlInboxesByID = sqlInboxes + `WHERE id IN ?`           // PRIMARY KEY
	sqlAddresses   = `SELECT email_address FROM monitored_emails`
	// UNIQUE (email_address)
	sqlIDs = `SELECT id, email_address FROM monitored_emails WHERE email_address IN ? ORDER BY id`

	sqlTouchInbox  = `UPDATE monitored_emails SET updated_at = ? WHERE id = ?`
	sqlUpdateInbox = `UPDATE monitored_emails SET email_password = ?, description = ?, host = ?, port = ?,
		security = ?, allow_plaintext = ?, allow_delete = ?, username = ?, auth = ?, ca_file = ?,
		tls_fingerprint = ?, client_cert = ?, start = ?, actions_at = 0, updated_at = ? WHERE id = ?`

	// An outage from before it was disabled is over: one that is found now is reported again.
	sqlEnableInbox = `UPDATE monitored_emails SET is_active = 1, failed_scans = 0, failing_since = NULL,
		outage_since = NULL, outage_until = NULL, actions_at = 0, updated_at = ? WHERE id = ? AND is_active = 0`
	sqlRecord = `INSERT INTO monitored_emails_events (task_id, inbox_id, at, worker, event, detail)
		VALUES (0, ?, ?, ?, ?, ?)`

	// Reads both tables; they have a row for each inbox only.
	sqlCountSealedElsewhere = `SELECT
		(SELECT COUNT(*) FROM monitored_emails WHERE email_password LIKE 'v1:%' AND email_address <> ?) +
		(SELECT COUNT(*) FROM oauth_tokens WHERE sealed <> '')`
)

const (
	// PRIMARY KEY (inbox_id, name)
	sqlListLabels   = `SELECT inbox_id, name, value FROM monitored_labels WHERE inbox_id IN ?`
	sqlDeleteLabels = `DELETE FROM monitored_labels WHERE inbox_id = ?`
	labelColumns    = "inbox_id, name, value"
)

const (
	// UNIQUE (inbox_id, name)
	sqlListFolders = `SELECT id, inbox_id, name, is_active, uid_validity, last_seen_uid, start_uid, baseline_uid,
		reconciled, initialized_at, last_scanned_at FROM monitored_folders WHERE inbox_id IN ? ORDER BY inbox_id, name`
	folderColumns = "inbox_id, name, is_active, uid_validity, last_seen_uid, start_uid, baseline_uid, " +
		"reconciled, changes"
	// Of a folder that was not watched, a new epoch that was not compared to the end has messages
	// behind the cursor that were not registered. It begins another one, whatever a run that
	// compares it does meanwhile.
	sqlWatchFolders = `UPDATE monitored_folders SET
		reconciled = CASE WHEN is_active = 0 AND reconciled <> uid_validity THEN -2 ELSE reconciled END,
		is_active = CASE WHEN name IN ? THEN 1 ELSE 0 END
		WHERE inbox_id = ?`
)

const (
	// MySQL assigns from left to right, SQLite all at once. So scan_token comes first: it needs the
	// old scan_holder.
	sqlAcquireScan = `UPDATE monitored_emails SET scan_token = scan_token + CASE WHEN scan_holder = ? THEN 0 ELSE 1 END,
		scan_holder = ?, scan_until = ? WHERE id IN ? AND (scan_holder = ? OR scan_until <= ?)`
	sqlGetScans = `SELECT scan_holder, scan_token, scan_until, ` + inboxColumns + ` FROM monitored_emails WHERE id IN ?`
	// A pause is not a lease.
	underLease = ` WHERE id = ? AND scan_token = ? AND scan_holder NOT IN ('', '` + paused + `')`
	// One microsecond more, so that the row changes: see Scan.held.
	sqlHoldScan    = `UPDATE monitored_emails SET scan_until = scan_until + 1 WHERE id = ? AND scan_token = ?`
	sqlRenewScan   = `UPDATE monitored_emails SET scan_until = ?` + underLease
	sqlReleaseScan = `UPDATE monitored_emails SET scan_holder = '', scan_until = 0 WHERE id = ? AND scan_token = ?`

	scanEnds = `scan_holder = ?, scan_until = ?` + underLease

	sqlScanInterrupted = `UPDATE monitored_emails SET ` + scanEnds

	scanDone = `UPDATE monitored_emails SET last_scanned_at = ?, last_error = '', failed_scans = 0,
		failing_since = NULL,
		outage_until = CASE WHEN outage_until IS NULL AND outage_since IS NOT NULL THEN ? ELSE outage_until END, `
	sqlScanDone = scanDone + scanEnds
	// It goes on with aLease, for each scan.
	sqlScansDone = scanDone + `scan_holder = '', scan_until = 0 WHERE scan_holder NOT IN ('', '` + paused + `') AND `
	aLease       = `id = ? AND scan_token = ?`
	// A failure of the other kind (a login is needed, or not) begins to count again. MySQL assigns
	// from left to right, so what is compared with is set last.
	sqlScanFailed = `UPDATE monitored_emails SET last_error = ?,
		failing_since = CASE WHEN failed_scans = 0 OR login_needed <> ? THEN ? ELSE failing_since END,
		failed_scans = CASE WHEN login_needed <> ? THEN 1 ELSE failed_scans + 1 END, login_needed = ?,
		` + scanEnds
	// If the last failures are of the other kind, too few to begin an outage, the outage is as it
	// began.
	sqlTroubles = `SELECT id, CASE WHEN outage_since IS NULL OR outage_until IS NOT NULL THEN 'inbox_ok'
		WHEN login_needed = 1 OR failing_since > outage_since THEN 'needs_login'
		ELSE 'inbox_unreachable' END FROM monitored_emails WHERE id IN ?`
	sqlOutage = `UPDATE monitored_emails SET outage_since = failing_since, outage_until = NULL
		WHERE id = ? AND (failed_scans >= ? OR login_needed = 1)`
)

const (
	sqlInitializeFolder = `UPDATE monitored_folders SET uid_validity = ?, last_seen_uid = ?, start_uid = ?,
		baseline_uid = 0, reconciled = ?, initialized_at = ? WHERE id = ? AND initialized_at IS NULL`
	sqlResetEpoch = `UPDATE monitored_folders SET uid_validity = ?, last_seen_uid = 0, start_uid = 0, baseline_uid = 0,
		reconciled = 0
		WHERE id = ? AND uid_validity = ? AND initialized_at IS NOT NULL`
	// A folder that is distrusted stays so until it begins a new epoch. Of one that is not watched
	// only known messages were registered, so its cursor begins again.
	sqlReconciled = `UPDATE monitored_folders SET reconciled = CASE WHEN reconciled < 0 THEN reconciled ELSE ? END,
		last_seen_uid = CASE WHEN is_active = 0 THEN 0 ELSE last_seen_uid END
		WHERE id = ? AND uid_validity = ?`
	sqlDistrust  = `UPDATE monitored_folders SET reconciled = -1 WHERE id = ? AND uid_validity = ?`
	sqlGetCursor = `SELECT uid_validity, last_seen_uid, start_uid, initialized_at
		FROM monitored_folders WHERE id = ?`
	sqlFoldersScanned = `UPDATE monitored_folders SET last_scanned_at = ? WHERE id IN ?`

	sqlRewindFolder = `UPDATE monitored_folders SET
		last_seen_uid = CASE WHEN last_seen_uid > ? THEN ? ELSE last_seen_uid END,
		start_uid     = CASE WHEN start_uid > ? THEN ? ELSE start_uid END,
		baseline_uid  = CASE WHEN baseline_uid > ? THEN ? ELSE baseline_uid END
		WHERE id = ? AND uid_validity = ? AND initialized_at IS NOT NULL`
	// PRIMARY KEY (folder_id, uid_validity, uid) serves the first,
	// monitored_emails_seen_fingerprint the second.
	sqlUnregistered = `SELECT DISTINCT fingerprint FROM monitored_emails_seen
		WHERE folder_id = ? AND uid_validity = ? AND uid > ? AND task_id = 0`
	sqlForgetUnregistered = `DELETE FROM monitored_emails_seen
		WHERE fingerprint IN ? AND folder_id = ? AND task_id = 0 AND (uid_validity <> ? OR uid > ?)`
)

const (
	// PRIMARY KEY (inbox_id)
	sqlAudits = `SELECT inbox_id, started_at, duration_ms, ran_by, messages, accounted, unaccounted,
		clean, summary, error_message, findings FROM monitored_audits WHERE inbox_id IN ?`
	// It inserts nothing when the inbox is gone.
	sqlKeepAudit = `REPLACE INTO monitored_audits (inbox_id, started_at, duration_ms, ran_by, messages,
		accounted, unaccounted, clean, summary, error_message, findings)
		SELECT id, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM monitored_emails WHERE id = ?`
	// It inserts nothing when an earlier attempt was committed. monitored_emails_events_kind serves
	// the condition.
	sqlAuditBegins = `INSERT INTO monitored_emails_events (task_id, inbox_id, at, worker, event, detail)
		SELECT 0, id, ?, ?, 'audit_started', ? FROM monitored_emails WHERE id = ? AND NOT EXISTS
		(SELECT 1 FROM monitored_emails_events WHERE event = 'audit_started' AND inbox_id = ? AND at = ?)`
)
