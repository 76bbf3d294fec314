//go:build unix

package e2e

import (
	"strings"
	"testing"

	"postrider/internal/testserver/smtpsink"
)

const noNull = "the relay refuses the null reverse-path, which bounces and failure notices need; " +
	"ask its operator, or set hook to be notified"

// TestNoticesNullRefused: a relay that refuses the null reverse-path gets no notice. That is logged
// three times, with the fix, and then less often. Everything else goes on.
func TestNoticesNullRefused(t *testing.T) {
	refuses := func(e smtpsink.Event) smtpsink.Action {
		if e.Stage == "mail" && e.Arg == "" {
			return smtpsink.Action{Code: 550, Text: "5.7.1 no null sender from who logs in"}
		}
		return smtpsink.Action{}
	}
	for name, make := range map[string]func() (w *world, reply string){
		"at MAIL": func() (*world, string) {
			w := newWorld(t, "sqlite").noticing(refuses)
			w.addInbox(desk, "--start", "all")
			w.imap.Append(t, desk, "INBOX", mails(1, "letter")...)
			return w, "550 5.7.1 no null sender from who logs in"
		},
		"at RCPT, as Postfix does": func() (*world, string) {
			w := newRelayWorld(t, relayCase{
				to: "got@firm.example, nobody@firm.example", mails: mails(1, "letter"), settings: []string{
					"smtpd_sender_restrictions = check_sender_access inline:{ {<> = REJECT} }",
					"relay_recipient_maps = inline:{ {got@firm.example=x}, {ops@firm.example=x} }",
				},
			})
			return w.world, "554 5.7.1 <>: Sender address rejected: Access denied"
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, reply := make()
			w.extra += "notify: {to: ops@firm.example}\n"
			w.extra = strings.Replace(w.extra, notices, "", 1)
			w.configure()
			for i := range 5 {
				code := 0
				if i == 0 {
					code = 75 // because of the dead message
				}
				said := w.must(code, "run").stderr
				for _, want := range []string{"mail a failure notice to ops@firm.example: ", reply, noNull} {
					if strings.Contains(said, want) != (i < 3) {
						t.Errorf("pass %d says %q, want %q in it: %v", i+1, said, want, i < 3)
					}
				}
			}
			status := w.must(0, "status").stdout
			for _, want := range []string{
				"notices: 1 waiting for ops@firm.example; the last attempt failed: ", reply, noNull,
			} {
				if !strings.Contains(status, want) {
					t.Errorf("status prints\n%s\nwant %q in it", status, want)
				}
			}
			w.eventually(func() bool { return len(w.arrivedFor("got@firm.example")) == 1 })
		})
	}
}
