package cmd

import (
	"strings"
	"testing"
)

// TestShowMessageOnATerminal: what a stranger wrote does not reach the terminal as a command;
// elsewhere a message is shown octet for octet.
func TestShowMessageOnATerminal(t *testing.T) {
	const raw = "Subject: \x1b]0;owned\a\r\n\r\n\x1b[2Jhello\r\n"
	tty, person := pty(t)
	if err := (&app{out: tty}).showMessage(strings.NewReader(raw)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 1000)
	n, err := person.Read(got)
	if want := "Subject:  ]0;owned \r\n\r\n [2Jhello\r\n"; err != nil || string(got[:n]) != want {
		t.Errorf("the terminal gets %q, %v; want %q", got[:n], err, want)
	}
	for _, sent := range []string{raw, strings.TrimSuffix(raw, "\r\n")} {
		var file strings.Builder
		if err := (&app{out: &file}).showMessage(strings.NewReader(sent)); err != nil || file.String() != raw {
			t.Errorf("of %q a file gets %q, %v; want the message with its last line end", sent, file.String(), err)
		}
	}
}
