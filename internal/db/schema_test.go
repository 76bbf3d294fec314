package db

import (
	"maps"
	"slices"
	"testing"
)

// TestDialectsAgree: both dialects have the same migrations, tables, columns and indexes.
func TestDialectsAgree(t *testing.T) {
	names := func(driver string) []string { return slices.Sorted(maps.Keys(migrationFiles(t, driver))) }
	if a, b := names(SQLite), names(MySQL); !slices.Equal(a, b) {
		t.Errorf("the migrations of SQLite are %v, those of MySQL %v; want the same", a, b)
	}
	lite := openMigrated(t, freshSQLite(t))
	columns := column(t, lite.pool,
		`SELECT m.name || '.' || c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c
		WHERE m.type = 'table' AND m.name NOT LIKE 'postrider%' AND m.name NOT LIKE 'sqlite%' ORDER BY 1`)
	indexes := column(t, lite.pool,
		`SELECT name FROM sqlite_master WHERE type = 'index' AND name NOT LIKE 'sqlite%' ORDER BY 1`)
	on(t, servers(), func(t *testing.T, cfg Config) {
		server := openMigrated(t, cfg)
		slices.Sort(columns)
		got := column(t, server.pool, `SELECT CONCAT(table_name, '.', column_name) FROM information_schema.columns
			WHERE table_schema = DATABASE() AND table_name NOT LIKE 'postrider%'`)
		if slices.Sort(got); !slices.Equal(got, columns) {
			t.Errorf("the columns are %v, those of SQLite %v; want the same", got, columns)
		}
		got = column(t, server.pool, `SELECT DISTINCT index_name FROM information_schema.statistics
			WHERE table_schema = DATABASE() AND non_unique = 1 AND table_name NOT LIKE 'postrider%'`)
		if slices.Sort(got); !slices.Equal(got, indexes) {
			t.Errorf("the indexes are %v, those of SQLite %v; want the same", got, indexes)
		}
	})
}
