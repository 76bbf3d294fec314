package db

import (
	"context"
	"path/filepath"
	"testing"
)

func TestSmoke(t *testing.T) {
	db, err := Open(context.Background(), Config{Driver: SQLite, Path: filepath.Join(t.TempDir(), "a b?#%41.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
}
