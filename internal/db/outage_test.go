package db

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
)

var (
	errGone     = mysqldriver.ErrInvalidConn
	errDeadlock = &mysqldriver.MySQLError{Number: 1213, Message: "Deadlock found"}
	errNode     = &mysqldriver.MySQLError{Number: 1047, Message: "WSREP has not yet prepared node for application use"}
	errCommit   = &mysqldriver.MySQLError{Number: 1180, Message: "Got error 6 during COMMIT"}
	errReadOnly = &mysqldriver.MySQLError{Number: 1290, Message: "running with the --read-only option"}
)

// fake is a DB whose transactions are the function op, on a clock of its own.
func fake(t *testing.T, test func(t *testing.T, db *DB)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		db := &DB{dialect: MySQL, where: "db:3306/mail", retryFor: time.Minute}
		db.outage.stopped = make(chan struct{})
		db.probe = func(context.Context) error { return nil }
		test(t, db)
	})
}

// run is a transaction; it returns how long it took, and how often it was tried.
func (db *DB) run(writes bool, answers ...error) (took time.Duration, tries int, err error) {
	start := time.Now()
	err = db.retry(context.Background(), writes, func() error {
		tries++
		return answers[min(tries, len(answers))-1]
	})
	return time.Since(start), tries, err
}

func wantUnavailable(t *testing.T, err error, parts ...string) {
	t.Helper()
	if !errors.As(err, new(*UnavailableError)) {
		t.Fatalf("got %v, want an *UnavailableError", err)
	}
	wantText(t, err, parts...)
}

// TestOneBudgetForAll: transactions that meet the same outage wait a minute together, not each.
func TestOneBudgetForAll(t *testing.T) {
	fake(t, func(t *testing.T, db *DB) {
		start := time.Now()
		var all sync.WaitGroup
		for i := range 20 {
			time.Sleep(time.Duration(i) * 200 * time.Millisecond)
			all.Go(func() {
				_, _, err := db.run(true, errGone)
				wantUnavailable(t, err, "db:3306/mail", "tried for 1m0s", "server is up")
			})
		}
		all.Wait()
		if took := time.Since(start); took > 62*time.Second {
			t.Errorf("20 transactions took %s, want a minute for all", took)
		}
		db.probe = func(context.Context) error { return errGone }
		for range 1000 {
			took, tries, err := db.run(true, nil)
			wantUnavailable(t, err, "invalid connection")
			if took > 0 || tries > 0 {
				t.Fatalf("took %s and %d tries, want that it fails at once", took, tries)
			}
		}
	})
}

// TestTheDatabaseIsBack: a success ends the outage, and the next one has a minute again.
func TestTheDatabaseIsBack(t *testing.T) {
	fake(t, func(t *testing.T, db *DB) {
		_, _, err := db.run(true, errGone)
		wantUnavailable(t, err)
		time.Sleep(probeEvery)
		if took, tries, err := db.run(true, errGone); tries != 1 || took > 0 || err == nil {
			t.Errorf("after the budget: %d tries, %s, %v; want one try that fails", tries, took, err)
		}
		time.Sleep(probeEvery)
		if took, tries, err := db.run(true, nil); tries != 1 || took > 0 || err != nil {
			t.Errorf("it is back: %d tries, %s, %v; want success at once", tries, took, err)
		}
		if took, tries, err := db.run(true, errGone, errGone, errGone, nil); tries != 4 || err != nil {
			t.Errorf("the next outage: %d tries, %s, %v; want success with the fourth", tries, took, err)
		}
		if took, _, _ := db.run(true, errGone); took < 59*time.Second {
			t.Errorf("the outage after that was waited for %s, want a minute again", took)
		}
	})
}

// TestAProbeThatHangs ends after two seconds, and no other transaction waits for it.
func TestAProbeThatHangs(t *testing.T) {
	fake(t, func(t *testing.T, db *DB) {
		_, _, _ = db.run(true, errGone)
		time.Sleep(probeEvery)
		db.probe = func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		start := time.Now()
		var probing sync.WaitGroup
		probing.Go(func() {
			_, _, err := db.run(true, nil)
			wantUnavailable(t, err, "invalid connection")
			if errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v looks like the end of the caller's time", err)
			}
		})
		synctest.Wait()
		if took, _, err := db.run(true, nil); took > 0 || err == nil {
			t.Errorf("beside the probe: %s, %v; want that it fails at once", took, err)
		}
		probing.Wait()
		if took := time.Since(start); took != probeFor {
			t.Errorf("the probe took %s, want %s", took, probeFor)
		}
	})
}

// TestOthersSucceed: a transaction that always loses its connection ends after a minute, though
// others reset the clock of the outage.
func TestOthersSucceed(t *testing.T) {
	fake(t, func(t *testing.T, db *DB) {
		start := time.Now()
		err := db.retry(context.Background(), true, func() error {
			_, _, _ = db.run(true, nil)
			return errGone
		})
		wantUnavailable(t, err)
		if took := time.Since(start); took > time.Minute {
			t.Errorf("took %s, want a minute at most", took)
		}
	})
}

func TestStopWaiting(t *testing.T) {
	fake(t, func(t *testing.T, db *DB) {
		var waiting sync.WaitGroup
		waiting.Go(func() {
			took, _, err := db.run(true, errGone)
			wantUnavailable(t, err, "asked to stop")
			if took > 11*time.Second {
				t.Errorf("took %s, want until shortly after the 10 s at which the waiting was stopped", took)
			}
		})
		time.Sleep(10 * time.Second)
		db.StopWaiting()
		waiting.Wait()
		db.StopWaiting() // again does nothing
		time.Sleep(probeEvery)
		if _, _, err := db.run(true, nil); err != nil {
			t.Errorf("the database is back: %v", err)
		}
		if _, tries, err := db.run(true, errDeadlock, errDeadlock, nil); err != nil || tries != 3 {
			t.Errorf("deadlocks when stopped: %d tries, %v; want success with the third", tries, err)
		}
		took, tries, err := db.run(true, errGone)
		wantUnavailable(t, err, "asked to stop")
		if took > stoppedPatience || tries < 2 || tries > 20 {
			t.Errorf("an outage after that: %d tries in %s, want a few within %s", tries, took, stoppedPatience)
		}
	})
}

// TestStoppedWhileHeld: when the process is asked to stop, a writer is tried for 5 s more that has
// waited for an SQLite file that another process holds, or for the one connection of its own.
func TestStoppedWhileHeld(t *testing.T) {
	const waited, held = 10 * time.Second, stoppedPatience - time.Second
	for name, tries := range map[string]func(since time.Duration, first bool) error{
		"for the file": func(since time.Duration, _ bool) error {
			if since < waited+held {
				return errReadOnly
			}
			return nil
		},
		"for the connection": func(_ time.Duration, first bool) error {
			if first {
				time.Sleep(2 * waited)
				return errReadOnly
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			fake(t, func(t *testing.T, db *DB) {
				time.AfterFunc(waited, db.StopWaiting)
				start, first := time.Now(), true
				err := db.retry(t.Context(), true, func() error {
					defer func() { first = false }()
					return tries(time.Since(start), first)
				})
				if err != nil {
					t.Errorf("after %s: %v", time.Since(start), err)
				}
				time.Sleep(probeEvery)
				took, _, err := db.run(true, errReadOnly)
				wantUnavailable(t, err, "asked to stop")
				if took > stoppedPatience {
					t.Errorf("a file that stays locked: took %s, want %s at most", took, stoppedPatience)
				}
			})
		})
	}
}

// TestContentionIsNoOutage: deadlocks have a minute of their own, and delay no other transaction.
func TestContentionIsNoOutage(t *testing.T) {
	fake(t, func(t *testing.T, db *DB) {
		took, _, err := db.run(true, errDeadlock)
		wantText(t, err, "tried for 1m0s", "Deadlock")
		if errors.As(err, new(*UnavailableError)) || took < 59*time.Second {
			t.Errorf("got %v after %s, want an error other than that the database is gone, after a minute", err, took)
		}
		if took, _, _ := db.run(true, errDeadlock); took < 59*time.Second {
			t.Errorf("the next one had %s, want a minute", took)
		}
	})
}

// TestServerErrorsThatPass are tried again for a minute, and then reported with the fix.
func TestServerErrorsThatPass(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want []string
	}{
		"1047": {errNode, []string{"1047", "Galera", "wsrep_cluster_status"}},
		"1180": {errCommit, []string{"1180", "Galera", "wsrep_cluster_status"}},
		"1226": {&mysqldriver.MySQLError{Number: 1226}, []string{"raise this limit of the user of database.dsn"}},
		"2003": {&mysqldriver.MySQLError{Number: 2003}, []string{"the proxy of database.dsn reaches no server"}},
		"3032": {&mysqldriver.MySQLError{Number: 3032}, []string{"offline_mode", "lead to the primary"}},
		"9001": {&mysqldriver.MySQLError{Number: 9001}, []string{"the proxy of database.dsn reaches no server"}},
		"1290": {errReadOnly, []string{"read-only", "let database.dsn lead to the primary"}},
		"1792": {&mysqldriver.MySQLError{Number: 1792}, []string{"read-only", "primary"}},
		"1836": {&mysqldriver.MySQLError{Number: 1836}, []string{"read-only", "primary"}},
	} {
		t.Run(name, func(t *testing.T) {
			fake(t, func(t *testing.T, db *DB) {
				if _, tries, err := db.run(true, tt.err, tt.err, nil); tries != 3 || err != nil {
					t.Errorf("%d tries, %v; want success with the third", tries, err)
				}
				took, _, err := db.run(true, tt.err)
				wantUnavailable(t, err, append(tt.want, "db:3306/mail", "tried for 1m0s")...)
				if took < 59*time.Second || took > time.Minute {
					t.Errorf("took %s, want about a minute", took)
				}
				if strings.Contains(err.Error(), "bad connection") {
					t.Errorf("the error does not say the reason: %v", err)
				}
			})
		})
	}
}

// TestReadOnlyServerStillReads: readers do not wait, and do not make writers wait a minute again.
func TestReadOnlyServerStillReads(t *testing.T) {
	fake(t, func(t *testing.T, db *DB) {
		_, _, _ = db.run(true, errReadOnly)
		if _, _, err := db.run(false, nil); err != nil {
			t.Errorf("a read-only server does not read: %v", err)
		}
		time.Sleep(probeEvery)
		if took, _, err := db.run(true, errReadOnly); took > 0 || err == nil {
			t.Errorf("the next writer: %v after %s, want an error at once", err, took)
		}
	})
}

// TestWritersThatAlternate: writers who are in each other's way do not fail as long as they
// succeed.
func TestWritersThatAlternate(t *testing.T) {
	fake(t, func(t *testing.T, db *DB) {
		start := time.Now()
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				for time.Since(start) < 3*time.Minute {
					if _, _, err := db.run(true, errReadOnly, errReadOnly, errReadOnly, nil); err != nil {
						t.Errorf("after %s: %v", time.Since(start), err)
					}
				}
			})
		}
		all.Wait()
	})
}

// TestNobodyWaited: a failure that nobody waited for the end of does not use up the budget.
func TestNobodyWaited(t *testing.T) {
	fake(t, func(t *testing.T, db *DB) {
		ctx, cancel := context.WithCancel(t.Context())
		err := db.retry(ctx, true, func() error {
			cancel()
			return errReadOnly
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := db.retry(ctx, true, func() error { return errReadOnly }); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if _, tries, err := db.run(true, errReadOnly, nil); tries != 2 || err != nil {
			t.Errorf("%d tries, %v; want success with the second", tries, err)
		}
	})
}
