package notify

import (
	"strings"
	"testing"
)

// TestRecipients: a recipient whose mail bounces repeatedly is reported once, and again when
// that is found again. One that was resumed is not.
func TestRecipients(t *testing.T) {
	const oneBounces = "postrider: 1 recipient bounces repeatedly"
	onEach(t, func(t *testing.T, b *bench) {
		b.exec(`INSERT INTO suspended_recipients (recipient, since, bounces, why, suspended, resumed_at)
VALUES ('o''brien@other.example', 1700000000000001, 5, '550 5.1.1 no such user', 1, NULL),
('back@other.example', 1700000000000001, 5, '550 no', 0, 1700000000000002)`)
		b.wantSent("one is suspended", oneBounces)
		raw := body(t, b.relay.sent[0].raw)
		for _, want := range []string{
			"Mail to o'brien@other.example has bounced 5 times. Nothing more is sent to it until it is resumed.",
			"550 5.1.1 no such user", `postrider recipient resume 'o'\''brien@other.example'`,
		} {
			if !strings.Contains(strings.Join(strings.Fields(raw), " "), want) {
				t.Errorf("the digest is\n%s\nwant %q in it", raw, want)
			}
		}
		b.later()
		b.wantSent("nothing new")
		b.exec(`UPDATE suspended_recipients SET since = 1700000000000003, suspended = 0, bounces = 1
WHERE recipient = 'o''brien@other.example'`)
		b.wantSent("it is found again, and only noted", oneBounces)
		raw = body(t, b.relay.sent[0].raw)
		if strings.Contains(raw, "Nothing more is sent") || !strings.Contains(raw, "postrider recipient list") ||
			!strings.Contains(raw, "Mail to o'brien@other.example has bounced 1 time.") {
			t.Errorf("the digest is\n%s\nwant that it is only noted", raw)
		}
		b.exec(`DELETE FROM suspended_recipients`)
		b.dies("one")
		b.later()
		b.wantSent("something else", oneDead)
		if n := b.count(`SELECT COUNT(*) FROM monitored_emails_told WHERE kind = 'recipient'`); n != 0 {
			t.Errorf("%d rows are kept of recipients that are gone, want none", n)
		}
	})
}
