-- +goose Up
-- Up to here a task that was gone had been forwarded when purged_as was empty. From here on an empty one says that others have
-- deleted the task: retention notes it, too.
UPDATE monitored_emails_seen SET purged_as = 'forwarded'
WHERE task_id > 0 AND purged_as = '' AND NOT EXISTS (SELECT 1 FROM monitored_emails_tasks t WHERE t.id = task_id);

-- +goose Down
UPDATE monitored_emails_seen SET purged_as = '' WHERE purged_as = 'forwarded';
