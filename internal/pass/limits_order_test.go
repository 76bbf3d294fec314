package pass

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/limits"
	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

// TestLimitKeepsOrder: what came first goes first, also with more senders than recipients left.
func TestLimitKeepsOrder(t *testing.T) {
	for _, perMinute := range []int{1, 3} {
		t.Run(fmt.Sprint(perMinute, " a minute"), func(t *testing.T) {
			r, n := narrowRig(t, limits.Limits{PerMinute: perMinute}, smtpsink.Action{})
			r.Config.Senders = 8
			msgs := mails(12)
			r.put("INBOX", msgs...)
			for sent := perMinute; sent <= len(msgs); sent += perMinute {
				r.run()
				r.wantArrived(msgs[:sent])
				r.clock.advance(61 * time.Second)
			}
			n.want(t, perMinute, len(msgs))
		})
	}
}

// TestLimitAndReading: new mail is registered while the relay hangs on the last message that the
// limit allows.
func TestLimitAndReading(t *testing.T) {
	answer := make(chan struct{})
	hurry := sync.OnceFunc(func() { close(answer) })
	defer hurry()
	r := newRig(t, func(e smtpsink.Event) smtpsink.Action {
		if e.Stage == "dot" {
			return smtpsink.Action{Block: answer}
		}
		return smtpsink.Action{}
	})
	r.limit(limits.Limits{PerMinute: 1})
	r.add(inbox.StartAll)
	msgs := mails(3 * r.Config.Page)
	r.put("INBOX", msgs...)
	done := r.start()
	r.until("all are registered while the relay hangs", func() bool { return len(r.tasks()) == len(msgs) })
	hurry()
	r.want(r.ended(done), Counters{Registered: len(msgs), Forwarded: 1, Waiting: len(msgs) - 1})
}

// TestLimitGivenBack: a reserved recipient that was not named to the relay is free for others.
func TestLimitGivenBack(t *testing.T) {
	r, _ := narrowRig(t, limits.Limits{}, smtpsink.Action{})
	sink, err := smtpsink.Start(smtpsink.Options{KeepData: true}) // without 8BITMIME
	check(t, err)
	t.Cleanup(sink.Close)
	r.sink = sink
	r.limit(limits.Limits{PerMinute: 1})
	eight := testserver.Mail("alice@example.com", "desk@firm.example", "8 bits", "Zażółć")
	last := mails(1)
	r.put("INBOX", append([][]byte{eight, eight[:len(eight)-4]}, last...)...)
	r.want(r.run(), Counters{Registered: 3, Dead: 2, Forwarded: 1})
	r.wantArrived(last)
}
