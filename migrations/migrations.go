// Package migrations holds the schema as versioned SQL, one directory a dialect.
//
// Both directories carry the same version numbers. A file that has been released is never edited: a
// change is a new file with the next number, in both directories.
package migrations

import "embed"

// MySQL holds mysql/*.sql, for MySQL 8 and MariaDB 10.6 and later.
//
//go:embed mysql/*.sql
var MySQL embed.FS

// SQLite holds sqlite/*.sql.
//
//go:embed sqlite/*.sql
var SQLite embed.FS
