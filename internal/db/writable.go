package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gorm.io/gorm"
)

// RightsError means that the user of database.dsn lacks rights that postrider needs.
type RightsError struct {
	Where   string   // host:port/database
	User    string   // as the server knows it: 'name'@'host'
	Missing []string // SELECT, INSERT, UPDATE, DELETE
	Tables  []string // where one of them is missing
	Grant   string   // the statement that fixes it
}

// Error names the rights, a table, and the statement that grants them.
func (e *RightsError) Error() string {
	where := "the table " + e.Tables[0]
	if more := len(e.Tables) - 1; more > 0 {
		where = fmt.Sprintf("the table %s and %d more", e.Tables[0], more)
	}
	return fmt.Sprintf("%s may not %s in %s of the database %s; as an administrator of the server run: %s",
		e.User, strings.Join(e.Missing, ", "), where, e.Where, e.Grant)
}

var errRollBack = errors.New("roll back")

// Writable proves that rows can be read, inserted, changed and deleted in every table of postrider.
// It changes nothing, and rolls back. Rights that are missing are a *RightsError. It does not wait
// for a read-only server. Beside an SQLite file it also writes 1 MiB, because a transaction that is
// rolled back does not show that the disk is full.
func (db *DB) Writable(ctx context.Context) error {
	tables, err := db.migrator.tables()
	if err != nil {
		return err
	}
	var found error
	err = db.tx(ctx, func(tx *gorm.DB) error {
		found = db.tryTables(tx, tables)
		if kind := classify(found); kind != permanent && kind != unwritable {
			return found
		}
		return errRollBack
	})
	if errors.Is(err, errRollBack) {
		err = found
	}
	if err == nil && db.dialect == SQLite {
		err = writeBeside(db.file.real)
	}
	if err == nil || errors.As(err, new(*RightsError)) || errors.As(err, new(*UnavailableError)) {
		return err
	}
	return fmt.Errorf("write to the %s database %s: %w; %s", db.dialect, db.where, err, db.fix(err))
}

// writeBeside writes 1 MiB beside the database and removes it. It is not an error if this user may
// not create files there: while -wal and -shm exist, SQLite creates none.
func writeBeside(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".check-*")
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 1<<20))
	return errors.Join(cmp.Or(err, f.Sync()), f.Close(), os.Remove(f.Name()))
}

// tryTables returns nil, a *RightsError, or the first other error.
func (db *DB) tryTables(tx *gorm.DB, tables []string) error {
	denied := &RightsError{Where: db.where}
	for _, table := range tables {
		missing, err := missingRights(tx, table)
		if err != nil {
			return err
		}
		if missing != nil {
			denied.Tables = append(denied.Tables, table)
		}
		for _, right := range missing {
			if !slices.Contains(denied.Missing, right) {
				denied.Missing = append(denied.Missing, right)
			}
		}
	}
	if denied.Tables == nil {
		return nil
	}
	return denied.withGrant(tx)
}

// missingRights runs statements that match no row: a server checks the rights before it looks for
// rows.
func missingRights(tx *gorm.DB, table string) (missing []string, err error) {
	column, err := firstColumn(tx, table)
	if isDenied(err) {
		return []string{"SELECT"}, nil // the others read, too
	}
	if err != nil {
		return nil, err
	}
	for _, try := range []struct{ right, statement string }{
		{"INSERT", "INSERT INTO " + table + " SELECT * FROM " + table + " WHERE 1 = 0"},
		{"UPDATE", "UPDATE " + table + " SET " + column + " = " + column + " WHERE 1 = 0"},
		{"DELETE", "DELETE FROM " + table + " WHERE 1 = 0"},
	} {
		err := Run(tx, try.statement)
		if isDenied(err) {
			missing = append(missing, try.right)
		} else if err != nil {
			return nil, err
		}
	}
	return missing, nil
}

func firstColumn(tx *gorm.DB, table string) (string, error) {
	rows, err := tx.Raw("SELECT * FROM " + table + " WHERE 1 = 0").Rows()
	if err != nil {
		return "", err
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		return "", err
	}
	return columns[0], rows.Err()
}

// isDenied reports the errors 1142 and 1143: no right to the table, or to a column of it.
func isDenied(err error) bool {
	number := serverError(err)
	return number == 1142 || number == 1143
}

// withGrant completes the error with what the server knows about the user.
func (e *RightsError) withGrant(tx *gorm.DB) error {
	var account, database string
	if err := tx.Raw("SELECT CURRENT_USER(), DATABASE()").Row().Scan(&account, &database); err != nil {
		return err
	}
	at := strings.LastIndexByte(account, '@')
	e.User = "'" + account[:at] + "'@'" + account[at+1:] + "'"
	e.Grant = "GRANT SELECT, INSERT, UPDATE, DELETE ON `" + database + "`.* TO " + e.User
	return e
}

var tableChange = regexp.MustCompile(`(?m)^(CREATE|DROP) TABLE (?:IF (?:NOT )?EXISTS )?(\w+)`)

// tables are those that the migrations leave.
func (m migrator) tables() (names []string, err error) {
	files, err := fs.Glob(m.files, m.dir+"/*.sql") // sorted
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := fs.ReadFile(m.files, file)
		if err != nil {
			return nil, err
		}
		up, _, _ := strings.Cut(string(text), "-- +goose Down")
		for _, change := range tableChange.FindAllStringSubmatch(up, -1) {
			name := change[2]
			names = slices.DeleteFunc(names, func(have string) bool { return have == name })
			if change[1] == "CREATE" {
				names = append(names, name)
			}
		}
	}
	return names, nil
}
