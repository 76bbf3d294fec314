package pass

import (
	"testing"

	"postrider/internal/inbox"
)

func TestForwardsEachOnce(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll, "INBOX", "Junk")
	check(t, r.imap.CreateFolder(address, "Junk"))
	first, junk := mails(30), mails(3)
	r.put("INBOX", first...)
	r.put("Junk", junk...)
	r.want(r.run(), Counters{Registered: 33, Forwarded: 33})
	r.wantArrived(first, junk)
	r.want(r.run(), Counters{})
	more := mails(5)
	r.put("INBOX", more...)
	r.want(r.run(), Counters{Registered: 5, Forwarded: 5})
	r.wantArrived(first, junk, more)
}
