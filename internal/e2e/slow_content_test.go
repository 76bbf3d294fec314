package e2e

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"postrider/internal/testserver"
)

// TestContentThatTakesLong is a message of 4 MiB with five parts, whose Content-Type has 45,000
// continuations each (RFC 2231 3), and routes that look into it. It takes neither the pass's time
// nor its place: the message behind it goes out, within a timeout.
func TestContentThatTakesLong(t *testing.T) {
	w := newWorld(t, "sqlite")
	w.routes = "  - {name: pictures, match: {attachment: '*.png'}, to: [pictures@firm.example]}\n" +
		"  - {name: words, match: {body: xyzzy}, to: [words@firm.example]}\n" + w.routes
	w.configure()
	w.addInbox("desk@firm.example", "--start", "all")
	var long bytes.Buffer
	long.WriteString("From: a@client.example\r\nMessage-ID: <long@client.example>\r\nSubject: long\r\n" +
		"MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n")
	for range 5 {
		long.WriteString("--b\r\nContent-Type: application/x-long")
		for i := range 45_000 {
			fmt.Fprintf(&long, ";\r\n name*%d=a", i)
		}
		long.WriteString("\r\n\r\nbody\r\n")
	}
	long.WriteString("--b--\r\n")
	behind := testserver.Mail("alice@client.example", "desk@firm.example", "behind it", "hello")
	w.imap.Append(t, "desk@firm.example", "INBOX", long.Bytes())
	w.imap.Append(t, "desk@firm.example", "INBOX", behind)
	for range 5 { // on a busy machine one pass may not get that far
		res := w.start(nil, "run", "--timeout", "5s").wait()
		if res.code != 0 && res.code != 75 {
			t.Fatalf("exit %d\n%s", res.code, res.stderr)
		}
		if len(w.arrived()) > 0 {
			break
		}
	}
	if w.arrived()[idOf(t, behind)] != 1 {
		t.Error("the message behind the long one did not go out in five passes with a timeout")
	}
	w.pass(0)
	if n := w.arrived()["<long@client.example>"]; n != 1 {
		t.Errorf("the long message arrived %d times, want once", n)
	}
	if tasks := w.tasks(); strings.Contains(tasks[0].Reason+tasks[1].Reason, "interrupted") {
		t.Errorf("the tasks are %+v, want both forwarded", tasks)
	}
}
