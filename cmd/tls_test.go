package cmd

import (
	"strings"
	"testing"

	"postrider/internal/testserver"
)

// TestDatabaseTLSFile gives database.tls as a file: its certificate is trusted, and no other.
func TestDatabaseTLSFile(t *testing.T) {
	server, certFile := testserver.SecureMariaDB(t)
	env := map[string]string{
		"POSTRIDER_DATABASE_DRIVER": "mysql",
		"POSTRIDER_DATABASE_DSN":    server.NewDatabase(t),
		"POSTRIDER_DATABASE_TLS":    certFile,
	}
	if code, stderr := runIn(t.Context(), t, env, "migrate"); code != exitOK {
		t.Errorf("with the server's certificate: exit code %d, %q; want 0", code, stderr)
	}
	env["POSTRIDER_DATABASE_TLS"] = "verify"
	code, stderr := runIn(t.Context(), t, env, "migrate")
	if code != exitFailed || !strings.Contains(stderr, "set database.tls to a file") {
		t.Errorf("without it: exit code %d, %q; want 1, and what to set", code, stderr)
	}
}
