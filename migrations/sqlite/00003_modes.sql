-- +goose Up
ALTER TABLE monitored_emails_tasks ADD COLUMN mode TEXT NOT NULL DEFAULT ''; -- redirect, rewrite, attach, notice; empty while that is not decided

-- +goose Down
ALTER TABLE monitored_emails_tasks DROP COLUMN mode;
