package notify

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestManyAtOnce: eight runs of as many hosts end at the same moment.
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
				runs.Go(func() { n.Tell(b.ctx, true) })
			}
			runs.Wait()
			if got := b.relay.subjects(); len(got) != 1 {
				t.Errorf("with notify.at_most %s mails with the subjects %q went out, want one\nlog: %s", atMost, got, b.logs)
			}
		}
	})
}

// TestKilledBeforeNoting: a run sends, and dies before it has noted that.
func TestKilledBeforeNoting(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		b.dies("one")
		died := false
		func() {
			defer func() { died = recover() != nil }()
			b.relay.before = func() { panic("killed") }
			b.tell()
		}()
		first := b.relay.sent
		if !died || len(first) != 1 {
			t.Fatalf("killed: %v, %d mails went out; want one, and no more", died, len(first))
		}
		b.relay.before = nil
		b.Config.Worker = "mail-a:2:y"
		b.wantTold("the dead run may be at it yet")
		b.later()
		b.wantTold("its lease has run out", oneDead)
		if a, z := messageID(first[0].raw), messageID(b.relay.sent[0].raw); a != z {
			t.Errorf("the Message-IDs are %s and %s, want the same for the same digest", a, z)
		}
		b.later()
		b.wantTold("told and noted")
	})
}

// TestSlowRelay: once it has taken MAIL, a relay may take as long as RFC 5321 4.5.3.2 allows; nobody else tells meanwhile.
func TestSlowRelay(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		b.dies("one")
		other, mails := *b.Notifier, &fakeRelay{}
		other.Config.Worker, other.Relay = "mail-b:1:y", mails
		b.Config.Lease, other.Config.Lease = time.Second, time.Second
		b.relay.before = func() {
			b.relay.before = nil
			held := func() int { return b.count(`SELECT held_at FROM monitored_emails_channels`) }
			for i, first := 0, held(); i < 5; i++ { // it is renewed for as long as that takes
				last := held()
				wait(t, "the lease to be renewed", func() bool { return held() > last })
				other.Tell(b.ctx, true)
				if i == 4 && held()-first < int(other.Config.Lease.Microseconds()) {
					i--
				}
			}
		}
		b.wantTold("the relay takes its time", oneDead)
		if len(mails.sent) > 0 {
			t.Error("another run told it meanwhile, want it told once")
		}
		b.later()
		other.Tell(b.ctx, true)
		if len(mails.sent) > 0 {
			t.Error("another run told it afterwards, want it told once")
		}
	})
}

// TestHeldUp: a run that stands still for longer than its lease sends nothing beside the one that has taken its place.
func TestHeldUp(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		b.dies("one")
		other, mails := *b.Notifier, &fakeRelay{}
		other.Config.Worker, other.Relay = "mail-b:1:y", mails
		b.relay.mail = func() {
			b.passes(time.Minute)
			other.Tell(b.ctx, true)
		}
		b.wantTold("it was held up")
		if got := mails.subjects(); len(got) != 1 || got[0] != oneDead {
			t.Errorf("the other run told %q, want %q", got, oneDead)
		}
		if log := b.logs.String(); !strings.Contains(log, "another run tells what failed") || strings.Contains(log, "WARN") {
			t.Errorf("the log is\n%s\nwant it said, and no warning", log)
		}
		b.relay.mail = nil
		b.later()
		b.wantTold("it has been told")
	})
}

// TestLease: what a run that died began to tell is told as soon as its lease is over, and that is a minute at most.
func TestLease(t *testing.T) {
	for _, tt := range []struct{ configured, want time.Duration }{{5 * time.Second, 5 * time.Second}, {time.Hour, time.Minute}} {
		t.Run(tt.configured.String(), func(t *testing.T) {
			b := newBench(t, config(t, "sqlite"))
			b.Config.Lease = tt.configured
			b.dies("one")
			mine, err := b.Store.acquire(b.ctx, b.Config.channels()[0], b.Config)
			if err != nil || !mine {
				t.Fatalf("the channel is mine: %v (%v), want it to be", mine, err)
			}
			b.Config.Worker = "mail-a:2:y" // the first one has died
			b.ahead = tt.want - time.Second/2
			b.wantTold("the dead run may be at it yet")
			b.ahead = tt.want + time.Second/2
			b.wantTold("its lease has run out", oneDead)
		})
	}
}
