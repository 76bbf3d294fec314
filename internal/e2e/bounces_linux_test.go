package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestBouncesRepeat: a recipient that bounces repeatedly is named in one notice, and gets
// nothing more until an operator resumes it. What bounced before that does not count.
func TestBouncesRepeat(t *testing.T) {
	onEach(t, all, func(t *testing.T, w *world) {
		w.hook(hookScript)
		w.bouncing(withTokens+", suspend_after: 2, suspend: true",
			"hook: ./hook\nnotify: {at_most: 0s, on: [recipient_bounces]}\n")
		bounce := func() {
			w.comeBack(bounced(w.sentTo("gone@other.example")[0].From, "", "gone@other.example"))
			w.pass(0)
		}
		for _, subject := range []string{"one", "two"} {
			w.put("desk@firm.example", subject)
			w.pass(0)
			bounce()
		}
		w.pass(0)
		told := w.digests()
		if len(told) != 1 || told[0].Counts["recipient_bounces"] != 1 || len(told[0].Recipients) != 1 ||
			told[0].Recipients[0].Recipient != "gone@other.example" || !told[0].Recipients[0].Suspended {
			t.Fatalf("the notices are %+v, want one, of the recipient that is suspended", told)
		}
		w.must(0, "recipient", "list").has(t, "gone@other.example").lacks(t, "kept@")

		w.put("desk@firm.example", "three")
		w.must(0, "run", "--dry-run").has(t, "forwarded to kept@other.example by route all; "+
			"nothing would be sent to gone@other.example: suspended since")
		w.pass(75)
		dead, n := w.tasks("--status", "dead"), len(w.sentTo("gone@other.example"))
		const resume = "postrider recipient resume gone@other.example"
		if len(dead) != 1 || !strings.Contains(dead[0].Reason, resume) || n != 2 {
			t.Fatalf("dead are %+v, want the third message, with the command that lifts it; it went out %d times",
				dead, n)
		}
		if n := len(w.sentTo("kept@other.example")); n != 3 {
			t.Errorf("the other recipient has %d messages, want all three", n)
		}

		w.must(0, "recipient", "resume", "gone@Other.example")
		w.must(1, "recipient", "resume", "gone@other.example")
		w.must(0, "task", "retry", fmt.Sprint(dead[0].ID))
		w.pass(0)
		if n := len(w.sentTo("gone@other.example")); n != 3 {
			t.Fatalf("after it was resumed, the recipient has %d messages, want the third, too", n)
		}
		bounce()
		w.put("desk@firm.example", "four")
		w.pass(0)
		if n := len(w.sentTo("gone@other.example")); n != 4 {
			t.Errorf("after one more bounce the recipient has %d messages, "+
				"want the fourth: the bounces before it was resumed do not count", n)
		}
		bounce()
		w.put("desk@firm.example", "five")
		w.pass(75)
		if n := len(w.sentTo("gone@other.example")); n != 4 || len(w.digests()) != 2 {
			t.Errorf("after two more bounces the recipient has %d messages, and there were %d notices; "+
				"want it suspended again, and a second notice", n, len(w.digests()))
		}
	})
}
