-- +goose Up

-- Times a person reads are DATETIME(6) in UTC. Times that SQL compares (visible_at, scan_until) are microseconds since
-- 1970 by the database's clock. Identities are binary: a default collation would merge <AbC@x> and <abc@x>.
--
-- DDL commits statement by statement here: IF NOT EXISTS, so that a migration killed half way can be run again.

CREATE TABLE IF NOT EXISTS monitored_emails (
    id              BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    email_address   VARCHAR(320) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    email_password  TEXT         NOT NULL, -- sealed, or env:NAME, or file:PATH; never plain text
    description     TEXT         NOT NULL,
    is_active       TINYINT      NOT NULL,
    host            VARCHAR(255) NOT NULL,
    port            INT          NOT NULL,
    security        VARCHAR(16)  NOT NULL, -- tls, starttls, none
    allow_plaintext TINYINT      NOT NULL, -- 1: security none is allowed for a host other than loopback
    username        VARCHAR(320) NOT NULL,
    auth            VARCHAR(16)  NOT NULL, -- auto, plain, login
    start           VARCHAR(32)  NOT NULL, -- where a folder's cursor begins: latest, now, all, since:YYYY-MM-DD
    last_error      TEXT         NOT NULL, -- why the last scan did not complete; empty when it did
    scan_holder     VARCHAR(255) NOT NULL, -- who scans this inbox now; empty when nobody does
    scan_token      BIGINT       NOT NULL, -- grows by one each time the scan lease changes hands
    scan_until      BIGINT       NOT NULL, -- end of the scan lease
    created_at      DATETIME(6)  NOT NULL,
    updated_at      DATETIME(6)  NOT NULL,
    last_scanned_at DATETIME(6)  NULL,
    UNIQUE KEY monitored_emails_address (email_address)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

CREATE TABLE IF NOT EXISTS monitored_folders (
    id              BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    inbox_id        BIGINT       NOT NULL,
    name            VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    is_active       TINYINT      NOT NULL, -- 0: no longer watched; its registry stays
    uid_validity    BIGINT       NOT NULL, -- low 32 bits: the server's; above: how often the folder has begun anew
    last_seen_uid   BIGINT       NOT NULL, -- the cursor: everything at or below it is registered
    start_uid       BIGINT       NOT NULL, -- messages at or below it were there before and are not forwarded
    baseline_uid    BIGINT       NOT NULL, -- how far the messages up to start_uid have been noted in monitored_emails_seen
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
    subject       TEXT         NOT NULL,
    sender        TEXT         NOT NULL,
    email_date    DATETIME(6)  NULL,
    size          BIGINT       NOT NULL,
    route         VARCHAR(255) NOT NULL,
    priority      TINYINT      NOT NULL, -- 1 high, 0 normal
    status        VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    attempt_count INT          NOT NULL,
    lost_leases   INT          NOT NULL,
    visible_at    BIGINT       NULL,     -- not before; NULL once the task has ended
    receipt       VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- of the last claim
    worker        VARCHAR(255) NOT NULL, -- who made the last claim
    error_message TEXT         NOT NULL,
    created_at    DATETIME(6)  NOT NULL,
    queued_at     DATETIME(6)  NOT NULL, -- registered, or put back by a person: attempts may go on from here for retry.give_up_after
    updated_at    DATETIME(6)  NOT NULL,
    finished_at   DATETIME(6)  NULL,
    UNIQUE KEY monitored_emails_tasks_message (folder_id, uid_validity, uid),
    KEY monitored_emails_tasks_claim (inbox_id, priority, visible_at, id),
    KEY monitored_emails_tasks_status (inbox_id, status, id),
    CONSTRAINT monitored_emails_tasks_folder FOREIGN KEY (folder_id) REFERENCES monitored_folders (id) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

CREATE TABLE IF NOT EXISTS monitored_emails_deliveries (
    task_id      BIGINT       NOT NULL,
    recipient    VARCHAR(320) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    status       VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- pending, sending, delivered, failed
    code         INT          NOT NULL, -- the relay's last reply code; 0 when there was none
    reply        TEXT         NOT NULL,
    attempts     INT          NOT NULL,
    delivered_at DATETIME(6)  NULL,
    PRIMARY KEY (task_id, recipient),
    CONSTRAINT monitored_emails_deliveries_task FOREIGN KEY (task_id) REFERENCES monitored_emails_tasks (id) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

CREATE TABLE IF NOT EXISTS monitored_emails_events (
    id      BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    task_id BIGINT       NOT NULL, -- no foreign key: the trail outlives the task
    at      DATETIME(6)  NOT NULL,
    worker  VARCHAR(255) NOT NULL,
    event   VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    detail  TEXT         NOT NULL,
    KEY monitored_emails_events_task (task_id, id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- The ledger: one row for every message ever accounted for, registered or there before the start. It outlives purged tasks.
CREATE TABLE IF NOT EXISTS monitored_emails_seen (
    folder_id    BIGINT     NOT NULL,
    uid_validity BIGINT     NOT NULL,
    uid          BIGINT     NOT NULL,
    inbox_id     BIGINT     NOT NULL,
    task_id      BIGINT     NOT NULL, -- 0: there before the start, never registered
    fingerprint  BINARY(32) NOT NULL,
    PRIMARY KEY (folder_id, uid_validity, uid),
    KEY monitored_emails_seen_fingerprint (fingerprint, inbox_id),
    CONSTRAINT monitored_emails_seen_folder FOREIGN KEY (folder_id) REFERENCES monitored_folders (id) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE monitored_emails_seen;
DROP TABLE monitored_emails_events;
DROP TABLE monitored_emails_deliveries;
DROP TABLE monitored_emails_tasks;
DROP TABLE monitored_folders;
DROP TABLE monitored_emails;
