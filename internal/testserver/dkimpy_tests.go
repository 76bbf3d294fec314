package testserver

import (
	_ "embed"
	"os/exec"
	"testing"
)

//go:embed dkimpy_tests.py
var dkimpyTestsScript string

// DKIMPyTests are what dkimpy's own tests verify and bring into canonical form. All of them pass.
type DKIMPyTests struct {
	Data      string           `json:"data"` // the folder with their messages and keys
	Verified  []DKIMPyVerified `json:"verified"`
	Canonical []DKIMPyForm     `json:"canonical"`
}

// DKIMPyVerified is a message that a test verifies. Some messages have line ends of one LF.
type DKIMPyVerified struct {
	Test    string            `json:"test"` // test_dkim.test_verifies
	ARC     bool              `json:"arc"`  // its chain is verified, and not its DKIM signatures
	Message []byte            `json:"message"`
	Records map[string]string `json:"records"` // the TXT records of the DNS, by name
	Says    []string          `json:"says"`    // of each signature, from the top, or of the chain: pass, fail
}

// DKIMPyForm is a canonical form that a test expects.
type DKIMPyForm struct {
	Of   string `json:"of"` // TestRelaxedAlgorithmBody
	In   []byte `json:"in"` // fields or a body
	Want []byte `json:"want"`
}

// RunDKIMPyTests runs dkimpy's own tests, which its package brings along.
func RunDKIMPyTests(t testing.TB) DKIMPyTests {
	t.Helper()
	if exec.Command(dkimPython(t), "-c", "import dkim.tests.test_arc").Run() != nil {
		missing(t, "dkimpy's own tests are not installed; get them with: apt-get install python3-dkim")
	}
	var out DKIMPyTests
	runDKIMPy(t, dkimpyTestsScript, struct{}{}, &out)
	return out
}
