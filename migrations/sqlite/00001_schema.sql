-- +goose Up

-- Times that people read are text in UTC. Times that SQL compares (visible_at, scan_until)
-- are microseconds since 1970 by the database's clock. Identities are binary: a default collation
-- would merge <AbC@x> and <abc@x>.

CREATE TABLE monitored_emails (
    id              INTEGER  PRIMARY KEY AUTOINCREMENT,
    email_address   TEXT     NOT NULL,
    email_password  TEXT     NOT NULL, -- the password, or where it is (env:, file:, command:); encrypted for host, port, security, username and certificates
    description     TEXT     NOT NULL,
    is_active       INTEGER  NOT NULL,
    host            TEXT     NOT NULL,
    port            INTEGER  NOT NULL,
    security        TEXT     NOT NULL, -- tls, starttls, none
    allow_plaintext INTEGER  NOT NULL, -- 1: security none is allowed for a host other than loopback
    allow_delete    INTEGER  NOT NULL DEFAULT 0, -- 1: messages may be deleted on the server (after)
    username        TEXT     NOT NULL,
    auth            TEXT     NOT NULL, -- auto, plain, login
    ca_file         TEXT     NOT NULL DEFAULT '', -- a file with certificates to trust besides the system's
    tls_fingerprint TEXT     NOT NULL DEFAULT '', -- of the only certificate that is accepted: sha256:HEX
    client_cert     TEXT     NOT NULL DEFAULT '', -- a file with a certificate to show to the server, and its key
    start           TEXT     NOT NULL, -- where a folder's cursor begins: latest, now, all, since:YYYY-MM-DD
    last_error      TEXT     NOT NULL, -- why the last scan did not complete; empty when it did
    failed_scans    INTEGER  NOT NULL DEFAULT 0, -- the last ones in a row
    failing_since   DATETIME NULL, -- when the first of these ended
    outage_since    DATETIME NULL, -- of the latest outage: enough failed scans in a row
    outage_until    DATETIME NULL, -- NULL while it lasts
    login_needed    INTEGER  NOT NULL DEFAULT 0, -- 1: the last failed scan found that a person has to log in (OAuth2)
    scan_holder     TEXT     NOT NULL, -- who scans this inbox now; empty when nobody does
    scan_token      INTEGER  NOT NULL, -- grows by one each time the scan lease changes hands
    scan_until      INTEGER  NOT NULL, -- end of the scan lease
    actions_at      INTEGER  NOT NULL DEFAULT 0, -- nothing is done on its server (after) before; 0: no pause
    created_at      DATETIME NOT NULL,
    updated_at      DATETIME NOT NULL,
    last_scanned_at DATETIME NULL,
    UNIQUE (email_address)
);

-- What operators group inboxes by.
CREATE TABLE monitored_labels (
    inbox_id INTEGER NOT NULL,
    name     TEXT    NOT NULL,
    value    TEXT    NOT NULL,
    PRIMARY KEY (inbox_id, name),
    CONSTRAINT monitored_labels_inbox FOREIGN KEY (inbox_id) REFERENCES monitored_emails (id) ON DELETE CASCADE
);

-- What the last audit of an inbox found. One row for each inbox that was audited.
CREATE TABLE monitored_audits (
    inbox_id      INTEGER  PRIMARY KEY,
    started_at    DATETIME NOT NULL, -- by the clock of the host
    duration_ms   INTEGER  NOT NULL,
    ran_by        TEXT     NOT NULL,
    messages      INTEGER  NOT NULL, -- on the server
    accounted     INTEGER  NOT NULL, -- of these
    unaccounted   INTEGER  NOT NULL, -- missing or reappeared messages, and tasks that something other than postrider deleted
    clean         INTEGER  NOT NULL, -- 1: all was compared, and every message is accounted for
    summary       TEXT     NOT NULL, -- as `postrider audit` prints it
    error_message TEXT     NOT NULL, -- why not all was compared; empty when the folders say so, or when all was
    findings      TEXT     NOT NULL, -- JSON: a bounded number of what is not accounted for
    CONSTRAINT monitored_audits_inbox FOREIGN KEY (inbox_id) REFERENCES monitored_emails (id) ON DELETE CASCADE
);

CREATE TABLE monitored_folders (
    id              INTEGER  PRIMARY KEY AUTOINCREMENT,
    inbox_id        INTEGER  NOT NULL,
    name            TEXT     NOT NULL,
    is_active       INTEGER  NOT NULL, -- 0: no longer watched; its registry stays
    uid_validity    INTEGER  NOT NULL, -- the epoch: low 32 bits: the server's; above: how often the folder has begun again
    last_seen_uid   INTEGER  NOT NULL, -- the cursor: everything at or below it is registered
    start_uid       INTEGER  NOT NULL, -- messages at or below it were there before and are not forwarded
    baseline_uid    INTEGER  NOT NULL, -- how far the messages up to start_uid have been noted in monitored_emails_seen
    reconciled      INTEGER  NOT NULL DEFAULT 0, -- the last epoch in which every message was compared with the registry; below 0: begin a new epoch, because the server gave a UID to two messages (-1), or the folder was watched again before it was compared (-2)
    changes         INTEGER  NOT NULL DEFAULT 0, -- grows with each registration and when the inbox is disabled: these conflict on all database nodes
    initialized_at  DATETIME NULL,
    last_scanned_at DATETIME NULL,
    UNIQUE (inbox_id, name),
    CONSTRAINT monitored_folders_inbox FOREIGN KEY (inbox_id) REFERENCES monitored_emails (id) ON DELETE CASCADE
);

CREATE TABLE monitored_emails_tasks (
    id            INTEGER  PRIMARY KEY AUTOINCREMENT,
    inbox_id      INTEGER  NOT NULL,
    folder_id     INTEGER  NOT NULL,
    uid_validity  INTEGER  NOT NULL,
    uid           INTEGER  NOT NULL,
    message_id    TEXT     NOT NULL,
    fingerprint   BLOB     NOT NULL,
    is_read       INTEGER  NOT NULL DEFAULT 0, -- 1: the fingerprint is that of the content; 0: of the outline
    subject       TEXT     NOT NULL,
    sender        TEXT     NOT NULL,
    email_date    DATETIME NULL,
    size          INTEGER  NOT NULL,
    revision      TEXT     NOT NULL DEFAULT '', -- of the rules that decided; empty: to be decided (again)
    route         TEXT     NOT NULL,
    mode          TEXT     NOT NULL DEFAULT '', -- redirect, rewrite, attach, notice; empty while that is not decided
    mode_reason   TEXT     NOT NULL DEFAULT '', -- why, where the mode was decided for this message
    priority      INTEGER  NOT NULL, -- 1 high, 0 normal
    status        TEXT     NOT NULL,
    skip_reason   TEXT     NOT NULL DEFAULT '', -- duplicate, loop, ...; empty in other states
    keep_reason   TEXT     NOT NULL DEFAULT '', -- undecided, unreached, own_copy: why the message must stay on its server; mostly empty
    in_doubt      INTEGER  NOT NULL DEFAULT 0, -- 1: an operator requeued it while an outcome was unknown
    attempt_count INTEGER  NOT NULL,
    lost_leases   INTEGER  NOT NULL,
    visible_at    INTEGER  NULL, -- not before; NULL once the task has ended
    receipt       TEXT     NOT NULL, -- of the last claim
    worker        TEXT     NOT NULL, -- who made the last claim
    error_message TEXT     NOT NULL, -- the last error, or why nobody gets it
    created_at    DATETIME NOT NULL,
    queued_at     DATETIME NOT NULL, -- registered, or requeued by an operator: retry.give_up_after counts from here
    updated_at    DATETIME NOT NULL,
    finished_at   DATETIME NULL,
    UNIQUE (folder_id, uid_validity, uid),
    CONSTRAINT monitored_emails_tasks_folder FOREIGN KEY (folder_id) REFERENCES monitored_folders (id) ON DELETE CASCADE
);
CREATE INDEX monitored_emails_tasks_claim ON monitored_emails_tasks (inbox_id, priority, visible_at, id) WHERE visible_at IS NOT NULL;
-- Counts by state, finds what ended long ago, and counts retries without reading the tasks.
CREATE INDEX monitored_emails_tasks_ended ON monitored_emails_tasks (inbox_id, status, finished_at, attempt_count);

CREATE TABLE monitored_emails_deliveries (
    task_id      INTEGER  NOT NULL,
    recipient    TEXT     NOT NULL,
    status       TEXT     NOT NULL, -- pending, sending, delivered, failed, duplicate
    duplicate_of INTEGER  NULL, -- the task by which the recipient has the same content; of a pending delivery: whose delivery it waits for
    code         INTEGER  NOT NULL, -- the relay's last reply code; 0 when there was none
    reply        TEXT     NOT NULL,
    attempts     INTEGER  NOT NULL,
    delivered_at DATETIME NULL,
    PRIMARY KEY (task_id, recipient),
    CONSTRAINT monitored_emails_deliveries_task FOREIGN KEY (task_id) REFERENCES monitored_emails_tasks (id) ON DELETE CASCADE
);
CREATE INDEX monitored_emails_deliveries_duplicate ON monitored_emails_deliveries (duplicate_of) WHERE duplicate_of IS NOT NULL;

-- What became of deliveries after the relay had accepted them, as reports say. Most deliveries have no row.
CREATE TABLE monitored_emails_arrivals (
    task_id     INTEGER  NOT NULL,
    recipient   TEXT     NOT NULL,
    inbox_id    INTEGER  NOT NULL,
    status      TEXT     NOT NULL, -- delayed, relayed, confirmed, complained, bounced
    code        INTEGER  NOT NULL, -- of the remote server's reply; 0 when unknown
    enhanced    TEXT     NOT NULL, -- its enhanced status code; empty when unknown
    reply       TEXT     NOT NULL,
    remote      TEXT     NOT NULL, -- the remote server; empty when unknown
    target      TEXT     NOT NULL, -- the mailbox that it is about, such as a member of an alias; empty if that is the recipient
    at          DATETIME NOT NULL, -- when it happened
    reported_at DATETIME NOT NULL,
    PRIMARY KEY (task_id, recipient),
    CONSTRAINT monitored_emails_arrivals_task FOREIGN KEY (task_id) REFERENCES monitored_emails_tasks (id) ON DELETE CASCADE
);
CREATE INDEX monitored_emails_arrivals_inbox ON monitored_emails_arrivals (inbox_id, status, reported_at, task_id);
CREATE INDEX monitored_emails_arrivals_status ON monitored_emails_arrivals (status, reported_at, recipient);

-- Who delivers which content to whom: a delivery goes out only while its task owns the row. A row
-- outlives its task when that was purged. With dedupe off there are none.
CREATE TABLE monitored_emails_once (
    scope       INTEGER  NOT NULL, -- 0: all inboxes; otherwise the inbox
    fingerprint BLOB     NOT NULL, -- of the content
    recipient   TEXT     NOT NULL, -- its domain in ASCII and lower case
    task_id     INTEGER  NOT NULL, -- no foreign key; below 0: that task was purged, and the row stays
    PRIMARY KEY (scope, fingerprint, recipient)
);
CREATE INDEX monitored_emails_once_task ON monitored_emails_once (task_id);

CREATE TABLE monitored_emails_events (
    id       INTEGER  PRIMARY KEY AUTOINCREMENT,
    task_id  INTEGER  NOT NULL, -- no foreign key: the audit trail outlives the task; 0 for what an operator did to an inbox
    inbox_id INTEGER  NOT NULL DEFAULT 0, -- of a line about an inbox; 0 in those of tasks
    at       DATETIME NOT NULL,
    worker   TEXT     NOT NULL,
    event    TEXT     NOT NULL,
    detail   TEXT     NOT NULL
);
CREATE INDEX monitored_emails_events_task ON monitored_emails_events (task_id, id);
CREATE INDEX monitored_emails_events_kind ON monitored_emails_events (event, at);

-- The ledger: one row for every message ever accounted for, registered or there before the start. It outlives purged tasks.
CREATE TABLE monitored_emails_seen (
    folder_id    INTEGER  NOT NULL,
    uid_validity INTEGER  NOT NULL,
    uid          INTEGER  NOT NULL,
    inbox_id     INTEGER  NOT NULL,
    task_id      INTEGER  NOT NULL, -- 0: there before the start, never registered
    fingerprint  BLOB     NOT NULL, -- of the content; of the outline while the message is not read, or was there before the start
    received     INTEGER  NULL, -- INTERNALDATE in seconds since 1970, as the server says; NULL when unknown
    size         INTEGER  NOT NULL DEFAULT 0, -- RFC822.SIZE in octets, as the server says; 0 when unknown
    purged_as    TEXT     NOT NULL DEFAULT '', -- how its task ended, once that is purged; empty when others deleted it
    PRIMARY KEY (folder_id, uid_validity, uid),
    CONSTRAINT monitored_emails_seen_folder FOREIGN KEY (folder_id) REFERENCES monitored_folders (id) ON DELETE CASCADE
);
CREATE INDEX monitored_emails_seen_fingerprint ON monitored_emails_seen (fingerprint);
CREATE INDEX monitored_emails_seen_task ON monitored_emails_seen (task_id);

-- The directory. It is read whole at the start of a pass: no index needed.
CREATE TABLE contacts (
    id        INTEGER  PRIMARY KEY AUTOINCREMENT,
    name      TEXT     NOT NULL,
    email     TEXT     NOT NULL, -- empty: known, and has no address
    identity  TEXT     NULL UNIQUE, -- email:ADDRESS in lower case, or name:NAME; NULL: written by hand
    keywords  TEXT     NOT NULL, -- separated by ;
    is_active INTEGER  NOT NULL
);

-- What was sent through a relay lately, for smtp.limits. One row each, always found by its key.
CREATE TABLE relay_usage (
    relay TEXT     NOT NULL PRIMARY KEY, -- user@host:port
    used  TEXT     NOT NULL              -- JSON: recipients by window and slice of time ("sent"), and of transactions under way ("open")
);

-- What passes measured, as sums over all processes: for metrics and status.
CREATE TABLE monitored_measures (
    name     TEXT    NOT NULL,
    inbox_id INTEGER NOT NULL, -- 0: all inboxes, or the relay. No foreign key; a later pass deletes rows of a removed inbox
    label    TEXT    NOT NULL, -- which one of that name: a result and a reply class, or a bucket
    value    REAL    NOT NULL,
    PRIMARY KEY (name, inbox_id, label)
);

-- Which states passes have printed: what cron mails. Times are microseconds since 1970 by the database's clock.
CREATE TABLE monitored_said (
    subject TEXT    NOT NULL PRIMARY KEY, -- inbox:ADDRESS, relay, alert:KIND:ADDRESS, ...
    since   INTEGER NOT NULL, -- when it was said first
    said_at INTEGER NOT NULL  -- when it was said last; whoever changes it says it
);

-- Which failures were reported, and to whom: the state that was reported last.
CREATE TABLE monitored_emails_told (
    channel TEXT     NOT NULL, -- hook, or mail: and an address
    kind    TEXT     NOT NULL, -- task, bounce, inbox, recipient
    ref_id  INTEGER  NOT NULL, -- the ID of the task, inbox or recipient, so no foreign key; the next report deletes rows whose task, inbox or recipient is gone
    at      DATETIME NOT NULL, -- when the task ended, or the inbox's outage began or ended
    PRIMARY KEY (channel, kind, ref_id)
);

-- Where failures are reported to, and which run reports now. Times are microseconds since 1970 by the database's clock.
CREATE TABLE monitored_emails_channels (
    channel    TEXT     NOT NULL PRIMARY KEY,
    told_at    INTEGER  NOT NULL, -- of the last report; 0 before the first
    failures   INTEGER  NOT NULL, -- failed reports in a row
    failed_at  INTEGER  NOT NULL,
    last_error TEXT     NOT NULL, -- empty when the last report did not fail
    holder     TEXT     NOT NULL, -- the run that reports now; empty when none does
    held_at    INTEGER  NOT NULL
);

-- OAuth2 tokens: of inboxes, of the relay, and of applications that act for themselves. Found by their key.
CREATE TABLE oauth_tokens (
    account      TEXT     NOT NULL PRIMARY KEY, -- inbox:ID, relay, app:NAME:USE
    inbox_id     INTEGER  NULL, -- of inbox:ID
    app          TEXT     NOT NULL, -- the application's name in the configuration
    sealed       TEXT     NOT NULL, -- JSON, encrypted; empty before the first token
    generation   INTEGER  NOT NULL, -- grows with each token
    login_needed TEXT     NOT NULL, -- why a person has to log in; empty when nobody has to
    holder       TEXT     NOT NULL, -- who renews the token; empty when nobody does
    held_until   INTEGER  NOT NULL, -- end of the holder's lease, in microseconds since 1970 by the database's clock
    CONSTRAINT oauth_tokens_inbox FOREIGN KEY (inbox_id) REFERENCES monitored_emails (id) ON DELETE CASCADE
);
CREATE INDEX oauth_tokens_of_inbox ON oauth_tokens (inbox_id);

-- What has happened, noted in the transaction in which it happened, until it is known what follows.
CREATE TABLE monitored_occurrences (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    kind     TEXT    NOT NULL, -- registered, forwarded, dead, ..., inbox_unreachable
    task_id  INTEGER NOT NULL, -- no foreign key; 0: to an inbox
    inbox_id INTEGER NOT NULL, -- no foreign key; 0: to a task
    at       INTEGER NOT NULL  -- microseconds since 1970 by the database's clock
);

-- The headers of messages, while a destination of events includes them.
CREATE TABLE monitored_emails_headers (
    task_id    INTEGER  PRIMARY KEY,
    created_at DATETIME NOT NULL, -- when the task was registered
    header     BLOB     NOT NULL, -- JSON: the fields in order, at most 64 KiB of them
    CONSTRAINT monitored_emails_headers_task FOREIGN KEY (task_id) REFERENCES monitored_emails_tasks (id) ON DELETE CASCADE
);
CREATE INDEX monitored_emails_headers_created ON monitored_emails_headers (created_at);

-- What follows: events for other systems, and actions on the IMAP server. One row for each occurrence and destination.
CREATE TABLE monitored_outbox (
    id            INTEGER  PRIMARY KEY AUTOINCREMENT,
    occurrence_id INTEGER  NOT NULL, -- the row of monitored_occurrences that it took the place of
    destination   TEXT     NOT NULL, -- a name of events in the configuration; imap: an action on the server
    event_id      TEXT     NOT NULL, -- the same in all tries
    kind          TEXT     NOT NULL,
    task_id       INTEGER  NOT NULL, -- no foreign key; 0: of an inbox
    inbox_id      INTEGER  NOT NULL, -- no foreign key
    action        TEXT     NOT NULL, -- seen, flag:KEYWORD, move:FOLDER, delete; empty in events
    body          BLOB     NOT NULL, -- a CloudEvent as JSON; empty in actions
    status        TEXT     NOT NULL, -- waiting, in_progress, done, dead, skipped
    attempt_count INTEGER  NOT NULL,
    visible_at    INTEGER  NULL, -- not before; NULL once it has ended. Microseconds since 1970 by the database's clock
    receipt       TEXT     NOT NULL, -- of the last claim
    worker        TEXT     NOT NULL, -- who made the last claim
    error_message TEXT     NOT NULL, -- of the last try
    created_at    DATETIME NOT NULL,
    finished_at   DATETIME NULL,
    UNIQUE (task_id, inbox_id, destination, occurrence_id, action)
);
CREATE INDEX monitored_outbox_claim ON monitored_outbox (destination, visible_at, id);
CREATE INDEX monitored_outbox_ended ON monitored_outbox (finished_at) WHERE finished_at IS NOT NULL;

-- Destinations of events that failed lately. Times are microseconds since 1970 by the database's clock.
CREATE TABLE monitored_destinations (
    name       TEXT    NOT NULL PRIMARY KEY,
    target     TEXT    NOT NULL, -- a digest of where it is: another target starts again without failures
    failures   INTEGER NOT NULL, -- in a row
    retry_at   INTEGER NOT NULL, -- nothing is tried before
    gone       INTEGER NOT NULL, -- 1: it wants no more events
    last_error TEXT    NOT NULL  -- empty when the last try did not fail
);

-- Recipients whose mail bounced for good repeatedly. Times are microseconds since 1970 by the database's clock.
CREATE TABLE suspended_recipients (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    recipient  TEXT    NOT NULL UNIQUE, -- its domain in ASCII and lower case
    since      INTEGER NOT NULL, -- when that was found
    bounces    INTEGER NOT NULL, -- how many there were then
    why        TEXT    NOT NULL, -- what the last one said
    suspended  INTEGER NOT NULL, -- 1: nothing is sent to it
    resumed_at INTEGER NULL -- when an operator resumed it: bounces before that do not count; NULL when nobody did
);

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
