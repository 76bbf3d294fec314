package e2e

import (
	"maps"
	"strings"
	"testing"
)

// TestRing: three inboxes forward to each other. A message whose forged signature names the trace
// field does not multiply: each inbox forwards it once, and the loop ends when it comes again.
func TestRing(t *testing.T) {
	const letter = "From: ann@client.example\r\nTo: a@firm.example\r\nSubject: ring\r\n" +
		"Message-ID: <ring@client.example>\r\n\r\nhello\r\n"
	for name, raw := range map[string]string{
		"forged": "ARC-Message-Signature: i=1; a=rsa-sha256; d=client.example; s=s; " +
			"h=x-postrider-trace; bh=; b=\r\n" + letter,
		"no header field first": " folded\r\n" + letter,
	} {
		t.Run(name, func(t *testing.T) {
			p := newPostOffice(t)
			p.boxes = []string{"a@firm.example", "b@firm.example", "c@firm.example"}
			p.routes = "  - {name: all, match: {}, to: [" + strings.Join(p.boxes, ", ") + "]}\n"
			p.configure()
			for _, box := range p.boxes {
				p.addInbox(box, "--start", "all")
			}
			p.imap.Append(t, "a@firm.example", "INBOX", []byte(raw))
			p.untilQuiet()
			// a forwards to b and c; each of them to a, where it ends, and to the other; that one
			// to a and back, where it ends, too.
			want := map[string]int{"a@firm.example": 4, "b@firm.example": 3, "c@firm.example": 3}
			got := map[string]int{}
			for _, m := range p.sink.Messages() {
				for _, to := range m.To {
					got[to]++
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("the relay got the message this often: %v, want %v", got, want)
			}
		})
	}
}
