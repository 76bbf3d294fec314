-- +goose Up

-- Repeatable, as 00001: MySQL has no ADD COLUMN IF NOT EXISTS, so each change asks first whether it has been made.

SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE monitored_emails_seen
  ADD COLUMN purged_as VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '''' -- how its task ended, once that is purged; empty before')
  FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'monitored_emails_seen' AND column_name = 'purged_as');
PREPARE change_table FROM @ddl;
EXECUTE change_table;

-- For counting by state, as the key before, for finding what ended long ago, and for counting retries without reading the tasks.
SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE monitored_emails_tasks
  ADD KEY monitored_emails_tasks_ended (inbox_id, status, finished_at, attempt_count)')
  FROM information_schema.statistics WHERE table_schema = DATABASE() AND index_name = 'monitored_emails_tasks_ended');
PREPARE change_table FROM @ddl;
EXECUTE change_table;

SET @ddl = (SELECT IF(COUNT(*) = 0, 'DO 0', 'ALTER TABLE monitored_emails_tasks DROP KEY monitored_emails_tasks_status')
  FROM information_schema.statistics WHERE table_schema = DATABASE() AND index_name = 'monitored_emails_tasks_status');
PREPARE change_table FROM @ddl;
EXECUTE change_table;

SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE monitored_emails_events
  ADD KEY monitored_emails_events_kind (event, at)')
  FROM information_schema.statistics WHERE table_schema = DATABASE() AND index_name = 'monitored_emails_events_kind');
PREPARE change_table FROM @ddl;
EXECUTE change_table;
DEALLOCATE PREPARE change_table;

-- Which hosts help with an inbox that another host scans: one run a host.
CREATE TABLE IF NOT EXISTS monitored_emails_helpers (
    inbox_id BIGINT       NOT NULL,
    host     VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    holder   VARCHAR(255) NOT NULL, -- the run that helps
    until    BIGINT       NOT NULL, -- end of its lease, in microseconds since 1970 by the database's clock
    PRIMARY KEY (inbox_id, host),
    CONSTRAINT monitored_emails_helpers_inbox FOREIGN KEY (inbox_id) REFERENCES monitored_emails (id) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE monitored_emails_helpers;
ALTER TABLE monitored_emails_events DROP KEY monitored_emails_events_kind;
ALTER TABLE monitored_emails_tasks ADD KEY monitored_emails_tasks_status (inbox_id, status, id), DROP KEY monitored_emails_tasks_ended;
ALTER TABLE monitored_emails_seen DROP COLUMN purged_as;
