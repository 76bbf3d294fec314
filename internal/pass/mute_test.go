package pass

import (
	"context"
	"testing"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/testserver/smtpsink"
)

// mute is a server that does not answer when it is asked for bodies.
type mute struct {
	Source
	asked, answer chan struct{}
}

func (m mute) Bodies(ctx context.Context, uids []uint32, each eachMessage) (imapsrc.Result, error) {
	select {
	case m.asked <- struct{}{}:
	default:
	}
	<-m.answer
	return m.Source.Bodies(ctx, uids, each)
}

// TestMuteServer: while a server does not answer a fetch of messages that an earlier pass
// registered, the mail of another inbox goes out.
func TestMuteServer(t *testing.T) {
	relayed := make(chan struct{}, 10)
	r := newRig(t, func(e smtpsink.Event) smtpsink.Action {
		if e.Stage == "dot" {
			relayed <- struct{}{}
		}
		return smtpsink.Action{}
	})
	r.add(inbox.StartAll)
	old := r.waiting("INBOX", 4) // no cache has their bodies
	const second = "sales@firm.example"
	r.addOther(second)
	fresh := mails(1)
	_, err := r.imap.Append(second, "INBOX", fresh...)
	check(t, err)
	m := mute{asked: make(chan struct{}, 1), answer: make(chan struct{})}
	dial := r.Dial
	r.Dial = func(ctx context.Context, in inbox.Inbox) (Source, error) {
		src, err := dial(ctx, in)
		if in.Address == second { // after the other one has asked for its bodies
			<-m.asked
			return src, err
		}
		return mute{src, m.asked, m.answer}, err
	}
	done := r.start()
	select {
	case <-relayed:
	case <-time.After(10 * time.Second):
		t.Error("the mail of the other inbox waits for the server")
	}
	close(m.answer)
	r.ended(done)
	r.wantArrived(old, fresh)
}
