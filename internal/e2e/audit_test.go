package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"postrider/internal/testserver"
)

// auditReport is what `audit --json` prints, as a script reads it.
type auditReport struct {
	Inboxes []struct {
		Email   string `json:"email"`
		Error   string `json:"error"`
		Folders []struct {
			Name        string         `json:"name"`
			UIDValidity uint32         `json:"uid_validity"`
			Error       string         `json:"error"`
			Messages    int            `json:"messages"`
			Counts      map[string]int `json:"counts"`
			Registered  int            `json:"registered"`
			Missing     []struct {
				UID      uint32    `json:"uid"`
				Received time.Time `json:"received"`
				Size     int64     `json:"size"`
			} `json:"missing"`
		} `json:"folders"`
	} `json:"inboxes"`
}

// audit runs `audit --json` and expects an exit code.
func (w *world) audit(code int, args ...string) auditReport {
	w.t.Helper()
	res := w.must(code, append([]string{"audit", "--json"}, args...)...)
	var r auditReport
	if err := json.Unmarshal([]byte(res.stdout), &r); err != nil {
		w.t.Fatalf("audit --json printed %q: %v", res.stdout, err)
	}
	return r
}

// TestAuditFindsALateMessage: the server shows a message late, when the cursor is so far above it
// that no run looks at its UID again.
func TestAuditFindsALateMessage(t *testing.T) {
	onEach(t, []string{"sqlite", "mariadb"}, func(t *testing.T, w *world) {
		const address = "desk@firm.example"
		h := hideUID(t, w.imap.Port, 150)
		w.imapPort = h.port
		w.addInbox(address, "--start", "all")
		backlog := mails(1150, "backlog")
		w.imap.Append(t, address, "INBOX", backlog...)
		w.pass(0)
		h.show.Store(true)
		if r, _ := w.pass(0); r.Totals.Registered != 0 {
			t.Fatalf("the run reports %+v, want it not to look back so far", r.Totals)
		}
		f := w.audit(75).Inboxes[0].Folders[0]
		if f.Messages != 1150 || f.Counts["forwarded"] != 1149 ||
			len(f.Missing) != 1 || f.Missing[0].UID != 150 || f.Missing[0].Size == 0 ||
			time.Since(f.Missing[0].Received) > time.Hour {
			t.Fatalf("the audit found %+v, "+
				"want 1149 of 1150 forwarded and UID 150 missing, with its size and when it arrived", f)
		}
		if f = w.audit(0, "--repair").Inboxes[0].Folders[0]; f.Registered != 1 || len(f.Missing) != 0 {
			t.Errorf("the repair found %+v, want one registered and none missing", f)
		}
		if r, _ := w.pass(0); r.Totals.Registered != 0 || r.Totals.Forwarded != 1 {
			t.Errorf("the run after it reports %+v, want one forwarded", r.Totals)
		}
		w.wantOnce(backlog)
		res := w.must(0, "audit", "--list")
		if n := strings.Count(res.stdout, ": forwarded to intake@firm.example (task "); n != 1150 {
			t.Errorf("the list has %d messages that are forwarded, want 1150", n)
		}
	})
}

// hidden is a proxy that removes a message from what the server lists, until show is set.
type hidden struct {
	port int
	show atomic.Bool
}

func hideUID(t *testing.T, backend int, uid uint32) *hidden {
	t.Helper()
	h := &hidden{}
	h.port = testserver.Listen(t, func(client net.Conn) {
		server, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", backend))
		if err != nil {
			return
		}
		go func() { _, _ = io.Copy(server, client); _ = server.Close() }()
		h.copy(client, server, uid)
	})
	return h
}

func (h *hidden) copy(client, server net.Conn, uid uint32) {
	listed := regexp.MustCompile(fmt.Sprintf(`^\* \d+ FETCH \(UID %d[ )]`, uid))
	for r := bufio.NewReader(server); ; {
		line, err := r.ReadBytes('\n')
		if listed.Match(line) && !h.show.Load() {
			continue
		}
		if _, werr := client.Write(line); err != nil || werr != nil {
			return
		}
	}
}
