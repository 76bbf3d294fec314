-- +goose Up

-- Times that people read are DATETIME(6) in UTC. Times that SQL compares (visible_at, scan_until)
-- are microseconds since 1970 by the database's clock. Identities are binary: a default collation
-- would merge <AbC@x> and <abc@x>.
--
-- MySQL commits DDL statement by statement: IF NOT EXISTS lets a migration that was killed run again.

CREATE TABLE IF NOT EXISTS monitored_emails (
    id              BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    email_address   VARCHAR(320) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    email_password  TEXT         NOT NULL, -- the password, or where it is (env:, file:, command:); encrypted for host, port, security, username and certificates
    description     TEXT         NOT NULL,
    is_active       TINYINT      NOT NULL,
    host            VARCHAR(255) NOT NULL,
    port            INT          NOT NULL,
    security        VARCHAR(16)  NOT NULL, -- tls, starttls, none
    allow_plaintext TINYINT      NOT NULL, -- 1: security none is allowed for a host other than loopback
    allow_delete    TINYINT      NOT NULL DEFAULT 0, -- 1: messages may be deleted on the server (after)
    username        VARCHAR(320) NOT NULL,
    auth            VARCHAR(16)  NOT NULL, -- auto, plain, login
    ca_file         VARCHAR(1024) NOT NULL DEFAULT '', -- a file with certificates to trust besides the system's
    tls_fingerprint VARCHAR(128) NOT NULL DEFAULT '', -- of the only certificate that is accepted: sha256:HEX
    client_cert     VARCHAR(1024) NOT NULL DEFAULT '', -- a file with a certificate to show to the server, and its key
    start           VARCHAR(32)  NOT NULL, -- where a folder's cursor begins: latest, now, all, since:YYYY-MM-DD
    last_error      TEXT         NOT NULL, -- why the last scan did not complete; empty when it did
    failed_scans    INT          NOT NULL DEFAULT 0, -- the last ones in a row
    failing_since   DATETIME(6)  NULL,     -- when the first of these ended
    outage_since    DATETIME(6)  NULL,     -- of the latest outage: enough failed scans in a row
    outage_until    DATETIME(6)  NULL,     -- NULL while it lasts
    login_needed    INT          NOT NULL DEFAULT 0, -- 1: the last failed scan found that a person has to log in (OAuth2)
    scan_holder     VARCHAR(255) NOT NULL, -- who scans this inbox now; empty when nobody does
    scan_token      BIGINT       NOT NULL, -- grows by one each time the scan lease changes hands
    scan_until      BIGINT       NOT NULL, -- end of the scan lease
    actions_at      BIGINT       NOT NULL DEFAULT 0, -- nothing is done on its server (after) before; 0: no pause
    created_at      DATETIME(6)  NOT NULL,
    updated_at      DATETIME(6)  NOT NULL,
    last_scanned_at DATETIME(6)  NULL,
    UNIQUE KEY monitored_emails_address (email_address)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- What operators group inboxes by.
CREATE TABLE IF NOT EXISTS monitored_labels (
    inbox_id BIGINT      NOT NULL,
    name     VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    value    VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    PRIMARY KEY (inbox_id, name),
    CONSTRAINT monitored_labels_inbox FOREIGN KEY (inbox_id) REFERENCES monitored_emails (id) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- What the last audit of an inbox found. One row for each inbox that was audited.
CREATE TABLE IF NOT EXISTS monitored_audits (
    inbox_id      BIGINT       NOT NULL PRIMARY KEY,
    started_at    DATETIME(6)  NOT NULL, -- by the clock of the host
    duration_ms   BIGINT       NOT NULL,
    ran_by        VARCHAR(255) NOT NULL,
    messages      BIGINT       NOT NULL, -- on the server
    accounted     BIGINT       NOT NULL, -- of these
    unaccounted   BIGINT       NOT NULL, -- missing or reappeared messages, and tasks that something other than postrider deleted
    clean         TINYINT      NOT NULL, -- 1: all was compared, and every message is accounted for
    summary       TEXT         NOT NULL, -- as `postrider audit` prints it
    error_message TEXT         NOT NULL, -- why not all was compared; empty when the folders say so, or when all was
    findings      MEDIUMTEXT   NOT NULL, -- JSON: a bounded number of what is not accounted for
    CONSTRAINT monitored_audits_inbox FOREIGN KEY (inbox_id) REFERENCES monitored_emails (id) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

CREATE TABLE IF NOT EXISTS monitored_folders (
    id              BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    inbox_id        BIGINT       NOT NULL,
    name            VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    is_active       TINYINT      NOT NULL, -- 0: no longer watched; its registry stays
    uid_validity    BIGINT       NOT NULL, -- the epoch: low 32 bits: the server's; above: how often the folder has begun again
    last_seen_uid   BIGINT       NOT NULL, -- the cursor: everything at or below it is registered
    start_uid       BIGINT       NOT NULL, -- messages at or below it were there before and are not forwarded
    baseline_uid    BIGINT       NOT NULL, -- how far the messages up to start_uid have been noted in monitored_emails_seen
    reconciled      BIGINT       NOT NULL DEFAULT 0, -- the last epoch in which every message was compared with the registry; below 0: begin a new epoch, because the server gave a UID to two messages (-1), or the folder was watched again before it was compared (-2)
    changes         BIGINT       NOT NULL DEFAULT 0, -- grows with each registration and when the inbox is disabled: these conflict on all database nodes
    initialized_at  DATETIME(6)  NULL,
    last_scanned_at DATETIME(6)  NULL,
    UNIQUE KEY monitored_folders_name (inbox_id, name),
    CONSTRAINT monitored_folders_inbox FOREIGN KEY (inbox_id) REFERENCES monitored_emails (id) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

CREATE TABLE IF NOT EXISTS monitored_emails_tasks (
    id            BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    inbox_id      BIGINT       NOT NULL,
    folder_id     BIGINT       NOT NULL,
    uid_validity  BIGINT       NOT NULL,
    uid           BIGINT       NOT NULL,
    message_id    TEXT         NOT NULL,
    fingerprint   BINARY(32)   NOT NULL,
    is_read       TINYINT      NOT NULL DEFAULT 0, -- 1: the fingerprint is that of the content; 0: of the outline
    subject       TEXT         NOT NULL,
    sender        TEXT         NOT NULL,
    email_date    DATETIME(6)  NULL,
    size          BIGINT       NOT NULL,
    revision      VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '', -- of the rules that decided; empty: to be decided (again)
    route         VARCHAR(255) NOT NULL,
    mode          VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '', -- redirect, rewrite, attach, notice; empty while that is not decided
    mode_reason   VARCHAR(500) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '', -- why, where the mode was decided for this message
    priority      TINYINT      NOT NULL, -- 1 high, 0 normal
    status        VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    skip_reason   VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '', -- duplicate, loop, ...; empty in other states
    keep_reason   VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '', -- undecided, unreached, own_copy: why the message must stay on its server; mostly empty
    in_doubt      TINYINT      NOT NULL DEFAULT 0, -- 1: an operator requeued it while an outcome was unknown
    attempt_count INT          NOT NULL,
    lost_leases   INT          NOT NULL,
    visible_at    BIGINT       NULL,     -- not before; NULL once the task has ended
    receipt       VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- of the last claim
    worker        VARCHAR(255) NOT NULL, -- who made the last claim
    error_message TEXT         NOT NULL, -- the last error, or why nobody gets it
    created_at    DATETIME(6)  NOT NULL,
    queued_at     DATETIME(6)  NOT NULL, -- registered, or requeued by an operator: retry.give_up_after counts from here
    updated_at    DATETIME(6)  NOT NULL,
    finished_at   DATETIME(6)  NULL,
    UNIQUE KEY monitored_emails_tasks_message (folder_id, uid_validity, uid),
    KEY monitored_emails_tasks_claim (inbox_id, priority, visible_at, id),
    -- Counts by state, finds what ended long ago, and counts retries without reading the tasks.
    KEY monitored_emails_tasks_ended (inbox_id, status, finished_at, attempt_count),
    CONSTRAINT monitored_emails_tasks_folder FOREIGN KEY (folder_id) REFERENCES monitored_folders (id) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

CREATE TABLE IF NOT EXISTS monitored_emails_deliveries (
    task_id      BIGINT       NOT NULL,
    recipient    VARCHAR(320) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    status       VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- pending, sending, delivered, failed, duplicate
    duplicate_of BIGINT       NULL,     -- the task by which the recipient has the same content; of a pending delivery: whose delivery it waits for
    code         INT          NOT NULL, -- the relay's last reply code; 0 when there was none
    reply        TEXT         NOT NULL,
    attempts     INT          NOT NULL,
    delivered_at DATETIME(6)  NULL,
    PRIMARY KEY (task_id, recipient),
    KEY monitored_emails_deliveries_duplicate (duplicate_of),
    CONSTRAINT monitored_emails_deliveries_task FOREIGN KEY (task_id) REFERENCES monitored_emails_tasks (id) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- What became of deliveries after the relay had accepted them, as reports say. Most deliveries have no row.
CREATE TABLE IF NOT EXISTS monitored_emails_arrivals (
    task_id     BIGINT       NOT NULL,
    recipient   VARCHAR(320) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    inbox_id    BIGINT       NOT NULL,
    status      VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- delayed, relayed, confirmed, complained, bounced
    code        INT          NOT NULL, -- of the remote server's reply; 0 when unknown
    enhanced    VARCHAR(32)  NOT NULL, -- its enhanced status code; empty when unknown
    reply       TEXT         NOT NULL,
    remote      VARCHAR(255) NOT NULL, -- the remote server; empty when unknown
    target      VARCHAR(320) NOT NULL, -- the mailbox that it is about, such as a member of an alias; empty if that is the recipient
    at          DATETIME(6)  NOT NULL, -- when it happened
    reported_at DATETIME(6)  NOT NULL,
    PRIMARY KEY (task_id, recipient),
    KEY monitored_emails_arrivals_inbox (inbox_id, status, reported_at, task_id),
    KEY monitored_emails_arrivals_status (status, reported_at, recipient),
    CONSTRAINT monitored_emails_arrivals_task FOREIGN KEY (task_id) REFERENCES monitored_emails_tasks (id) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- Who delivers which content to whom: a delivery goes out only while its task owns the row. A row
-- outlives its task when that was purged. With dedupe off there are none.
CREATE TABLE IF NOT EXISTS monitored_emails_once (
    scope       BIGINT       NOT NULL, -- 0: all inboxes; otherwise the inbox
    fingerprint BINARY(32)   NOT NULL, -- of the content
    recipient   VARCHAR(320) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, -- its domain in ASCII and lower case
    task_id     BIGINT       NOT NULL, -- no foreign key; below 0: that task was purged, and the row stays
    PRIMARY KEY (scope, fingerprint, recipient),
    KEY monitored_emails_once_task (task_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

CREATE TABLE IF NOT EXISTS monitored_emails_events (
    id       BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    task_id  BIGINT       NOT NULL,           -- no foreign key: the audit trail outlives the task; 0 for what an operator did to an inbox
    inbox_id BIGINT       NOT NULL DEFAULT 0, -- of a line about an inbox; 0 in those of tasks
    at       DATETIME(6)  NOT NULL,
    worker   VARCHAR(255) NOT NULL,
    event    VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    detail   TEXT         NOT NULL,
    KEY monitored_emails_events_task (task_id, id),
    KEY monitored_emails_events_kind (event, at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- The ledger: one row for every message ever accounted for, registered or there before the start. It outlives purged tasks.
CREATE TABLE IF NOT EXISTS monitored_emails_seen (
    folder_id    BIGINT      NOT NULL,
    uid_validity BIGINT      NOT NULL,
    uid          BIGINT      NOT NULL,
    inbox_id     BIGINT      NOT NULL,
    task_id      BIGINT      NOT NULL, -- 0: there before the start, never registered
    fingerprint  BINARY(32)  NOT NULL, -- of the content; of the outline while the message is not read, or was there before the start
    received     BIGINT      NULL, -- INTERNALDATE in seconds since 1970, as the server says; NULL when unknown
    size         BIGINT      NOT NULL DEFAULT 0, -- RFC822.SIZE in octets, as the server says; 0 when unknown
    purged_as    VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '', -- how its task ended, once that is purged; empty when others deleted it
    PRIMARY KEY (folder_id, uid_validity, uid),
    KEY monitored_emails_seen_fingerprint (fingerprint),
    KEY monitored_emails_seen_task (task_id),
    CONSTRAINT monitored_emails_seen_folder FOREIGN KEY (folder_id) REFERENCES monitored_folders (id) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- The directory. It is read whole at the start of a pass: no index needed.
CREATE TABLE IF NOT EXISTS contacts (
    id        BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name      VARCHAR(255) NOT NULL,
    email     VARCHAR(320) NOT NULL, -- empty: known, and has no address
    identity  VARCHAR(330) NULL UNIQUE, -- email:ADDRESS in lower case, or name:NAME; NULL: written by hand
    keywords  TEXT         NOT NULL, -- separated by ;
    is_active TINYINT      NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- What was sent through a relay lately, for smtp.limits. One row each, always found by its key.
CREATE TABLE IF NOT EXISTS relay_usage (
    relay VARCHAR(700) NOT NULL PRIMARY KEY, -- user@host:port
    used  MEDIUMTEXT   NOT NULL              -- JSON: recipients by window and slice of time ("sent"), and of transactions under way ("open")
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- What passes measured, as sums over all processes: for metrics and status.
CREATE TABLE IF NOT EXISTS monitored_measures (
    name     VARCHAR(64) NOT NULL,
    inbox_id BIGINT      NOT NULL, -- 0: all inboxes, or the relay. No foreign key; a later pass deletes rows of a removed inbox
    label    VARCHAR(64) NOT NULL, -- which one of that name: a result and a reply class, or a bucket
    value    DOUBLE      NOT NULL,
    PRIMARY KEY (name, inbox_id, label)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Which states passes have printed: what cron mails. Times are microseconds since 1970 by the database's clock.
CREATE TABLE IF NOT EXISTS monitored_said (
    subject VARCHAR(400) NOT NULL PRIMARY KEY, -- inbox:ADDRESS, relay, alert:KIND:ADDRESS, ...
    since   BIGINT       NOT NULL, -- when it was said first
    said_at BIGINT       NOT NULL  -- when it was said last; whoever changes it says it
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Which failures were reported, and to whom: the state that was reported last.
CREATE TABLE IF NOT EXISTS monitored_emails_told (
    channel VARCHAR(320) NOT NULL, -- hook, or mail: and an address
    kind    VARCHAR(16)  NOT NULL, -- task, bounce, inbox, recipient
    ref_id  BIGINT       NOT NULL, -- the ID of the task, inbox or recipient, so no foreign key; the next report deletes rows whose task, inbox or recipient is gone
    at      DATETIME(6)  NOT NULL, -- when the task ended, or the inbox's outage began or ended
    PRIMARY KEY (channel, kind, ref_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Where failures are reported to, and which run reports now. Times are microseconds since 1970 by the database's clock.
CREATE TABLE IF NOT EXISTS monitored_emails_channels (
    channel    VARCHAR(320) NOT NULL PRIMARY KEY,
    told_at    BIGINT       NOT NULL, -- of the last report; 0 before the first
    failures   INT          NOT NULL, -- failed reports in a row
    failed_at  BIGINT       NOT NULL,
    last_error TEXT         NOT NULL, -- empty when the last report did not fail
    holder     VARCHAR(255) NOT NULL, -- the run that reports now; empty when none does
    held_at    BIGINT       NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- OAuth2 tokens: of inboxes, of the relay, and of applications that act for themselves. Found by their key.
CREATE TABLE IF NOT EXISTS oauth_tokens (
    account      VARCHAR(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY, -- inbox:ID, relay, app:NAME:USE
    inbox_id     BIGINT NULL, -- of inbox:ID
    app          VARCHAR(64) NOT NULL, -- the application's name in the configuration
    sealed       TEXT NOT NULL, -- JSON, encrypted; empty before the first token
    generation   BIGINT NOT NULL, -- grows with each token
    login_needed TEXT NOT NULL, -- why a person has to log in; empty when nobody has to
    holder       VARCHAR(255) NOT NULL, -- who renews the token; empty when nobody does
    held_until   BIGINT NOT NULL, -- end of the holder's lease, in microseconds since 1970 by the database's clock
    KEY oauth_tokens_of_inbox (inbox_id),
    CONSTRAINT oauth_tokens_inbox FOREIGN KEY (inbox_id) REFERENCES monitored_emails (id) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- What has happened, noted in the transaction in which it happened, until it is known what follows.
CREATE TABLE IF NOT EXISTS monitored_occurrences (
    id       BIGINT      NOT NULL AUTO_INCREMENT PRIMARY KEY,
    kind     VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- registered, forwarded, dead, ..., inbox_unreachable
    task_id  BIGINT      NOT NULL, -- no foreign key; 0: to an inbox
    inbox_id BIGINT      NOT NULL, -- no foreign key; 0: to a task
    at       BIGINT      NOT NULL -- microseconds since 1970 by the database's clock
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- The headers of messages, while a destination of events includes them.
CREATE TABLE IF NOT EXISTS monitored_emails_headers (
    task_id    BIGINT      NOT NULL PRIMARY KEY,
    created_at DATETIME(6) NOT NULL, -- when the task was registered
    header     MEDIUMBLOB  NOT NULL, -- JSON: the fields in order, at most 64 KiB of them
    KEY monitored_emails_headers_created (created_at),
    CONSTRAINT monitored_emails_headers_task FOREIGN KEY (task_id) REFERENCES monitored_emails_tasks (id) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- What follows: events for other systems, and actions on the IMAP server. One row for each occurrence and destination.
CREATE TABLE IF NOT EXISTS monitored_outbox (
    id            BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    occurrence_id BIGINT       NOT NULL, -- the row of monitored_occurrences that it took the place of
    destination   VARCHAR(64)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, -- a name of events in the configuration; imap: an action on the server
    event_id      VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- the same in all tries
    kind          VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    task_id       BIGINT       NOT NULL, -- no foreign key; 0: of an inbox
    inbox_id      BIGINT       NOT NULL, -- no foreign key
    action        VARCHAR(400) NOT NULL, -- seen, flag:KEYWORD, move:FOLDER, delete; empty in events
    body          LONGBLOB     NOT NULL, -- a CloudEvent as JSON; empty in actions
    status        VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- waiting, in_progress, done, dead, skipped
    attempt_count INT          NOT NULL,
    visible_at    BIGINT       NULL, -- not before; NULL once it has ended. Microseconds since 1970 by the database's clock
    receipt       VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- of the last claim
    worker        VARCHAR(255) NOT NULL, -- who made the last claim
    error_message TEXT         NOT NULL, -- of the last try
    created_at    DATETIME(6)  NOT NULL,
    finished_at   DATETIME(6)  NULL,
    UNIQUE KEY monitored_outbox_order (task_id, inbox_id, destination, occurrence_id, action),
    KEY monitored_outbox_claim (destination, visible_at, id),
    KEY monitored_outbox_ended (finished_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- Destinations of events that failed lately. Times are microseconds since 1970 by the database's clock.
CREATE TABLE IF NOT EXISTS monitored_destinations (
    name       VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
    target     VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- a digest of where it is: another target starts again without failures
    failures   INT         NOT NULL, -- in a row
    retry_at   BIGINT      NOT NULL, -- nothing is tried before
    gone       TINYINT     NOT NULL, -- 1: it wants no more events
    last_error TEXT        NOT NULL  -- empty when the last try did not fail
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- Recipients whose mail bounced for good repeatedly. Times are microseconds since 1970 by the database's clock.
CREATE TABLE IF NOT EXISTS suspended_recipients (
    id         BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    recipient  VARCHAR(320) NOT NULL UNIQUE, -- its domain in ASCII and lower case
    since      BIGINT       NOT NULL, -- when that was found
    bounces    INT          NOT NULL, -- how many there were then
    why        TEXT         NOT NULL, -- what the last one said
    suspended  TINYINT      NOT NULL, -- 1: nothing is sent to it
    resumed_at BIGINT       NULL -- when an operator resumed it: bounces before that do not count; NULL when nobody did
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- +goose Down
DROP TABLE suspended_recipients;
DROP TABLE monitored_destinations;
DROP TABLE monitored_outbox;
DROP TABLE monitored_emails_headers;
DROP TABLE monitored_occurrences;
DROP TABLE oauth_tokens;
DROP TABLE monitored_emails_channels;
DROP TABLE monitored_emails_told;
DROP TABLE monitored_said;
DROP TABLE monitored_measures;
DROP TABLE relay_usage;
DROP TABLE contacts;
DROP TABLE monitored_emails_seen;
DROP TABLE monitored_emails_events;
DROP TABLE monitored_emails_once;
DROP TABLE monitored_emails_arrivals;
DROP TABLE monitored_emails_deliveries;
DROP TABLE monitored_emails_tasks;
DROP TABLE monitored_folders;
DROP TABLE monitored_audits;
DROP TABLE monitored_labels;
DROP TABLE monitored_emails;
