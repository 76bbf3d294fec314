package db

import (
	"strings"
	"unicode/utf8"
)

// Lock makes a SELECT lock its rows. SQLite has nothing to lock: its writers follow one another. On
// Galera the lock holds on one node: the same transaction has to change what it must have for
// itself.
func (db *DB) Lock(query string) string { return db.onServer(query, " FOR UPDATE") }

// LockSkipLocked is Lock that skips rows which another transaction has locked.
func (db *DB) LockSkipLocked(query string) string {
	return db.onServer(query, " FOR UPDATE SKIP LOCKED")
}

// Share makes a SELECT lock its rows against changes, and wait for changes that are not committed.
func (db *DB) Share(query string) string { return db.onServer(query, " LOCK IN SHARE MODE") }

func (db *DB) onServer(query, lock string) string {
	if db.dialect == SQLite {
		return query
	}
	return query + lock
}

// Cut makes s fit a column: at most limit octets of valid UTF-8.
func Cut(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	s = s[:limit]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s
}
