package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"strings"
	"testing"

	mysqldriver "github.com/go-sql-driver/mysql"
)

// refusing is a server that refuses each connection.
type refusing uint16

func (r refusing) Connect(context.Context) (driver.Conn, error) {
	return nil, &mysqldriver.MySQLError{Number: uint16(r), Message: "no"}
}

func (refusing) Driver() driver.Driver { return nil }

// TestLockRefused: the error says what to do, once.
func TestLockRefused(t *testing.T) {
	for number, fix := range map[uint16]string{
		1047: "wsrep_cluster_status is Primary",
		1290: "lead to the primary",
		1040: "raise the server's max_connections",
	} {
		pool := sql.OpenDB(refusing(number))
		_, err := lockTable(testContext(t), pool)
		err = (&DB{dialect: MySQL}).explained(err)
		if n := strings.Count(fmt.Sprint(err), fix); n != 1 {
			t.Errorf("the error %v has the fix %q %d times, want once", err, fix, n)
		}
		_ = pool.Close()
	}
}
