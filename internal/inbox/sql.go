package inbox

// All SQL of this package. One text serves MySQL, MariaDB and SQLite.

const (
	sqlInboxColumns = `SELECT id, email_address, email_password, description, is_active, host, port, security,
		allow_plaintext, username, auth, start, last_error, created_at, updated_at, last_scanned_at FROM monitored_emails `

	sqlListInboxes       = sqlInboxColumns + `ORDER BY email_address`
	sqlListActiveInboxes = sqlInboxColumns + `WHERE is_active = 1 ORDER BY email_address`
	sqlGetInbox          = sqlInboxColumns + `WHERE email_address = ?` // UNIQUE (email_address)
	sqlAddresses         = `SELECT email_address FROM monitored_emails`

	sqlInsertInbox = `INSERT INTO monitored_emails (email_address, email_password, description, is_active, host, port,
		security, allow_plaintext, username, auth, start, last_error, scan_holder, scan_token, scan_until, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', '', 0, 0, ?, ?)`
	sqlUpdateInbox = `UPDATE monitored_emails SET email_password = ?, description = ?, host = ?, port = ?,
		security = ?, allow_plaintext = ?, username = ?, auth = ?, start = ?, updated_at = ? WHERE id = ?`

	sqlEnableInbox = `UPDATE monitored_emails SET is_active = 1, updated_at = ? WHERE id = ?` // the queue disables it, and removes it

	// A few hundred inboxes at most: no index needed.
	sqlCountSealedElsewhere = `SELECT COUNT(*) FROM monitored_emails WHERE email_password LIKE 'v1:%' AND email_address <> ?`
)

const (
	// UNIQUE (inbox_id, name)
	sqlListFolders = `SELECT id, inbox_id, name, is_active, uid_validity, last_seen_uid, start_uid, baseline_uid,
		initialized_at, last_scanned_at FROM monitored_folders WHERE inbox_id IN ? ORDER BY inbox_id, name`
	sqlInsertFolder = `INSERT INTO monitored_folders (inbox_id, name, is_active, uid_validity, last_seen_uid, start_uid, baseline_uid)
		VALUES (?, ?, 1, 0, 0, 0, 0)`
	sqlWatchFolders = `UPDATE monitored_folders SET is_active = CASE WHEN name IN ? THEN 1 ELSE 0 END WHERE inbox_id = ?`
)

const (
	// MySQL assigns from left to right, SQLite all at once: scan_token, first, sees the old holder on both.
	sqlAcquireScan = `UPDATE monitored_emails SET scan_token = scan_token + CASE WHEN scan_holder = ? THEN 0 ELSE 1 END,
		scan_holder = ?, scan_until = ? WHERE id = ? AND (scan_holder = ? OR scan_until <= ?)`
	sqlGetScan = `SELECT scan_holder, scan_token, scan_until FROM monitored_emails WHERE id = ?`
	// One microsecond more, so that the row changes: see Scan.held.
	sqlHoldScan    = `UPDATE monitored_emails SET scan_until = scan_until + 1 WHERE id = ? AND scan_token = ?`
	sqlRenewScan   = `UPDATE monitored_emails SET scan_until = ? WHERE id = ? AND scan_token = ? AND scan_holder <> ''`
	sqlPauseScan   = `UPDATE monitored_emails SET scan_holder = ?, scan_until = ? WHERE id = ? AND scan_token = ? AND scan_holder <> ''`
	sqlReleaseScan = `UPDATE monitored_emails SET scan_holder = '', scan_until = 0 WHERE id = ? AND scan_token = ?`

	sqlScanDone = `UPDATE monitored_emails SET last_scanned_at = ?, last_error = '', failed_scans = 0, failing_since = NULL,
		outage_until = CASE WHEN outage_until IS NULL AND outage_since IS NOT NULL THEN ? ELSE outage_until END
		WHERE id = ? AND scan_token = ? AND scan_holder <> ''`
	// failing_since stands before failed_scans, as MySQL assigns.
	sqlScanFailed = `UPDATE monitored_emails SET last_error = ?,
		failing_since = CASE WHEN failed_scans = 0 THEN ? ELSE failing_since END, failed_scans = failed_scans + 1
		WHERE id = ? AND scan_token = ? AND scan_holder <> ''`
	sqlOutage = `UPDATE monitored_emails SET outage_since = failing_since, outage_until = NULL
		WHERE id = ? AND failed_scans >= ?`
)

// PRIMARY KEY (inbox_id, host)
const (
	sqlEndedHelp   = `DELETE FROM monitored_emails_helpers WHERE inbox_id = ? AND (until <= ? OR host = ? AND (until <= ? OR holder = ?))`
	sqlAcquireHelp = `INSERT INTO monitored_emails_helpers (inbox_id, host, holder, until) VALUES (?, ?, ?, ?)`
	sqlRenewHelp   = `UPDATE monitored_emails_helpers SET until = ? WHERE inbox_id = ? AND host = ? AND holder = ?`
	sqlReleaseHelp = `DELETE FROM monitored_emails_helpers WHERE inbox_id = ? AND host = ? AND holder = ?`
)

const (
	sqlInitializeFolder = `UPDATE monitored_folders SET uid_validity = ?, last_seen_uid = ?, start_uid = ?, baseline_uid = 0,
		initialized_at = ? WHERE id = ? AND initialized_at IS NULL`
	sqlResetEpoch = `UPDATE monitored_folders SET uid_validity = ?, last_seen_uid = 0, start_uid = 0, baseline_uid = 0
		WHERE id = ? AND uid_validity = ? AND initialized_at IS NOT NULL`
	sqlGetCursor     = `SELECT uid_validity, last_seen_uid, start_uid, initialized_at FROM monitored_folders WHERE id = ?`
	sqlFolderScanned = `UPDATE monitored_folders SET last_scanned_at = ? WHERE id = ?`

	sqlRewindFolder = `UPDATE monitored_folders SET
		last_seen_uid = CASE WHEN last_seen_uid > ? THEN ? ELSE last_seen_uid END,
		start_uid     = CASE WHEN start_uid > ? THEN ? ELSE start_uid END,
		baseline_uid  = CASE WHEN baseline_uid > ? THEN ? ELSE baseline_uid END
		WHERE id = ? AND uid_validity = ? AND initialized_at IS NOT NULL`
	// PRIMARY KEY (folder_id, uid_validity, uid) finds what was there before the start, and
	// monitored_emails_seen_fingerprint its rows in older epochs.
	sqlUnregistered       = `SELECT DISTINCT fingerprint FROM monitored_emails_seen WHERE folder_id = ? AND uid_validity = ? AND uid > ? AND task_id = 0`
	sqlForgetUnregistered = `DELETE FROM monitored_emails_seen
		WHERE fingerprint IN ? AND folder_id = ? AND task_id = 0 AND (uid_validity <> ? OR uid > ?)`
)
