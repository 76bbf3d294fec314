-- +goose Up

-- Repeatable, as 00002.

SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE monitored_emails_tasks
  ADD COLUMN mode_reason VARCHAR(500) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '''' -- why it goes out in its mode, where that was decided for this message')
  FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'monitored_emails_tasks' AND column_name = 'mode_reason');
PREPARE change_table FROM @ddl;
EXECUTE change_table;
DEALLOCATE PREPARE change_table;

-- +goose Down
ALTER TABLE monitored_emails_tasks DROP COLUMN mode_reason;
