package db

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"

	"postrider/internal/testserver"
)

func TestOpenServerErrors(t *testing.T) {
	on(t, servers(), func(t *testing.T, cfg Config) {
		for name, tt := range map[string]struct{ old, new, want string }{
			"wrong login":      {"root@", "nobody:s3cret@", "check the user and the password"},
			"unknown database": {"/test", "/missing", "CREATE DATABASE"},
		} {
			_, err := Open(testContext(t), Config{Driver: MySQL, DSN: strings.Replace(cfg.DSN, tt.old, tt.new, 1)})
			wantText(t, err, "cannot open the mysql database", tt.want)
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s: the error contains the password: %v", name, err)
			}
		}
	})
}

func TestDSNErrorsHideThePassword(t *testing.T) {
	for name, dsn := range map[string]string{
		"empty":                     "",
		"no slash":                  "user:s3cret@tcp(db:3306)",
		"no database":               "user:s3cret@tcp(db:3306)/",
		"strict makes it panic":     "user:s3cret@tcp(db:3306)/mail?strict=true",
		"slash only in password":    "user:s3/cret?loc=s3cret@tcp(db:3306)",
		"percent after the slash":   "user:s3/%s3cret@tcp(db:3306)",
		"bad bool":                  "user:x@tcp(db:3306)/mail?parseTime=s3cret",
		"bad duration":              "user:x@tcp(db:3306)/mail?timeout=s3cret",
		"unknown tls configuration": "user:x@tcp(db:3306)/mail?tls=s3cret",
		"password as the network":   "user@s3cret/mail",
		"parenthesis not closed":    "user:s3cret@tcp(db:3306/mail",
		"a URL":                     "mysql://user:s3cret@db:3306/mail",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseDSN(Config{DSN: dsn})
			if name == "a URL" && err == nil {
				t.Skip("taken for a user named mysql")
			}
			wantText(t, err, "database.dsn", "user:password@tcp(host:3306)/database")
			if !errors.As(err, new(*DSNError)) {
				t.Errorf("the error is a %T, want a *DSNError", err)
			}
			if strings.Contains(err.Error(), "s3") {
				t.Errorf("the error contains a part of the password: %v", err)
			}
		})
	}
}

func TestDSNIsMadeSafe(t *testing.T) {
	cfg, err := parseDSN(Config{DSN: "u:p@tcp(db:3306)/mail?parseTime=false&loc=Local&clientFoundRows=false" +
		"&interpolateParams=false" +
		"&multiStatements=true&allowAllFiles=true&maxAllowedPacket=1024&timeout=1h&readTimeout=0s&charset=latin1" +
		"&time_zone=%27%2B05%3A00%27&sql_mode=%27%27&autocommit=0&tx_isolation=%27SERIALIZABLE%27"})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Loc != time.UTC || !cfg.ParseTime || !cfg.ClientFoundRows || !cfg.InterpolateParams {
		t.Errorf("time or rows are left as the user wrote them: %s", cfg.FormatDSN())
	}
	if cfg.MultiStatements || cfg.AllowAllFiles || cfg.MaxAllowedPacket != 0 ||
		cfg.Timeout != 10*time.Second || cfg.ReadTimeout != 30*time.Second {
		t.Errorf("limits are left as the user wrote them: %s", cfg.FormatDSN())
	}
	if p := cfg.Params; p["time_zone"] != "'+00:00'" || p["autocommit"] != "1" || p["tx_isolation"] != "" {
		t.Errorf("session variables are left as the user wrote them: %v", p)
	}
	if !strings.Contains(cfg.FormatDSN(), "charset=utf8mb4") {
		t.Errorf("the charset is not utf8mb4: %s", cfg.FormatDSN())
	}
}

func TestSessionOfAServer(t *testing.T) {
	on(t, servers(), func(t *testing.T, cfg Config) {
		asRoot(t, cfg, "SET GLOBAL max_join_size = 1")
		t.Cleanup(func() { asRoot(t, cfg, "SET GLOBAL max_join_size = DEFAULT") })
		cfg.DSN += "?time_zone=%27%2B05%3A00%27&sql_mode=%27%27&charset=latin1" +
			"&Completion_Type=1&sql_safe_updates=1&SQL_SELECT_LIMIT=2&max_join_size=1&Default_Storage_Engine=MyISAM"
		db := openMigrated(t, cfg)
		others := column(t, db.pool,
			"SELECT table_name FROM information_schema.tables "+
				"WHERE table_schema = DATABASE() AND engine <> 'InnoDB'")
		if len(others) != 0 {
			t.Errorf("tables of another engine than InnoDB: %v", others)
		}
		var version string
		row := db.pool.QueryRowContext(t.Context(), "SELECT VERSION()")
		if err := row.Scan(&version); err != nil {
			t.Fatal(err)
		}
		isolation := "@@session.transaction_isolation"
		if strings.Contains(version, "MariaDB") {
			isolation = "@@session.tx_isolation"
		}
		for variable, want := range map[string]string{
			isolation: "READ-COMMITTED", "@@session.time_zone": "+00:00", "@@session.wait_timeout": "30",
			"@@session.completion_type": "NO_CHAIN", "@@session.sql_safe_updates": "0",
			"@@session.sql_big_selects":      "1",
			"@@session.sql_select_limit":     "18446744073709551615",
			"@@session.character_set_client": "utf8mb4", "@@session.collation_connection": "utf8mb4_bin",
		} {
			var got string
			if err := db.pool.QueryRowContext(t.Context(), "SELECT "+variable).Scan(&got); err != nil || got != want {
				t.Errorf("%s is %q (%v), want %q", variable, got, err, want)
			}
		}
	})
}

// TestOpenOverABrokenConnection: a connection that is cut while it is opened is replaced.
func TestOpenOverABrokenConnection(t *testing.T) {
	on(t, servers(), func(t *testing.T, cfg Config) {
		openMigrated(t, cfg)
		dsn, err := mysqldriver.ParseDSN(cfg.DSN)
		if err != nil {
			t.Fatal(err)
		}
		proxy := testserver.NewCutProxy(t, dsn.Addr)
		dsn.Addr = proxy.Addr()
		for _, octets := range []int64{0, 10, 200} { // before the greeting, in it, behind the login
			proxy.CutAfter(octets, testserver.RST)
			db, err := Open(t.Context(), Config{Driver: MySQL, DSN: dsn.FormatDSN()})
			if err != nil {
				t.Fatalf("cut after %d octets: %v, want the database open", octets, err)
			}
			_ = db.Close()
		}
	})
}

// TestOpenOfASilentServer: what accepts a connection and says nothing, or what is no greeting, ends
// the opening after half a minute.
func TestOpenOfASilentServer(t *testing.T) {
	for name, says := range map[string]string{"nothing": "", "SMTP": "220 mail.firm.example ESMTP\r\n"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg, err := parseDSN(Config{DSN: "u:s3cret@tcp(127.0.0.1:25)/mail"})
				if err != nil {
					t.Fatal(err)
				}
				cfg.DialFunc = func(context.Context, string, string) (net.Conn, error) {
					client, server := net.Pipe()
					go func() { _, _ = server.Write([]byte(says)) }()
					return client, nil
				}
				pool, err := mysqlPool(cfg)
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				err = (&DB{dialect: MySQL, where: serverName(cfg)}).unreachable(greet(t.Context(), pool))
				wantText(t, err, "127.0.0.1:25/mail", "did not answer within 30s", "host and port in database.dsn")
				if took := time.Since(start); took > 31*time.Second {
					t.Errorf("took %s, want half a minute at most", took)
				}
				_ = pool.Close()
			})
		})
	}
}

func TestSupportedServers(t *testing.T) {
	for version, want := range map[string]bool{
		"9.7.4-2": true, "8.0.36": true, "8.4.3-log": true, "5.7.44": false, "5.6.51-log": false,
		"10.11.19-MariaDB-0+deb12u1": true, "10.6.0-MariaDB": true, "10.5.29-MariaDB-0+deb11u1": false,
		"5.5.5-10.4.34-MariaDB": false, "5.5.5-11.4.2-MariaDB": true, "something else": true,
	} {
		if got := supported(version); got != want {
			t.Errorf("%s: supported is %v, want %v", version, got, want)
		}
	}
}
