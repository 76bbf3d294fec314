package e2e

import (
	"strings"
	"testing"

	"postrider/internal/testserver"
)

// TestBounceRoundTrip: a message goes through a real relay, and what that reports comes back into
// the bounce inbox, until `task show` says what became of each recipient.
func TestBounceRoundTrip(t *testing.T) {
	for name, relay := range map[string]func(testing.TB, int) *testserver.Bouncer{
		"postfix":   testserver.BouncingPostfix,
		"exim":      testserver.BouncingExim,
		"opensmtpd": testserver.BouncingOpenSMTPD,
	} {
		for _, section := range []string{withTokens, "inbox: bounces@firm.example"} {
			kind := "without tokens"
			if section == withTokens {
				kind = "with tokens"
			}
			t.Run(name+", "+kind, func(t *testing.T) {
				w := newWorld(t, "sqlite")
				refuse := func(recipient string) (int, string) {
					switch {
					case strings.HasPrefix(recipient, "unknown@"):
						return 550, "5.1.1 no such user"
					case strings.HasPrefix(recipient, "full@"):
						return 552, "5.2.2 mailbox full"
					case strings.HasPrefix(recipient, "slow@"):
						return 450, "4.2.1 come back later"
					}
					return 0, ""
				}
				opts := testserver.NextHopOptions{Inbox: w.imap, User: bounceInbox, Refuse: refuse}
				b := relay(t, testserver.NextHop(t, opts).Port())
				w.smtpPort = b.Port
				w.bouncing(section+", confirm: true", "")
				w.routes = "  - {name: all, match: {}, to: [unknown@other.example, full@other.example, " +
					"slow@other.example, passed@other.example, kept@local.example]}\n"
				w.configure()
				w.put("desk@firm.example", "one")
				w.pass(0)
				want := []string{
					"bounced: 550 5.1.1 no such user", "bounced: 552 5.2.2 mailbox full", "delayed: 450 4.2.1",
					"passed@other.example relayed", "kept@local.example confirmed", "after it was accepted",
				}
				if name == "exim" {
					want[4] = "kept@local.example relayed"
				}
				shown := ""
				t.Cleanup(func() { t.Logf("task show says\n%s\nwant %q in it", shown, want) })
				w.eventually(func() bool {
					b.Retry(t)
					w.start(nil, "run").wait()
					shown = w.must(0, "task", "show", "1").stdout
					for _, part := range want {
						if !strings.Contains(shown, part) {
							return false
						}
					}
					return true
				})
			})
		}
	}
}
