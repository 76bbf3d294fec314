package testserver

import (
	"os"
	"path/filepath"
	"testing"
)

// MariaDB returns this test process's MariaDB. It knows no TLS.
func MariaDB(t testing.TB) *SQL {
	t.Helper()
	return mariaDB(t, "mariadb", func(string) ([]string, error) { return nil, nil })
}

// SecureMariaDB returns another one, which offers TLS, and the file with its certificate, for
// localhost and 127.0.0.1.
func SecureMariaDB(t testing.TB) (s *SQL, certFile string) {
	t.Helper()
	s = mariaDB(t, "mariadb-tls", certificateOptions)
	return s, filepath.Join(filepath.Dir(s.logFile), certName)
}

// certName is the file of a server's certificate.
const certName = "cert.pem"

func certificateOptions(dir string) ([]string, error) {
	cert, key, err := certificatePEM()
	if err != nil {
		return nil, err
	}
	certFile, keyFile := filepath.Join(dir, certName), filepath.Join(dir, "key.pem")
	if err := os.WriteFile(certFile, cert, 0o600); err != nil {
		return nil, err
	}
	return []string{"--ssl-cert=" + certFile, "--ssl-key=" + keyFile}, os.WriteFile(keyFile, key, 0o600)
}

func mariaDB(t testing.TB, name string, options func(dir string) ([]string, error)) *SQL {
	t.Helper()
	server, installer := findBinary("mariadbd"), findBinary("mariadb-install-db")
	// The installer needs my_print_defaults.
	if server == "" || installer == "" || findBinary("my_print_defaults") == "" {
		missing(t, "MariaDB is not installed: apt-get install mariadb-server-core mariadb-client-core, "+
			"or run scripts/test")
	}
	return shared(t, name, func(dir string) (*SQL, error) {
		more, err := options(dir)
		if err != nil {
			return nil, err
		}
		return newSQL(dir,
			[]string{
				installer, "--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db",
				"--innodb-log-file-size=8M",
			},
			append([]string{server, "--no-defaults", "--innodb-log-file-size=8M"}, more...))
	})
}
