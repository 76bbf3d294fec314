package notify

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestManyAtOnce checks that of eight concurrent runs on eight hosts one sends the digest.
func TestManyAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		for _, atMost := range []time.Duration{time.Hour, 0} {
			b.dies("one")
			b.later()
			b.relay.sent = nil
			var runs sync.WaitGroup
			for i := range 8 {
				n := *b.Notifier
				n.Config.Worker, n.Config.AtMost = fmt.Sprintf("host-%d:1:x", i), atMost
				runs.Go(func() { n.Notify(b.ctx, true) })
			}
			runs.Wait()
			if got := b.relay.subjects(); len(got) != 1 {
				t.Errorf("with notify.at_most %s mails with the subjects %q were sent, want one\nlog: %s",
					atMost, got, b.logs)
			}
		}
	})
}

// TestKilledBeforeRecording checks what follows when a run dies after it sent a digest and before
// it recorded that.
func TestKilledBeforeRecording(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		b.dies("one")
		died := false
		func() {
			defer func() { died = recover() != nil }()
			b.relay.before = func() { panic("killed") }
			b.send()
		}()
		first := b.relay.sent
		if !died || len(first) != 1 {
			t.Fatalf("killed: %v, mails sent: %d; want it killed after one mail", died, len(first))
		}
		b.relay.before = nil
		b.Config.Worker = "mail-a:2:y"
		b.wantSent("the lease of the dead run is valid")
		b.later()
		b.wantSent("the lease of the dead run has expired", oneDead)
		if a, z := messageID(first[0].raw), messageID(b.relay.sent[0].raw); a != z {
			t.Errorf("the Message-IDs are %s and %s, want the same for the same digest", a, z)
		}
		b.later()
		b.wantSent("sent and recorded")
	})
}

// TestSlowRelay checks that no other run sends the digest while a relay takes long after MAIL, as
// RFC 5321 4.5.3.2 allows.
func TestSlowRelay(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		b.dies("one")
		other, mails := *b.Notifier, &fakeRelay{}
		other.Config.Worker, other.Begin = "mail-b:1:y", mails.Begin
		b.Config.Lease, other.Config.Lease = time.Second, time.Hour // at most a minute is used
		b.relay.before = func() {
			b.relay.before = nil
			held := func() int { return b.count(`SELECT held_at FROM monitored_emails_channels`) }
			for range 3 {
				b.passes(2 * time.Minute)
				last := held()
				wait(t, "the lease to be renewed", func() bool { return held() > last })
				other.Notify(b.ctx, true)
			}
		}
		b.wantSent("the relay takes its time", oneDead)
		if len(mails.sent) > 0 {
			t.Error("another run sent the digest in the meantime, want it sent once")
		}
		b.later()
		other.Notify(b.ctx, true)
		if len(mails.sent) > 0 {
			t.Error("another run sent the digest afterwards, want it sent once")
		}
	})
}

// TestLeaseLost checks that a run sends nothing after its lease expired and another run took it
// over.
func TestLeaseLost(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		b.dies("one")
		other, mails := *b.Notifier, &fakeRelay{}
		other.Config.Worker, other.Begin = "mail-b:1:y", mails.Begin
		b.relay.mail = func() {
			b.passes(time.Minute)
			other.Notify(b.ctx, true)
		}
		b.wantSent("the lease is lost")
		if got := mails.subjects(); len(got) != 1 || got[0] != oneDead {
			t.Errorf("the other run sent %q, want %q", got, oneDead)
		}
		if log := b.logs.String(); !strings.Contains(log, "another run sends the failure notice") ||
			strings.Contains(log, "WARN") {
			t.Errorf("the log is\n%s\nwant the line about the other run, and no warning", log)
		}
		b.relay.mail = nil
		b.later()
		b.wantSent("already sent")
	})
}

// TestLease checks that after a run died its digest is sent as soon as its lease has expired, after
// a minute at most.
func TestLease(t *testing.T) {
	for _, tt := range []struct{ configured, want time.Duration }{
		{5 * time.Second, 5 * time.Second},
		{time.Hour, time.Minute},
	} {
		t.Run(tt.configured.String(), func(t *testing.T) {
			b := newBench(t, config(t, "sqlite"))
			b.Config.Lease = tt.configured
			b.dies("one")
			mine, err := b.Store.acquire(b.ctx, b.Config.channels()[0], b.Config)
			if err != nil || !mine {
				t.Fatalf("acquire = %v, %v; want the lease", mine, err)
			}
			b.Config.Worker = "mail-a:2:y" // another run
			b.ahead = tt.want / 2
			b.wantSent("the lease of the dead run is valid")
			b.ahead = tt.want * 3 / 2
			b.wantSent("the lease of the dead run has expired", oneDead)
		})
	}
}
