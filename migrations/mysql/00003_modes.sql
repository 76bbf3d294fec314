-- +goose Up

-- Repeatable, as 00002.

SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE monitored_emails_tasks
  ADD COLUMN mode VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '''' -- redirect, rewrite, attach, notice; empty while that is not decided')
  FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'monitored_emails_tasks' AND column_name = 'mode');
PREPARE change_table FROM @ddl;
EXECUTE change_table;
DEALLOCATE PREPARE change_table;

-- +goose Down
ALTER TABLE monitored_emails_tasks DROP COLUMN mode;
