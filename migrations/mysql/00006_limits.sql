-- +goose Up

-- What was sent through a relay lately, for smtp.limits. One row each, always found by its key.
CREATE TABLE IF NOT EXISTS relay_usage (
    relay VARCHAR(700) NOT NULL PRIMARY KEY, -- user@host:port
    used  MEDIUMTEXT   NOT NULL              -- JSON: recipients by window and slice of time ("sent"), and of transactions under way ("open")
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- +goose Down
DROP TABLE relay_usage;
