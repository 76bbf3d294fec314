package db

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"gorm.io/gorm"
)

func TestExpand(t *testing.T) {
	for _, tt := range []struct {
		query string
		args  []any
		want  string
	}{
		{"a = ?", []any{1}, "a = ? [1]"},
		{"a = ? AND b = ?", []any{[]byte("x"), nil}, "a = ? AND b = ? [[120] <nil>]"},
		{"a IN ?", []any{[]int64{7}}, "a IN (?) [7]"},
		{"a IN ? AND b = ?", []any{[]string{"x", "y", "z"}, 1}, "a IN (?, ?, ?, ?) AND b = ? [x y z z 1]"},
		{"a = ? AND b IN ?", []any{1, [][]byte{{1}, {2}}}, "a = ? AND b IN (?, ?) [1 [1] [2]]"},
		{
			"a IN ? OR b IN ?",
			[]any{[]uint32{}, []uint32{1, 2, 3, 4, 5}},
			"a IN (?) OR b IN (?, ?, ?, ?, ?, ?, ?, ?) [<nil> 1 2 3 4 5 5 5 5]",
		},
	} {
		query, args := expand(tt.query, tt.args)
		if got := fmt.Sprint(query, " ", args); got != tt.want {
			t.Errorf("%q with %v: %s, want %s", tt.query, tt.args, got, tt.want)
		}
	}
}

// pair is a row of the table of TestDirect.
type pair struct {
	id   int64
	text string
}

func (p *pair) into() []any { return []any{&p.id, &p.text} }

func TestDirect(t *testing.T) {
	on(t, engines(), func(t *testing.T, cfg Config) {
		db := openAny(t, cfg)
		execute(t, db, "CREATE TABLE pairs (id BIGINT PRIMARY KEY, text VARCHAR(20) NOT NULL)")
		var rows [][]any
		for i := range 450 { // more than one statement has
			rows = append(rows, []any{i, fmt.Sprint("t", i)})
		}
		err := db.Tx(testContext(t), func(tx *gorm.DB) error {
			if err := Insert(tx, "pairs", "id, text", rows); err != nil {
				return err
			}
			return Upsert(tx, "pairs", "id", "text", [][]any{{1, "one"}, {1000, "thousand"}})
		})
		if err != nil {
			t.Fatal(err)
		}
		err = db.View(testContext(t), func(tx *gorm.DB) error {
			const some = "SELECT id, text FROM pairs WHERE id IN ? ORDER BY id"
			found, err := Query(tx, (*pair).into, some, []int64{1, 2, 449, 450, 1000})
			if got := fmt.Sprint(found); err == nil && got != "[{1 one} {2 t2} {449 t449} {1000 thousand}]" {
				t.Errorf("found %s", got)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		err = db.Tx(testContext(t), func(tx *gorm.DB) error {
			n, err := Exec(tx, "UPDATE pairs SET text = ? WHERE id IN ?", "new", []int64{3, 4, 5})
			if err == nil && n != 3 {
				t.Errorf("the UPDATE matched %d rows, want 3", n)
			}
			if err != nil {
				return err
			}
			return Insert(tx, "pairs", "id, text", [][]any{{7, "again"}})
		})
		if !errors.Is(err, gorm.ErrDuplicatedKey) {
			t.Errorf("a row that is there already: %v, want gorm's error", err)
		}
		wantOne(t, db, "t3", "SELECT text FROM pairs WHERE id = 3") // the transaction was taken back
	})
}

func execute(t *testing.T, db *DB, statement string) {
	t.Helper()
	if _, err := db.pool.ExecContext(testContext(t), statement); err != nil {
		t.Fatal(err)
	}
}

func wantOne(t *testing.T, db *DB, want, query string) {
	t.Helper()
	var got string
	if err := db.pool.QueryRowContext(testContext(t), query).Scan(&got); err != nil || got != want {
		t.Errorf("%s: %q (%v), want %q", query, got, err, want)
	}
}

// TestPreparedStatements: a statement may be run again while its rows are read, after it failed,
// and after the table was changed, and a connection keeps a bounded number of them.
func TestPreparedStatements(t *testing.T) {
	db := openAny(t, freshSQLite(t))
	execute(t, db, "CREATE TABLE numbers (n INTEGER PRIMARY KEY)")
	execute(t, db, "INSERT INTO numbers VALUES (1), (2), (3)")
	const query = "SELECT n FROM numbers ORDER BY n"
	err := db.Tx(testContext(t), func(tx *gorm.DB) error {
		outer, err := tx.Statement.ConnPool.QueryContext(testContext(t), query)
		if err != nil {
			return err
		}
		defer func() { _ = outer.Close() }()
		var sum int64
		for outer.Next() {
			inner, err := Query(tx, Value[int64], query)
			if err != nil {
				return err
			}
			for _, n := range inner {
				sum += n
			}
		}
		if sum != 18 {
			t.Errorf("three times 1 + 2 + 3 is %d", sum)
		}
		return outer.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := db.pool.ExecContext(testContext(t), "INSERT INTO numbers VALUES (1)"); err == nil {
			t.Error("a number was inserted twice")
		}
	}
	execute(t, db, "ALTER TABLE numbers ADD COLUMN name TEXT NOT NULL DEFAULT 'none'")
	wantOne(t, db, "1", query+" LIMIT 1")
	for i := range 2 * sqliteStatements {
		for range 2 {
			execute(t, db, "UPDATE numbers SET name = "+strings.Repeat("1 + ", i%50)+fmt.Sprint(i))
		}
	}
	conn, err := db.pool.Conn(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	err = conn.Raw(func(c any) error {
		if n := len(c.(*preparedConn).ready); n != sqliteStatements {
			t.Errorf("the connection keeps %d statements, want %d", n, sqliteStatements)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestPreparedOnServers: a server prepares what runs again on a connection, once. It runs as it is
// when the server has as many prepared statements as it may.
func TestPreparedOnServers(t *testing.T) {
	on(t, servers(), func(t *testing.T, cfg Config) {
		db := openAny(t, cfg)
		db.pool.SetMaxOpenConns(1)
		wantPrepared := func(prepared, executed string) {
			t.Helper()
			for name, want := range map[string]string{"Com_stmt_prepare": prepared, "Com_stmt_execute": executed} {
				var got string
				query := "SHOW SESSION STATUS LIKE '" + name + "' /* " + prepared + executed + " */"
				err := db.pool.QueryRowContext(testContext(t), query).Scan(&name, &got)
				if err != nil || got != want {
					t.Errorf("%s: %q (%v), want %q", name, got, err, want)
				}
			}
		}
		for range 4 {
			wantOne(t, db, "2", "SELECT 1 + 1")
		}
		wantPrepared("1", "3")
		execute(t, db, "SET GLOBAL max_prepared_stmt_count = 0")
		defer execute(t, db, "SET GLOBAL max_prepared_stmt_count = 16382")
		for range 4 {
			wantOne(t, db, "4", "SELECT 2 + 2")
		}
		wantPrepared("1", "3") // only those that succeed are counted
	})
}
