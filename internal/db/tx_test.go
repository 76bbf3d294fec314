package db

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	"gorm.io/gorm"

	"postrider/internal/testserver"
)

// withRows gives the database two rows to fight over.
func withRows(t *testing.T, cfg Config, opts ...Option) *DB {
	t.Helper()
	db := openMigrated(t, cfg, opts...)
	const table = `CREATE TABLE rows_of_test (id BIGINT PRIMARY KEY, n BIGINT NOT NULL)`
	if _, err := db.pool.ExecContext(t.Context(), table); err != nil {
		t.Fatal(err)
	}
	if _, err := db.pool.ExecContext(t.Context(), `INSERT INTO rows_of_test VALUES (1, 0), (2, 0)`); err != nil {
		t.Fatal(err)
	}
	return db
}

func bump(tx *gorm.DB, id int) error {
	return tx.Exec(`UPDATE rows_of_test SET n = n + 1 WHERE id = ?`, id).Error
}

func wantRow(t *testing.T, db *DB, id, want int) {
	t.Helper()
	var n int
	err := db.View(testContext(t), func(tx *gorm.DB) error {
		return tx.Raw(`SELECT n FROM rows_of_test WHERE id = ?`, id).Scan(&n).Error
	})
	if err != nil || n != want {
		t.Errorf("row %d was changed %d times (%v), want %d", id, n, err, want)
	}
}

func TestTxEnds(t *testing.T) {
	mine := errors.New("the caller's own")
	on(t, engines(), func(t *testing.T, cfg Config) {
		db := withRows(t, cfg)
		runs := 0
		err := db.Tx(testContext(t), func(tx *gorm.DB) error {
			runs++
			return errors.Join(bump(tx, 1), mine)
		})
		if !errors.Is(err, mine) || runs != 1 {
			t.Errorf("got %v after %d runs, want the caller's own error after 1", err, runs)
		}
		wantRow(t, db, 1, 0)
		func() {
			defer func() { _ = recover() }()
			_ = db.Tx(testContext(t), func(tx *gorm.DB) error {
				_ = bump(tx, 1)
				panic("in the middle")
			})
		}()
		wantRow(t, db, 1, 0)
		if err := db.Tx(testContext(t), func(tx *gorm.DB) error { return bump(tx, 1) }); err != nil {
			t.Error(err)
		}
		wantRow(t, db, 1, 1)
	})
}

// Two transactions that take the same rows in opposite order both end well, each having counted
// once.
func TestTxSurvivesADeadlock(t *testing.T) {
	on(t, servers(), func(t *testing.T, cfg Config) {
		db := withRows(t, cfg)
		var firstRun, bothHoldOne sync.WaitGroup
		bothHoldOne.Add(2)
		var runs [2]int
		for i := range runs {
			firstRun.Go(func() {
				err := db.Tx(testContext(t), func(tx *gorm.DB) error {
					runs[i]++
					if err := bump(tx, 1+i); err != nil {
						return err
					}
					if runs[i] == 1 {
						bothHoldOne.Done()
						bothHoldOne.Wait()
					}
					return bump(tx, 2-i)
				})
				if err != nil {
					t.Errorf("transaction %d: %v", i, err)
				}
			})
		}
		firstRun.Wait()
		if runs[0]+runs[1] < 3 {
			t.Errorf("the transactions ran %v times: there was no deadlock to survive", runs)
		}
		wantRow(t, db, 1, 2)
		wantRow(t, db, 2, 2)
	})
}

// After a lock wait timeout (1205) only the statement is rolled back; Tx runs the whole transaction
// again, once.
func TestTxSurvivesALockTimeout(t *testing.T) {
	on(t, servers(), func(t *testing.T, cfg Config) {
		db := withRows(t, cfg)
		held, release := holdRow(t, db)
		<-held
		runs := 0
		err := db.Tx(testContext(t), func(tx *gorm.DB) error {
			if runs++; runs == 2 {
				release()
			}
			if err := tx.Exec("SET innodb_lock_wait_timeout = 1").Error; err != nil {
				return err
			}
			return errors.Join(bump(tx, 2), bump(tx, 1))
		})
		if err != nil || runs < 2 {
			t.Errorf("%v after %d runs, want success after more than one", err, runs)
		}
		wantRow(t, db, 2, 1)
	})
}

// holdRow keeps row 1 locked until release is called.
func holdRow(t *testing.T, db *DB) (held chan struct{}, release func()) {
	held, done, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		err := db.Tx(testContext(t), func(tx *gorm.DB) error {
			if err := bump(tx, 1); err != nil {
				return err
			}
			close(held)
			<-done
			return nil
		})
		if err != nil {
			t.Errorf("the holder of the row: %v", err)
		}
	}()
	release = sync.OnceFunc(func() { close(done); <-ended })
	t.Cleanup(release)
	return held, release
}

// Another process holds the SQLite file for longer than SQLite itself waits.
func TestTxSurvivesABusyFile(t *testing.T) {
	cfg := freshSQLite(t)
	db := withRows(t, cfg)
	other, err := Open(testContext(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	held, release := holdRow(t, other)
	<-held
	time.AfterFunc(time.Second, release)
	if err := db.Tx(testContext(t), func(tx *gorm.DB) error { return bump(tx, 1) }); err != nil {
		t.Fatal(err)
	}
	wantRow(t, db, 1, 2)
}

func TestTxGivesUp(t *testing.T) {
	cfg := freshSQLite(t)
	db := withRows(t, cfg, WithRetryFor(time.Second))
	runs := 0
	err := db.Tx(testContext(t), func(tx *gorm.DB) error {
		runs++
		return errors.Join(bump(tx, 1), mysqldriver.ErrInvalidConn)
	})
	wantText(t, err, "tried for 1s", "invalid connection", cfg.Path)
	if runs < 2 || runs > 20 {
		t.Errorf("ran %d times within a second of backoff from 10 ms, want a handful", runs)
	}
	wantRow(t, db, 1, 0)
}

func TestTxReportsThatItsContextEnded(t *testing.T) {
	mine := errors.New("the caller's own")
	on(t, engines(), func(t *testing.T, cfg Config) {
		db := withRows(t, cfg)
		ctx, cancel := context.WithCancel(testContext(t))
		err := db.Tx(ctx, func(tx *gorm.DB) error {
			cancel()
			return mine
		})
		if !errors.Is(err, context.Canceled) || !errors.Is(err, mine) {
			t.Errorf("got %v, want both the context's end and the caller's own", err)
		}
		wantRow(t, db, 1, 0)
	})
}

func TestTxEndsWithItsContext(t *testing.T) {
	on(t, engines(), func(t *testing.T, cfg Config) {
		db := withRows(t, cfg)
		other, err := Open(testContext(t), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = other.Close() }()
		held, release := holdRow(t, other)
		<-held
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		start := time.Now()
		err = db.Tx(ctx, func(tx *gorm.DB) error { return bump(tx, 1) })
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took > 15*time.Second {
			t.Errorf("got %v after %s, want the context's end at once", err, took)
		}
		wantText(t, err, "context deadline exceeded while waiting for the "+db.Dialect()+" database")
		if strings.Count(err.Error(), "deadline") > 1 {
			t.Errorf("%v says it twice", err)
		}
		release()
		wantRow(t, db, 1, 1)
	})
}

func TestTxSurvivesAKilledConnection(t *testing.T) {
	on(t, servers(), func(t *testing.T, cfg Config) {
		db := withRows(t, cfg)
		runs := 0
		err := db.Tx(testContext(t), func(tx *gorm.DB) error {
			if err := bump(tx, 1); err != nil {
				return err
			}
			if runs++; runs == 1 {
				var id int64
				if err := tx.Raw("SELECT CONNECTION_ID()").Scan(&id).Error; err != nil {
					return err
				}
				if _, err := db.pool.ExecContext(t.Context(), "KILL ?", id); err != nil {
					t.Errorf("kill the connection: %v", err)
				}
			}
			return bump(tx, 2)
		})
		if err != nil || runs != 2 {
			t.Errorf("%v after %d runs, want success after 2", err, runs)
		}
		wantRow(t, db, 1, 1)
		wantRow(t, db, 2, 1)
	})
}

func TestTxSurvivesARestart(t *testing.T) {
	for name, server := range map[string]func(testing.TB) *testserver.SQL{
		"mariadb": testserver.MariaDB, "mysql": testserver.MySQL,
	} {
		t.Run(name, func(t *testing.T) {
			s := server(t)
			db := withRows(t, Config{Driver: MySQL, DSN: s.NewDatabase(t)})
			runs := 0
			var restarted sync.WaitGroup
			err := db.Tx(testContext(t), func(tx *gorm.DB) error {
				if err := bump(tx, 1); err != nil {
					return err
				}
				if runs++; runs == 1 {
					s.Stop(t)
					restarted.Go(func() { s.Start(t) }) // Tx finds no server meanwhile
				}
				return bump(tx, 2)
			})
			restarted.Wait()
			if err != nil || runs != 2 {
				t.Errorf("%v after %d runs, want success after 2", err, runs)
			}
			wantRow(t, db, 1, 1)
			wantRow(t, db, 2, 1)
		})
	}
}

// The transactions of one process wait for each other in order, and those of two processes take
// turns.
func TestManyWriters(t *testing.T) {
	const perHandle, each = 4, 25
	on(t, engines(), func(t *testing.T, cfg Config) {
		db := withRows(t, cfg)
		other, err := Open(testContext(t), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = other.Close() }()
		var wg sync.WaitGroup
		for _, handle := range []*DB{db, other} {
			for range perHandle {
				wg.Go(func() {
					for range each {
						err := handle.Tx(testContext(t), func(tx *gorm.DB) error { return bump(tx, 1) })
						if err != nil {
							t.Errorf("a writer: %v", err)
							return
						}
					}
				})
			}
		}
		wg.Wait()
		wantRow(t, db, 1, 2*perHandle*each)
	})
}

// TestErrorsThatStay of Tx and View name the fix.
func TestErrorsThatStay(t *testing.T) {
	cfg := freshSQLite(t)
	db, err := Open(testContext(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	var root, size int64
	row := db.pool.QueryRowContext(t.Context(),
		"SELECT rootpage, page_size FROM sqlite_master, pragma_page_size "+
			"WHERE name = 'contacts'")
	if err := errors.Join(row.Scan(&root, &size), db.Close()); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(cfg.Path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(bytes.Repeat([]byte{0xff}, int(size)), (root-1)*size)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	db, err = Open(testContext(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	read := func(tx *gorm.DB) error {
		_, err := Query(tx, Value[string], "SELECT keywords FROM contacts")
		return err
	}
	for name, do := range map[string]func(context.Context, func(*gorm.DB) error) error{"Tx": db.Tx, "View": db.View} {
		t.Run(name, func(t *testing.T) {
			wantText(t, do(testContext(t), read),
				"malformed", "the file is damaged", "delete the -wal", "restore it from a copy")
		})
	}
	for number, want := range map[uint16]string{
		1114: "check whether the disk of the database server is full",
		1146: "the schema is not complete: restore the backup",
		1665: "set the server's binlog_format to ROW or MIXED",
		3159: "set database.tls to verify, require or a file",
		1044: "all privileges on that database",
		1142: "see `postrider check` for the missing GRANT",
	} {
		wantText(t, (&DB{}).explained(&mysqldriver.MySQLError{Number: number}), want)
	}
	if err := (&DB{}).explained(gorm.ErrDuplicatedKey); err.Error() != gorm.ErrDuplicatedKey.Error() {
		t.Errorf("got %v, want the error as it was", err)
	}
}

// TestFileThatIsHeld: while another program has the SQLite file locked, all transactions have one
// budget, StopWaiting ends it, and reading works.
func TestFileThatIsHeld(t *testing.T) {
	cfg := freshSQLite(t)
	db := withRows(t, cfg, WithRetryFor(time.Second))
	patient, other := openAny(t, cfg), openAny(t, cfg)
	held, release := holdRow(t, other)
	<-held
	change := func(tx *gorm.DB) error { return bump(tx, 1) }
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for range 3 {
		wantUnavailable(t, db.Tx(ctx, change), cfg.Path, "tried for 1s", "another program holds it")
		wantRow(t, db, 1, 0)
	}
	patient.StopWaiting()
	wantUnavailable(t, patient.Tx(ctx, change), "asked to stop", "another program holds it")
	release()
	if err := patient.Tx(ctx, change); err != nil {
		t.Error(err)
	}
	wantRow(t, db, 1, 2)
}
