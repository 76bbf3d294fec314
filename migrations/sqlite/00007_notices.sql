-- +goose Up
ALTER TABLE monitored_emails ADD COLUMN failed_scans INTEGER NOT NULL DEFAULT 0; -- in a row, the last ones
ALTER TABLE monitored_emails ADD COLUMN failing_since DATETIME NULL;             -- when the first of these ended
ALTER TABLE monitored_emails ADD COLUMN outage_since DATETIME NULL;              -- of the latest outage: enough failed scans in a row
ALTER TABLE monitored_emails ADD COLUMN outage_until DATETIME NULL;              -- NULL while it lasts

-- What has been told of failures, and to whom: the state that was told last.
CREATE TABLE monitored_emails_told (
    channel TEXT     NOT NULL, -- hook, or mail: and an address
    kind    TEXT     NOT NULL, -- task, inbox
    ref_id  INTEGER  NOT NULL, -- no foreign key: one column for both; orphans are cleared away when something is told
    at      DATETIME NOT NULL, -- when the task ended, or the inbox's outage began or ended
    PRIMARY KEY (channel, kind, ref_id)
);

-- Where it is told, and who is at it. Times are microseconds since 1970 by the database's clock.
CREATE TABLE monitored_emails_channels (
    channel    TEXT    NOT NULL PRIMARY KEY,
    told_at    INTEGER NOT NULL, -- when something was told last; 0 before
    failures   INTEGER NOT NULL, -- to tell, in a row
    failed_at  INTEGER NOT NULL,
    last_error TEXT    NOT NULL, -- empty when the last try was none
    holder     TEXT    NOT NULL, -- the run that tells now; empty when none does
    held_at    INTEGER NOT NULL
);

-- +goose Down
DROP TABLE monitored_emails_channels;
DROP TABLE monitored_emails_told;
ALTER TABLE monitored_emails DROP COLUMN outage_until;
ALTER TABLE monitored_emails DROP COLUMN outage_since;
ALTER TABLE monitored_emails DROP COLUMN failing_since;
ALTER TABLE monitored_emails DROP COLUMN failed_scans;
