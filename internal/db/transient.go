package db

import (
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"syscall"

	mysqldriver "github.com/go-sql-driver/mysql"
	modernc "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// trouble says what an error means for running the same transaction again.
type trouble int

const (
	permanent  trouble = iota // it would fail again
	contention                // the server works, but others were in the way
	outage                    // the database does not work now
	detached                  // the server works, but another one has to be asked
	unwritable                // only reading works: the server is read-only, or others hold the SQLite file
)

// troubles are the server's errors after which the same transaction, run again from its start, may
// succeed. MariaDB's numbers and MySQL's do not overlap here.
var troubles = map[trouble][]uint16{
	contention: {
		1205, // lock wait timeout: rolls back only the statement, so going on would commit half
		1213, // deadlock; on Galera another node has changed the same row
		1020, // record has changed since last read (MariaDB's snapshot isolation)
		1412, // table definition has changed: a migration ran meanwhile
		1615, // prepared statement needs to be re-prepared
		3101, // rolled back by group replication
	},
	outage: {
		1040, // too many connections
		1203, // too many connections of this user
		1226, // the same, by a limit of the account
		1053, // server shutdown in progress
		1077, // normal shutdown
		1079, // shutdown complete
		1080, // forcing close of the connection
		1152, // aborted connection
		1158, // error reading a packet
		1159, // timeout reading a packet
		1160, // error writing a packet
		1161, // timeout writing a packet
		1184, // aborted new connection
		1317, // query interrupted: what a shutting down server answers
		1927, // connection was killed (MariaDB)
		1928, // same, by a timeout
		2003, // no server can be reached, as MySQL Router says it
		2006, // server has gone away, as a proxy says it
		2013, // lost connection, as a proxy says it
		3032, // offline_mode, as in a failover (MySQL)
		3169, // session was killed (MySQL)
		4031, // disconnected for inactivity (MySQL)
		9001, // no server can be reached, as ProxySQL says it
	},
	detached: {
		1047, // the node is not ready: outside the primary component, joining or a donor (Galera)
		1180, // the same, in COMMIT: the outcome is unknown, as with a lost connection
	},
	unwritable: {
		1290, // read_only or super_read_only: a replica, or a primary that was demoted
		1792, // the session's transactions are read-only: what a proxy makes of the same
		1836, // innodb_read_only
	},
}

// classify is the only place that decides which errors are worth a retry.
func classify(err error) trouble {
	if number := serverError(err); number != 0 {
		for kind, numbers := range troubles {
			if slices.Contains(numbers, number) {
				return kind
			}
		}
		return permanent
	}
	switch code := sqliteError(err); {
	case code == sqlite3.SQLITE_BUSY, code == sqlite3.SQLITE_LOCKED:
		return unwritable
	case code == 0 && lostConnection(err):
		return outage
	}
	return permanent
}

// serverError is the number of an error that MySQL or MariaDB answered with; 0 for other errors.
func serverError(err error) uint16 {
	if e, ok := errors.AsType[*mysqldriver.MySQLError](err); ok {
		return e.Number
	}
	return 0
}

// sqliteError is the code of an error of SQLite, without the reason that the extended code has
// above the low byte; 0 for other errors.
func sqliteError(err error) int {
	if e, ok := errors.AsType[*modernc.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// Transient reports whether the same transaction, run again, may succeed without help.
func Transient(err error) bool { return classify(err) != permanent }

// lostConnection reports whether the server went away or is not back yet.
func lostConnection(err error) bool {
	for _, lost := range []error{
		driver.ErrBadConn, mysqldriver.ErrInvalidConn, mysqldriver.ErrMalformPkt, mysqldriver.ErrPktSync,
		mysqldriver.ErrBusyBuffer, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, os.ErrDeadlineExceeded,
		syscall.ECONNRESET, syscall.ECONNREFUSED, syscall.EPIPE,
	} {
		if errors.Is(err, lost) {
			return true
		}
	}
	var op *net.OpError // includes a socket file that is not there while the server restarts
	return errors.As(err, &op)
}
