-- +goose Up

-- Up to here a task that was gone had been forwarded when purged_as was empty. From here on an empty one says that others have
-- deleted the task: retention notes it, too.
UPDATE monitored_emails_seen s LEFT JOIN monitored_emails_tasks t ON t.id = s.task_id SET s.purged_as = 'forwarded'
WHERE s.task_id > 0 AND s.purged_as = '' AND t.id IS NULL;

-- +goose Down
UPDATE monitored_emails_seen SET purged_as = '' WHERE purged_as = 'forwarded';
