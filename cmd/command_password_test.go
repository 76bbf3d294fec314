package cmd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"postrider/internal/testserver/memimap"
)

// TestCommandIsAskedAgain: once the server has refused what a program printed, the next login in
// the same process asks the program again.
func TestCommandIsAskedAgain(t *testing.T) {
	imap, err := memimap.Start(memimap.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(imap.Close)
	if err := imap.AddUser(deskUser, deskPassword); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("postrider.yaml", "smtp: {host: 127.0.0.1}\nforward: {from: forwarder@firm.example}\n"+
		"routes: [{name: all, match: {}, to: [intake@firm.example]}]\n")
	write("password", "old")
	var out bytes.Buffer
	a := &app{out: &out, err: &out, env: noEnv}
	run := func(want int, args ...string) {
		t.Helper()
		code := a.run(t.Context(), append([]string{"-c", filepath.Join(dir, "postrider.yaml")}, args...))
		if code != want {
			t.Fatalf("%s ends with %d, want %d\n%s", args, code, want, out.String())
		}
	}
	run(exitOK, "inbox", "add", deskUser, "--host", "127.0.0.1", "--port", fmt.Sprint(imap.Port()),
		"--security", "none", "--no-check", "--password-from", "command:/bin/cat "+filepath.Join(dir, "password"))
	run(exitFailed, "inbox", "check", deskUser)
	if !strings.Contains(out.String(), "change it in command:/bin/cat") {
		t.Errorf("the error is\n%s\nwant where the password has to be changed", out.String())
	}
	write("password", deskPassword)
	run(exitOK, "inbox", "check", deskUser)
}
