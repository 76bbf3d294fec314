package db

import (
	"database/sql"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pressly/goose/v3"

	"postrider/migrations"
)

// TestMigrateAfterAKillAtEachStatement stops each migration behind its first statement, its second,
// and so on, as a kill does on MySQL, where DDL commits statement by statement. Migrating again
// ends in the same schema as migrating once.
func TestMigrateAfterAKillAtEachStatement(t *testing.T) {
	for _, e := range servers() {
		t.Run(e.name, func(t *testing.T) {
			files := migrationFiles(t, MySQL)
			want := schemaOf(t, openMigrated(t, e.fresh(t)))
			for i, name := range slices.Sorted(maps.Keys(files)) {
				for n, statement := range statements(files[name]) {
					if sessionOnly.MatchString(statement) {
						continue // leaves what the one before it left
					}
					db := openAny(t, e.fresh(t))
					killedAt(t, db, i, n)
					if applied, err := db.Migrate(testContext(t)); err != nil || len(applied) != len(files)-i {
						t.Fatalf("%s killed after statement %d: applied %v (%v), want this one and those after it",
							name, n+1, applied, err)
					}
					if got := schemaOf(t, db); !maps.Equal(got, want) {
						t.Errorf("%s killed after statement %d and run again: the schema is %v, want %v",
							name, n+1, got, want)
					}
					_ = db.Close()
				}
			}
		})
	}
}

// killedAt runs the migrations before the ith, and of that the statements up to the nth (from 0).
func killedAt(t *testing.T, db *DB, i, n int) {
	t.Helper()
	files, left := migrationFiles(t, MySQL), fstest.MapFS{}
	for j, name := range slices.Sorted(maps.Keys(files))[:i+1] {
		text := files[name]
		if j == i {
			text = strings.Join(statements(text)[:n+1], "") + "SELECT killed_here;\n"
		}
		left[name] = &fstest.MapFile{Data: []byte(text)}
	}
	// Of its own: what a statement leaves in the session ends with the connection.
	pool, err := db.migrator.pool()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pool.Close() }()
	provider, err := goose.NewProvider(db.migrator.dialect, pool, left, goose.WithTableName(versionTable),
		goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		t.Fatal(err)
	}
	_, err = provider.Up(testContext(t))
	wantText(t, err, "killed_here")
}

// statements returns the statements of a migration's Up part, each with its end of line. The first
// has the annotation before it.
func statements(text string) []string {
	up, _, _ := strings.Cut(text, "-- +goose Down")
	all := strings.SplitAfter(up, ";\n")
	return all[:len(all)-1]
}

// migrationFiles are the texts of a driver's migrations by their names.
func migrationFiles(t *testing.T, driver string) map[string]string {
	t.Helper()
	files, out := migrations.MySQL, map[string]string{}
	if driver == SQLite {
		files = migrations.SQLite
	}
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, path)
		out[d.Name()] = string(text)
		return err
	})
	if err != nil || len(out) == 0 {
		t.Fatalf("read the migrations of %s: %d, %v", driver, len(out), err)
	}
	return out
}

var sessionOnly = regexp.MustCompile(`^\s*(-- [^\n]*\n)*(SET @|PREPARE|DEALLOCATE)`)

var autoIncrement = regexp.MustCompile(` AUTO_INCREMENT=\d+`)

// schemaOf is how the server would create each table.
func schemaOf(t *testing.T, db *DB) map[string]string {
	t.Helper()
	names := column(t, db.pool,
		"SELECT table_name FROM information_schema.tables "+
			"WHERE table_schema = DATABASE() AND table_name LIKE 'monitored%'")
	out := map[string]string{}
	for _, name := range names {
		var same, create string
		row := db.pool.QueryRowContext(t.Context(), fmt.Sprintf("SHOW CREATE TABLE `%s`", name))
		if err := row.Scan(&same, &create); err != nil {
			t.Fatal(err)
		}
		out[name] = autoIncrement.ReplaceAllString(create, "")
	}
	return out
}

func column(t *testing.T, pool *sql.DB, query string) (out []string) {
	t.Helper()
	rows, err := pool.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}
