package testserver

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"os/exec"
	"testing"
)

//go:embed dkimpy.py
var dkimpyScript string

// VerifyDKIM verifies the signatures of messages with dkimpy, which shares no code with ours.
// Records are the TXT records of the DNS, by name. It returns for each message one item a
// signature, in order: empty when it verifies, else why not.
func VerifyDKIM(t testing.TB, records map[string]string, messages ...string) [][]string {
	t.Helper()
	job := struct {
		Records  map[string]string `json:"records"`
		Messages [][]byte          `json:"messages"` // in base64, as JSON has octets
	}{Records: records}
	for _, m := range messages {
		job.Messages = append(job.Messages, []byte(m))
	}
	var out [][]string
	runDKIMPy(t, dkimpyScript, job, &out)
	if len(out) != len(messages) {
		t.Fatalf("dkimpy has verified %d of %d messages", len(out), len(messages))
	}
	return out
}

// runDKIMPy runs a script that reads a job and writes its results, both in JSON.
func runDKIMPy(t testing.TB, script string, job, out any) {
	t.Helper()
	in, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(dkimPython(t), "-c", script)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("run dkimpy: %v\n%s", err, stderr.Bytes())
	}
	if err := json.Unmarshal(stdout.Bytes(), out); err != nil {
		t.Fatalf("read what dkimpy says: %v\n%s", err, stdout.Bytes())
	}
}

// dkimPython is a Python that has dkimpy, and what it needs for Ed25519 and
// for ARC. The system's packages are
// for the system's Python, which need not be the first one on the path.
func dkimPython(t testing.TB) string {
	t.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import dkim, nacl.signing, authres").Run() == nil {
			return python
		}
	}
	missing(t, "dkimpy is not installed; get it with: apt-get install python3-dkim python3-nacl python3-authres")
	return ""
}
