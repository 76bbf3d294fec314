package tasks

import (
	"strings"
	"testing"
	"time"
)

// TestBecame are the sentences that people read.
func TestBecame(t *testing.T) {
	accepted := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	after := func(d time.Duration) time.Time { return accepted.Add(d) }
	for want, a := range map[string]Arrival{
		"bounced: 550 5.1.1 no such user at mx.other.example, 2 minutes after it was accepted": {
			Status: Bounced, Code: 550, Enhanced: "5.1.1",
			Reply: "550 5.1.1 no such user", Remote: "mx.other.example", At: after(2 * time.Minute),
		},
		"bounced: 550 no such user, 1 minute after it was accepted": {
			Status: Bounced, Code: 550, Reply: "no such user", At: after(time.Minute),
		},
		"delayed: 4.4.1 connection timed out, 3 hours after it was accepted": {
			Status: Delayed, Enhanced: "4.4.1", Reply: "connection timed out", At: after(3*time.Hour + 59*time.Minute),
		},
		"confirmed at mx.other.example, 40 seconds after it was accepted": {
			Status: Confirmed, Remote: "mx.other.example", At: after(40 * time.Second),
		},
		"bounced (for member@other.example): 550 5.1.1, 1 minute after it was accepted": {
			Status: Bounced, Code: 550, Enhanced: "5.1.1", Target: "member@other.example", At: after(time.Minute),
		},
		"complained, 2 days after it was accepted": {Status: Complained, At: after(50 * time.Hour)},
		"relayed: 250 at gateway.other.example, 0 seconds after it was accepted": {
			Status: Relayed, Code: 250, Remote: "gateway.other.example", At: accepted,
		},
		"bounced: 5.0.0 5.1.1 is what they say here, 1 second after it was accepted": {
			Status: Bounced, Enhanced: "5.0.0", Reply: "5.1.1 is what they say here", At: after(time.Second),
		},
	} {
		if got := (Delivery{DeliveredAt: &accepted, Arrival: &a}).Became(); got != want {
			t.Errorf("%+v: %q, want %q", a, got, want)
		}
	}
	if got := (Delivery{DeliveredAt: &accepted}).Became(); got != "" {
		t.Errorf("of what nothing is known it says %q", got)
	}
	sending := Delivery{Status: Sending, Arrival: &Arrival{Status: Bounced, Code: 550}}
	if got := sending.Became(); got != "bounced: 550" {
		t.Errorf("of what may have been accepted it says %q, want no time", got)
	}
}

// TestRecorded: what strangers write is one line of bounded length.
func TestRecorded(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	hostile := strings.Repeat("x\r\n\x1b[2J", 500)
	got := Arrival{
		Status: Bounced, Enhanced: hostile, Reply: hostile, Remote: hostile, Target: hostile,
	}.Recorded(nil, now)
	if len([]rune(got.Enhanced)) > 32 || len([]rune(got.Remote)) > 255 ||
		len([]rune(got.Reply)) > 1000 || len([]rune(got.Target)) > 320 || !got.At.Equal(now) {
		t.Errorf("recorded is %+v; want less, now", got)
	}
	if strings.ContainsAny(got.Enhanced+got.Reply+got.Remote+got.Target, "\r\n\x1b") {
		t.Errorf("recorded is %q, %q, %q, %q; want one line each", got.Enhanced, got.Reply, got.Remote, got.Target)
	}
}
