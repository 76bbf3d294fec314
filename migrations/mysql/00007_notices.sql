-- +goose Up

-- Repeatable, as 00002.

SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE monitored_emails
  ADD COLUMN failed_scans INT NOT NULL DEFAULT 0, -- in a row, the last ones
  ADD COLUMN failing_since DATETIME(6) NULL, -- when the first of these ended
  ADD COLUMN outage_since DATETIME(6) NULL, -- of the latest outage: enough failed scans in a row
  ADD COLUMN outage_until DATETIME(6) NULL -- NULL while it lasts')
  FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'monitored_emails' AND column_name = 'outage_until');
PREPARE change_table FROM @ddl;
EXECUTE change_table;
DEALLOCATE PREPARE change_table;

-- What has been told of failures, and to whom: the state that was told last.
CREATE TABLE IF NOT EXISTS monitored_emails_told (
    channel VARCHAR(320) NOT NULL, -- hook, or mail: and an address
    kind    VARCHAR(16)  NOT NULL, -- task, inbox
    ref_id  BIGINT       NOT NULL, -- no foreign key: one column for both; orphans are cleared away when something is told
    at      DATETIME(6)  NOT NULL, -- when the task ended, or the inbox's outage began or ended
    PRIMARY KEY (channel, kind, ref_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Where it is told, and who is at it. Times are microseconds since 1970 by the database's clock.
CREATE TABLE IF NOT EXISTS monitored_emails_channels (
    channel    VARCHAR(320) NOT NULL PRIMARY KEY,
    told_at    BIGINT       NOT NULL, -- when something was told last; 0 before
    failures   INT          NOT NULL, -- to tell, in a row
    failed_at  BIGINT       NOT NULL,
    last_error TEXT         NOT NULL, -- empty when the last try was none
    holder     VARCHAR(255) NOT NULL, -- the run that tells now; empty when none does
    held_at    BIGINT       NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- +goose Down
DROP TABLE monitored_emails_channels;
DROP TABLE monitored_emails_told;
ALTER TABLE monitored_emails DROP COLUMN failed_scans, DROP COLUMN failing_since, DROP COLUMN outage_since, DROP COLUMN outage_until;
