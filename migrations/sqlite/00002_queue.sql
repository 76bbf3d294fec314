-- +goose Up
ALTER TABLE monitored_emails_seen ADD COLUMN purged_as TEXT NOT NULL DEFAULT ''; -- how its task ended, once that is purged; empty before

-- For counting by state, as the index before, for finding what ended long ago, and for counting retries without reading the tasks.
CREATE INDEX monitored_emails_tasks_ended ON monitored_emails_tasks (inbox_id, status, finished_at, attempt_count);
DROP INDEX monitored_emails_tasks_status;

CREATE INDEX monitored_emails_events_kind ON monitored_emails_events (event, at);

-- Which hosts help with an inbox that another host scans: one run a host.
CREATE TABLE monitored_emails_helpers (
    inbox_id INTEGER NOT NULL REFERENCES monitored_emails (id) ON DELETE CASCADE,
    host     TEXT    NOT NULL,
    holder   TEXT    NOT NULL, -- the run that helps
    until    INTEGER NOT NULL, -- end of its lease, in microseconds since 1970 by the database's clock
    PRIMARY KEY (inbox_id, host)
);

-- +goose Down
DROP TABLE monitored_emails_helpers;
DROP INDEX monitored_emails_events_kind;
CREATE INDEX monitored_emails_tasks_status ON monitored_emails_tasks (inbox_id, status, id);
DROP INDEX monitored_emails_tasks_ended;
ALTER TABLE monitored_emails_seen DROP COLUMN purged_as;
