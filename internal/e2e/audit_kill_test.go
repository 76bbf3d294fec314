//go:build unix

package e2e

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"postrider/internal/testserver"
)

// TestAuditAfterKills audits after each kill, while a run is active, and under another UIDVALIDITY.
// Each message is waiting, forwarded or new, and never missing.
func TestAuditAfterKills(t *testing.T) {
	onEach(t, []string{"sqlite", "mariadb"}, func(t *testing.T, w *world) {
		// A slow machine may lose the lease of one task again and again.
		w.extra = "retry: {base: 1s, max: 1s, max_lost_leases: 1000}\nconcurrency: {lease: 1s, page: 20}\n"
		w.proxy = testserver.NewCutProxy(t, fmt.Sprintf("127.0.0.1:%d", w.imap.Port))
		w.imapPort = w.proxy.Port
		w.configure()
		const address = "desk@firm.example"
		w.addInbox(address, "--start", "all", "--folder", "INBOX", "--folder", "Cases")
		backlog := mails(200, "backlog")
		w.imap.Append(t, address, "INBOX", backlog[:100]...)
		w.imap.Append(t, address, "Cases", backlog[100:]...)
		allThere := func(r auditReport) (forwarded int) {
			for _, f := range r.Inboxes[0].Folders {
				forwarded += f.Counts["forwarded"]
				sum := f.Counts["forwarded"] + f.Counts["waiting"] + f.Counts["new"]
				if f.Messages != 100 || sum != 100 {
					t.Fatalf("folder %s: %d messages, %v; want 100, all of them forwarded, waiting or new",
						f.Name, f.Messages, f.Counts)
				}
			}
			return forwarded
		}
		kills := 0
		for done := false; !done; {
			var fetches atomic.Int64
			next := func(p testserver.Piece) int { // another FETCH later than at the kill before
				if n := asks(" FETCH ")(p); n >= 0 && fetches.Add(1) > int64(2*kills) {
					return n
				}
				return -1
			}
			if w.killWhere(w.proxy, next, func() { allThere(w.audit(0)) }) {
				kills++
			}
			done = allThere(w.audit(0)) == len(backlog)
		}
		if kills == 0 {
			t.Error("no run was killed")
		}
		w.imap.DeleteFolder(t, address, "Cases")
		w.imap.CreateFolder(t, address, "Cases")
		w.imap.Append(t, address, "Cases", backlog[100:]...)
		f := w.audit(75).Inboxes[0].Folders[0]
		if !strings.Contains(f.Error, "UIDVALIDITY has changed") {
			t.Errorf("after UIDVALIDITY has changed the audit found %+v, want an error that says so", f)
		}
		w.eventually(func() bool { // a run that was killed may hold the scan lease
			return !strings.Contains(w.must(0, "run", "--json").stdout, `"busy"`)
		})
		if n := allThere(w.audit(0)); n != len(backlog) {
			t.Errorf("%d messages are forwarded, want %d", n, len(backlog))
		}
		t.Logf("%d kills", kills)
	})
}
