package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"math/bits"
	"reflect"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"
)

// These functions bypass gorm's reflection. tx is the handle that Tx or View gave, and the errors
// are gorm's. Where speed does not matter, tx.Raw has gorm map the columns by their names.
//
// A ? whose argument is a slice, other than []byte, stands for a list: IN ?. The last element is
// repeated until their number is a power of two, up to 512, so that there are few different
// statements and each is prepared once. An empty list becomes NULL: neither IN nor NOT IN matches a
// row.

// Exec runs a statement without rows, and returns how many rows it matched.
func Exec(tx *gorm.DB, query string, args ...any) (matched int64, _ error) {
	query, args = expand(query, args)
	res, err := tx.Statement.ConnPool.ExecContext(tx.Statement.Context, query, args...)
	if err != nil {
		return 0, translated(tx, err)
	}
	return res.RowsAffected()
}

// Run is Exec without the number of rows.
func Run(tx *gorm.DB, query string, args ...any) error {
	_, err := Exec(tx, query, args...)
	return err
}

// Query returns the rows of a query. into, which is called once, returns pointers to the fields
// for the columns, or OrZero or Micros of a pointer.
func Query[R any](tx *gorm.DB, into func(*R) []any, query string, args ...any) (out []R, err error) {
	query, args = expand(query, args)
	rows, err := tx.Statement.ConnPool.QueryContext(tx.Statement.Context, query, args...)
	if err != nil {
		return nil, translated(tx, err)
	}
	defer func() {
		if closed := rows.Close(); err == nil {
			err = translated(tx, closed)
		}
	}()
	var row, empty R
	for columns := into(&row); rows.Next(); row = empty {
		if err := rows.Scan(columns...); err != nil {
			return nil, err
		}
		out = append(out, row)
	}
	return out, translated(tx, rows.Err())
}

// Read is Query in a View of its own.
func Read[R any](ctx context.Context, db *DB, into func(*R) []any, query string, args ...any) (rows []R, err error) {
	err = db.View(ctx, func(tx *gorm.DB) (err error) {
		rows, err = Query(tx, into, query, args...)
		return err
	})
	return rows, err
}

// Time is for Query of a time that is computed, such as MIN(at): SQLite returns that as text.
type Time struct{ time.Time }

// Scan implements sql.Scanner.
func (t *Time) Scan(v any) (err error) {
	switch v := v.(type) {
	case time.Time:
		t.Time = v
	case string:
		t.Time, err = time.Parse("2006-01-02 15:04:05.999999999Z07:00", v)
	default:
		err = fmt.Errorf("%T is not a time", v)
	}
	return err
}

// OrZero is the column of a value that is NULL when it is zero, for Query and for arguments.
func OrZero[V comparable](of *V) any { return orZero[V]{of} }

type orZero[V comparable] struct{ of *V }

// Scan implements sql.Scanner.
func (c orZero[V]) Scan(v any) error {
	var n sql.Null[V]
	err := n.Scan(v)
	*c.of = n.V
	return err
}

// Value implements driver.Valuer.
func (c orZero[V]) Value() (driver.Value, error) {
	if *c.of == *new(V) {
		return nil, nil
	}
	return *c.of, nil
}

// Micros is the column of a time in microseconds since 1970, or NULL, for Query and for arguments.
func Micros(of **time.Time) any { return micros{of} }

type micros struct{ of **time.Time }

// Scan implements sql.Scanner.
func (c micros) Scan(v any) error {
	var n sql.Null[int64]
	err := n.Scan(v)
	if *c.of = nil; n.Valid {
		at := time.UnixMicro(n.V).UTC()
		*c.of = &at
	}
	return err
}

// Value implements driver.Valuer.
func (c micros) Value() (driver.Value, error) {
	if *c.of == nil {
		return nil, nil
	}
	return (*c.of).UnixMicro(), nil
}

// Value is for Query of a single column.
func Value[V any](v *V) []any { return []any{v} }

// Insert inserts rows, each with a value for each of the columns, which are separated by ", ".
func Insert(tx *gorm.DB, table, columns string, rows [][]any) error {
	return insertOr(tx, table, columns, "", rows)
}

// Upsert is Insert, but updates the rows whose keys already exist. The keys are the first columns,
// and also separated by ", ".
func Upsert(tx *gorm.DB, table, keys, columns string, rows [][]any) error {
	conflict, as := " ON CONFLICT ("+keys+") DO UPDATE SET ", "%s = excluded.%s"
	if tx.Name() != "sqlite" {
		conflict, as = " ON DUPLICATE KEY UPDATE ", "%s = VALUES(%s)"
	}
	var set []string
	for _, c := range strings.Split(columns, ", ") {
		set = append(set, strings.ReplaceAll(as, "%s", c))
	}
	return insertOr(tx, table, keys+", "+columns, conflict+strings.Join(set, ", "), rows)
}

// AddTo is Insert, but for keys that already exist it adds the last column to the row's value.
func AddTo(tx *gorm.DB, table, keys, column string, rows [][]any) error {
	conflict := " ON CONFLICT (" + keys + ") DO UPDATE SET " + column + " = " + column + " + excluded." + column
	if tx.Name() != "sqlite" {
		conflict = " ON DUPLICATE KEY UPDATE " + column + " = " + column + " + VALUES(" + column + ")"
	}
	return insertOr(tx, table, keys+", "+column, conflict, rows)
}

// insertOr uses one statement for many rows. On SQLite their number is a power of two, so that
// there are few different statements, and each is prepared once.
func insertOr(tx *gorm.DB, table, columns, conflict string, rows [][]any) error {
	row := "(" + strings.Repeat("?, ", strings.Count(columns, ",")) + "?)"
	for len(rows) > 0 {
		n := min(200, len(rows))
		if tx.Name() == "sqlite" {
			n = 1 << min(5, bits.Len(uint(len(rows)))-1)
		}
		var args []any
		for _, r := range rows[:n] {
			args = append(args, r...)
		}
		rows = rows[n:]
		query := "INSERT INTO " + table + " (" + columns + ") VALUES " + strings.Repeat(row+", ", n-1) + row + conflict
		if _, err := tx.Statement.ConnPool.ExecContext(tx.Statement.Context, query, args...); err != nil {
			return translated(tx, err)
		}
	}
	return nil
}

func translated(tx *gorm.DB, err error) error {
	if t, ok := tx.Dialector.(gorm.ErrorTranslator); ok && err != nil {
		return t.Translate(err)
	}
	return err
}

// expand replaces slices with their elements.
func expand(query string, args []any) (string, []any) {
	if !slices.ContainsFunc(args, isList) {
		return query, args
	}
	var b strings.Builder
	var out []any
	for _, arg := range args {
		before, after, _ := strings.Cut(query, "?")
		b.WriteString(before)
		query = after
		if !isList(arg) {
			b.WriteByte('?')
			out = append(out, arg)
			continue
		}
		n := len(out)
		out = appendPadded(out, reflect.ValueOf(arg))
		b.WriteString("(" + strings.Repeat("?, ", len(out)-n-1) + "?)")
	}
	b.WriteString(query)
	return b.String(), out
}

func isList(arg any) bool {
	if _, octets := arg.([]byte); octets || arg == nil {
		return false
	}
	return reflect.TypeOf(arg).Kind() == reflect.Slice
}

func appendPadded(out []any, list reflect.Value) []any {
	n := list.Len()
	if n == 0 {
		return append(out, nil)
	}
	for i, most := 0, padded(n); i < most; i++ {
		out = append(out, list.Index(min(i, n-1)).Interface())
	}
	return out
}

// padded is the next power of two, or n for long lists: SQLite accepts 32,766 arguments.
func padded(n int) int {
	most := 1
	for most < n {
		most *= 2
	}
	if most > 512 {
		return n
	}
	return most
}
