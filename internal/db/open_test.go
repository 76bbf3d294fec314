package db

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	"gorm.io/gorm"

	"postrider/internal/testserver"
)

func TestOpenSQLitePaths(t *testing.T) {
	names := []string{"plain.db", "a space.db", "per%41cent.db", "hash#.db", "ü.db", "a&b=c;d.db"}
	if runtime.GOOS != "windows" {
		names = append(names, "question?mark.db", `back\slash.db`)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), name)
			db, err := Open(testContext(t), Config{Driver: SQLite, Path: path})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			info, err := os.Stat(path)
			if err != nil {
				t.Fatalf("the file has another name than it was given: %v", err)
			}
			if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode != 0o600 {
				t.Errorf("the file has mode %04o, want 0600", mode)
			}
			if info.Size() == 0 {
				t.Error("the file is empty: the database went elsewhere")
			}
		})
	}
}

func TestOpenSQLiteRelativePath(t *testing.T) {
	t.Chdir(t.TempDir())
	db, err := Open(testContext(t), Config{Driver: SQLite, Path: "rel:ative.db"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := os.Stat("rel:ative.db"); err != nil {
		t.Error(err)
	}
}

func TestSQLiteURIOfWindowsDrive(t *testing.T) {
	if got := sqliteURI("C:/Program Files/p.db"); !strings.HasPrefix(got, "file:///C:/Program%20Files/p.db?") {
		t.Errorf("got %s, want file:///C:/Program%%20Files/p.db?...", got)
	}
}

func TestSQLitePragmas(t *testing.T) {
	db := openMigrated(t, freshSQLite(t))
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1"} {
		var got string
		if err := db.pool.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
			t.Errorf("PRAGMA %s is %q (%v), want %q", pragma, got, err, want)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "letter.txt")
	if err := os.WriteFile(other, []byte(strings.Repeat("Dear Sir or Madam, ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	damaged := damagedSQLite(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	_ = l.Close()
	missing := filepath.Join(dir, "no")
	file := func(path string) Config { return Config{Driver: SQLite, Path: path} }
	tests := []struct {
		name string
		cfg  Config
		want []string
	}{
		{"unknown driver", Config{Driver: "postgres"}, []string{`"postgres"`, "sqlite", "mysql"}},
		{"no path", file(""), []string{"database.path is empty"}},
		{"no directory", file(filepath.Join(missing, "p.db")), []string{"create the directory " + missing}},
		{"not a database", file(other), []string{other, "not a database", "restore it from a copy", "another file"}},
		{"damaged", file(damaged), []string{damaged, "malformed", "the file is damaged", "restore it from a copy"}},
		{"a directory", file(dir), []string{dir, "database.path"}},
		{
			"server down",
			Config{Driver: MySQL, DSN: "u:s3cret@tcp(" + closed + ")/mail"},
			[]string{"mysql", closed + "/mail", "refused", "server is up"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Open(testContext(t), tt.cfg)
			wantText(t, err, tt.want...)
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error contains the password: %v", err)
			}
		})
	}
}

// damagedSQLite is a database that has lost its second half.
func damagedSQLite(t *testing.T) string {
	t.Helper()
	cfg := freshSQLite(t)
	db, err := Open(testContext(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil { // which brings the log into the file
		t.Fatal(err)
	}
	info, err := os.Stat(cfg.Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(cfg.Path, info.Size()/2); err != nil {
		t.Fatal(err)
	}
	return cfg.Path
}

func TestNow(t *testing.T) {
	on(t, servers(), func(t *testing.T, cfg Config) {
		db := openMigrated(t, cfg)
		for _, zone := range []string{"+00:00", "+05:30", "-11:00"} {
			err := db.Tx(testContext(t), func(tx *gorm.DB) error {
				if err := tx.Exec("SET time_zone = ?", zone).Error; err != nil {
					return err
				}
				before := time.Now()
				now, err := db.Now(tx)
				if off := now.Sub(before).Abs(); err == nil && off > time.Minute {
					t.Errorf("time zone %s: the clock is %s off", zone, off)
				}
				return errors.Join(err, tx.Exec("SET time_zone = '+00:00'").Error)
			})
			if err != nil {
				t.Errorf("time zone %s: %v", zone, err)
			}
		}
	})
	t.Run("sqlite", func(t *testing.T) {
		fixed := time.Date(2026, 2, 3, 4, 5, 6, 7000, time.UTC)
		db := openMigrated(t, freshSQLite(t), WithNow(func() time.Time { return fixed }))
		if got, err := db.Now(nil); err != nil || !got.Equal(fixed) {
			t.Errorf("got %s (%v), want the injected clock's %s", got, err, fixed)
		}
	})
}

// TestAboutNow: a server is asked for its clock once a second, not for each change. When it did not
// answer, it is asked again.
func TestAboutNow(t *testing.T) {
	on(t, servers(), func(t *testing.T, cfg Config) {
		var statements testserver.Statements
		db := openMigrated(t, cfg, WithPool(statements.Pool))
		asked := func(ctx context.Context) (n int, err error) {
			statements.Taken()
			tx := db.gorm.WithContext(ctx)
			for range 3 {
				var now time.Time
				if now, err = db.AboutNow(tx); err == nil && time.Since(now).Abs() > time.Minute {
					t.Errorf("the clock is off: %s", now)
				}
			}
			texts, _ := statements.Taken()
			return len(texts), err
		}
		ended, end := context.WithCancel(testContext(t))
		end()
		if n, err := asked(ended); n != 3 || !errors.Is(err, context.Canceled) {
			t.Errorf("unanswered: asked %d times, %v; want 3 and that it was canceled", n, err)
		}
		for range 2 {
			if n, err := asked(testContext(t)); n != 1 || err != nil {
				t.Errorf("asked %d times, %v; want once", n, err)
			}
			last := *db.asked.Load()
			db.asked.Store(&serverTime{last.now, last.at.Add(-askEvery)}) // a second later
		}
	})
}

func TestSameAnswersOnEveryEngine(t *testing.T) {
	on(t, engines(), func(t *testing.T, cfg Config) {
		db := openMigrated(t, cfg)
		at := time.Date(2026, 7, 1, 23, 59, 59, 123456000, time.FixedZone("", 7200))
		insert := func(address string, seen any) error {
			return db.Tx(testContext(t), func(tx *gorm.DB) error {
				return tx.Exec(
					`INSERT INTO monitored_emails (email_address, email_password, description, is_active,
					host, port, security, allow_plaintext, username, auth, start, last_error, scan_holder, scan_token,
					scan_until, created_at, updated_at, last_scanned_at)
					VALUES (?, '', '', true, '', 0, '', false, '', '', '', '', '', 0, 0, ?, ?, ?)`,
					address, at, at, seen).Error
			})
		}
		if err := insert("a@x", nil); err != nil {
			t.Fatal(err)
		}
		if err := insert("a@x", nil); !errors.Is(err, gorm.ErrDuplicatedKey) {
			t.Errorf("a duplicate is %v, want gorm.ErrDuplicatedKey", err)
		}
		if err := insert("A@x", nil); err != nil {
			t.Errorf("identities are not compared as octets: %v", err)
		}
		err := db.Tx(testContext(t), func(tx *gorm.DB) error {
			return tx.Exec(`INSERT INTO monitored_folders ` +
				`(inbox_id, name, is_active, uid_validity, last_seen_uid, start_uid, baseline_uid)
				VALUES (4711, 'INBOX', 1, 0, 0, 0, 0)`).Error
		})
		if !errors.Is(err, gorm.ErrForeignKeyViolated) {
			t.Errorf("a missing parent is %v, want gorm.ErrForeignKeyViolated", err)
		}
		var created time.Time
		err = db.View(testContext(t), func(tx *gorm.DB) error {
			return tx.Raw(`SELECT created_at FROM monitored_emails WHERE email_address = 'a@x'`).Scan(&created).Error
		})
		if err != nil || !created.Equal(at) || created.Location() != time.UTC {
			t.Errorf("a time comes back as %v (%v), want %v in UTC", created, err, at.UTC())
		}
		err = db.Tx(testContext(t), func(tx *gorm.DB) error {
			same := tx.Exec(`UPDATE monitored_emails SET port = 0 WHERE email_address = 'a@x'`)
			if same.RowsAffected != 1 {
				t.Errorf("an update to the same value affects %d rows, want the 1 that matched", same.RowsAffected)
			}
			return same.Error
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestTransient(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want bool
	}{
		{"deadlock", &mysqldriver.MySQLError{Number: 1213}, true},
		{"lock wait timeout", &mysqldriver.MySQLError{Number: 1205}, true},
		{"server shutdown", &mysqldriver.MySQLError{Number: 1053}, true},
		{"syntax error", &mysqldriver.MySQLError{Number: 1064}, false},
		{"data too long", &mysqldriver.MySQLError{Number: 1406}, false},
		{"lost connection", mysqldriver.ErrInvalidConn, true},
		{"connection refused", &net.OpError{Op: "dial", Err: errors.New("refused")}, true},
		{"packet too large", mysqldriver.ErrPktTooLarge, false},
		{"duplicate", gorm.ErrDuplicatedKey, false},
		{"the caller's own", errors.New("no such task"), false},
	} {
		if got := Transient(tt.err); got != tt.want {
			t.Errorf("%s: transient is %v, want %v", tt.name, got, tt.want)
		}
	}
}
