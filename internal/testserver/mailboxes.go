package testserver

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var (
	//go:embed mailboxes.lua
	mailboxesLua string
	//go:embed mailboxes.py
	mailboxesPython string
)

// Mailbox is one of an address field, as a program has read it.
type Mailbox struct{ Name, Addr string }

// PythonMailboxes reads address fields with Python's email package: for each value its mailboxes.
// What is found in a value against the rules is an error of the test. The test is skipped without
// Python.
func PythonMailboxes(t testing.TB, values []string) [][]Mailbox {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		missing(t, "python3 is not installed")
	}
	return mailboxes(t, values, exec.Command(python, "-c", mailboxesPython))
}

// RspamdMailboxes reads address fields with rspamd, as PythonMailboxes does. The test is skipped
// without rspamd, whatever is required.
func RspamdMailboxes(t testing.TB, values []string) [][]Mailbox {
	t.Helper()
	binary := findBinary("rspamadm")
	if binary == "" {
		t.Skip("rspamd is not installed: as root, run scripts/test, or apt-get install rspamd")
	}
	script := filepath.Join(t.TempDir(), "mailboxes.lua")
	if err := os.WriteFile(script, []byte(mailboxesLua), 0o600); err != nil {
		t.Fatal(err)
	}
	return mailboxes(t, values, commandWithOwnClock(binary, "lua", "-b", "-s", script))
}

// mailboxes gives a reader the paths of messages with these To fields.
func mailboxes(t testing.TB, values []string, reader *exec.Cmd) [][]Mailbox {
	t.Helper()
	dir := t.TempDir()
	var paths strings.Builder
	for i, v := range values {
		path := filepath.Join(dir, fmt.Sprint(i))
		text := "From: a@b.example\r\nTo: " + v + "\r\nSubject: x\r\n\r\nx\r\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		paths.WriteString(path + "\n")
	}
	var stdout, stderr bytes.Buffer
	reader.Stdin, reader.Stdout, reader.Stderr = strings.NewReader(paths.String()), &stdout, &stderr
	if err := reader.Run(); err != nil {
		t.Fatalf("read address fields with %s: %v\n%s", reader.Path, err, stderr.Bytes())
	}
	var read []struct {
		To      []Mailbox
		Defects []string
	}
	if err := json.Unmarshal(stdout.Bytes(), &read); err != nil || len(read) != len(values) {
		t.Fatalf("%s has read %d of %d address fields: %v\n%s%s",
			reader.Path, len(read), len(values), err, stdout.Bytes(), stderr.Bytes())
	}
	out := make([][]Mailbox, len(values))
	for i, one := range read {
		if len(one.Defects) > 0 {
			t.Errorf("%s finds in %q: %s", reader.Path, values[i], one.Defects)
		}
		out[i] = one.To
	}
	return out
}
