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

// transientMySQL are the server's errors after which the same transaction, run again from its start, may succeed.
// MariaDB's numbers and MySQL's do not overlap here.
var transientMySQL = []uint16{
	1205, // lock wait timeout: rolls back the statement alone, so going on would commit half
	1213, // deadlock
	1020, // record has changed since last read (MariaDB's snapshot isolation)
	1412, // table definition has changed: a migration ran meanwhile
	1615, // prepared statement needs to be re-prepared
	3101, // rolled back by group replication

	1040, // too many connections
	1203, // too many connections of this user
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
	1047, // node is not ready (Galera)
	1927, // connection was killed (MariaDB)
	1928, // same, by a timeout
	2006, // server has gone away, as a proxy says it
	2013, // lost connection, as a proxy says it
	3169, // session was killed (MySQL)
	4031, // disconnected for inactivity (MySQL)
}

// transient tells whether running the same again may succeed without anyone's help.
func transient(err error) bool {
	var mysqlErr *mysqldriver.MySQLError
	if errors.As(err, &mysqlErr) {
		return slices.Contains(transientMySQL, mysqlErr.Number)
	}
	var sqliteErr *modernc.Error
	if errors.As(err, &sqliteErr) {
		switch sqliteErr.Code() & 0xff { // the extended code carries the reason above the low byte
		case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
			return true
		}
		return false
	}
	return lostConnection(err)
}

// lostConnection tells whether the server went away or is not back yet.
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
