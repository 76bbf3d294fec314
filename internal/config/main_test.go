package config

import (
	"testing"

	"postrider/internal/testserver"
)

// TestMain has files be writable by nobody else, and readable where a test says so, whatever umask
// the tests are run with.
func TestMain(m *testing.M) { testserver.Main(m) }
