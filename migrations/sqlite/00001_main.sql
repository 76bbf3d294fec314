-- +goose Up

-- Times a person reads are text in UTC. Times that SQL compares (visible_at, scan_until) are microseconds since
-- 1970 by the database's clock. Identities are binary: a default collation would merge <AbC@x> and <abc@x>.

CREATE TABLE monitored_emails (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    email_address   TEXT NOT NULL,
    email_password  TEXT NOT NULL, -- sealed, or env:NAME, or file:PATH; never plain text
    description     TEXT NOT NULL,
    is_active       INTEGER NOT NULL,
    host            TEXT NOT NULL,
    port            INTEGER NOT NULL,
    security        TEXT NOT NULL, -- tls, starttls, none
    allow_plaintext INTEGER NOT NULL, -- 1: security none is allowed for a host other than loopback
    username        TEXT NOT NULL,
    auth            TEXT NOT NULL, -- auto, plain, login
    start           TEXT NOT NULL, -- where a folder's cursor begins: latest, now, all, since:YYYY-MM-DD
    last_error      TEXT NOT NULL, -- why the last scan did not complete; empty when it did
    scan_holder     TEXT NOT NULL, -- who scans this inbox now; empty when nobody does
    scan_token      INTEGER NOT NULL, -- grows by one each time the scan lease changes hands
    scan_until      INTEGER NOT NULL, -- end of the scan lease
    created_at      DATETIME NOT NULL,
    updated_at      DATETIME NOT NULL,
    last_scanned_at DATETIME NULL,
    UNIQUE (email_address)
);

CREATE TABLE monitored_folders (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    inbox_id        INTEGER NOT NULL,
    name            TEXT NOT NULL,
    is_active       INTEGER NOT NULL, -- 0: no longer watched; its registry stays
    uid_validity    INTEGER NOT NULL, -- low 32 bits: the server's; above: how often the folder has begun anew
    last_seen_uid   INTEGER NOT NULL, -- the cursor: everything at or below it is registered
    start_uid       INTEGER NOT NULL, -- messages at or below it were there before and are not forwarded
    baseline_uid    INTEGER NOT NULL, -- how far the messages up to start_uid have been noted in monitored_emails_seen
    initialized_at  DATETIME NULL,
    last_scanned_at DATETIME NULL,
    UNIQUE (inbox_id, name),
    CONSTRAINT monitored_folders_inbox FOREIGN KEY (inbox_id) REFERENCES monitored_emails (id) ON DELETE CASCADE
);

CREATE TABLE monitored_emails_tasks (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    inbox_id      INTEGER NOT NULL,
    folder_id     INTEGER NOT NULL,
    uid_validity  INTEGER NOT NULL,
    uid           INTEGER NOT NULL,
    message_id    TEXT NOT NULL,
    fingerprint   BLOB NOT NULL,
    subject       TEXT NOT NULL,
    sender        TEXT NOT NULL,
    email_date    DATETIME NULL,
    size          INTEGER NOT NULL,
    route         TEXT NOT NULL,
    priority      INTEGER NOT NULL, -- 1 high, 0 normal
    status        TEXT NOT NULL,
    attempt_count INTEGER NOT NULL,
    lost_leases   INTEGER NOT NULL,
    visible_at    INTEGER NULL,     -- not before; NULL once the task has ended
    receipt       TEXT NOT NULL, -- of the last claim
    worker        TEXT NOT NULL, -- who made the last claim
    error_message TEXT NOT NULL,
    created_at    DATETIME NOT NULL,
    queued_at     DATETIME NOT NULL, -- registered, or put back by a person: attempts may go on from here for retry.give_up_after
    updated_at    DATETIME NOT NULL,
    finished_at   DATETIME NULL,
    UNIQUE (folder_id, uid_validity, uid),
    CONSTRAINT monitored_emails_tasks_folder FOREIGN KEY (folder_id) REFERENCES monitored_folders (id) ON DELETE CASCADE
);
CREATE INDEX monitored_emails_tasks_claim ON monitored_emails_tasks (inbox_id, priority, visible_at, id);
CREATE INDEX monitored_emails_tasks_status ON monitored_emails_tasks (inbox_id, status, id);

CREATE TABLE monitored_emails_deliveries (
    task_id      INTEGER NOT NULL,
    recipient    TEXT NOT NULL,
    status       TEXT NOT NULL, -- pending, sending, delivered, failed
    code         INTEGER NOT NULL, -- the relay's last reply code; 0 when there was none
    reply        TEXT NOT NULL,
    attempts     INTEGER NOT NULL,
    delivered_at DATETIME NULL,
    PRIMARY KEY (task_id, recipient),
    CONSTRAINT monitored_emails_deliveries_task FOREIGN KEY (task_id) REFERENCES monitored_emails_tasks (id) ON DELETE CASCADE
);

CREATE TABLE monitored_emails_events (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id INTEGER NOT NULL, -- no foreign key: the trail outlives the task
    at      DATETIME NOT NULL,
    worker  TEXT NOT NULL,
    event   TEXT NOT NULL,
    detail  TEXT NOT NULL
);
CREATE INDEX monitored_emails_events_task ON monitored_emails_events (task_id, id);

-- The ledger: one row for every message ever accounted for, registered or there before the start. It outlives purged tasks.
CREATE TABLE monitored_emails_seen (
    folder_id    INTEGER NOT NULL,
    uid_validity INTEGER NOT NULL,
    uid          INTEGER NOT NULL,
    inbox_id     INTEGER NOT NULL,
    task_id      INTEGER NOT NULL, -- 0: there before the start, never registered
    fingerprint  BLOB NOT NULL,
    PRIMARY KEY (folder_id, uid_validity, uid),
    CONSTRAINT monitored_emails_seen_folder FOREIGN KEY (folder_id) REFERENCES monitored_folders (id) ON DELETE CASCADE
);
CREATE INDEX monitored_emails_seen_fingerprint ON monitored_emails_seen (fingerprint, inbox_id);

-- +goose Down
DROP TABLE monitored_emails_seen;
DROP TABLE monitored_emails_events;
DROP TABLE monitored_emails_deliveries;
DROP TABLE monitored_emails_tasks;
DROP TABLE monitored_folders;
DROP TABLE monitored_emails;
