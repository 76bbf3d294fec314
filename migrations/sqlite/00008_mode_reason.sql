-- +goose Up
ALTER TABLE monitored_emails_tasks ADD COLUMN mode_reason TEXT NOT NULL DEFAULT ''; -- why it goes out in its mode, where that was decided for this message

-- +goose Down
ALTER TABLE monitored_emails_tasks DROP COLUMN mode_reason;
