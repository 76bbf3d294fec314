-- +goose Up
-- What was sent through a relay lately, for smtp.limits. One row each, always found by its key.
CREATE TABLE relay_usage (
    relay TEXT NOT NULL PRIMARY KEY, -- user@host:port
    used  TEXT NOT NULL              -- JSON: recipients by window and slice of time ("sent"), and of transactions under way ("open")
);

-- +goose Down
DROP TABLE relay_usage;
