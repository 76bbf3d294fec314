-- +goose Up

-- The directory. It is read whole at the start of a pass: no index needed.
CREATE TABLE IF NOT EXISTS contacts (
    id        BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name      VARCHAR(255) NOT NULL,
    email     VARCHAR(320) NOT NULL, -- empty: known, and cannot be written to
    keywords  TEXT         NOT NULL, -- separated by ;
    is_active TINYINT      NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- +goose Down
DROP TABLE contacts;
