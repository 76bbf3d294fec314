-- +goose Up
-- The directory. It is read whole at the start of a pass: no index needed.
CREATE TABLE contacts (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    name      TEXT    NOT NULL,
    email     TEXT    NOT NULL, -- empty: known, and cannot be written to
    keywords  TEXT    NOT NULL, -- separated by ;
    is_active INTEGER NOT NULL
);

-- +goose Down
DROP TABLE contacts;
