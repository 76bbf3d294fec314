package tasks

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// inLine is deliveries in one line: recipient, status, and the task that it is a duplicate of.
func inLine(ds []Delivery) string {
	var out []string
	for _, d := range ds {
		line := d.Recipient + " " + string(d.Status)
		if d.DuplicateOf != 0 {
			line += fmt.Sprint(" ", d.DuplicateOf)
		}
		out = append(out, line)
	}
	return strings.Join(out, ", ")
}

// TestOwn decides on one delivery of task 5 by who owns its recipient.
func TestOwn(t *testing.T) {
	nobody, mine := Owner{}, Owner{TaskID: 5, Open: true}
	open, settled := Owner{TaskID: 3, Open: true}, Owner{TaskID: 3}
	for _, c := range []struct {
		name   string
		status DeliveryStatus
		of     int64
		owner  Owner
		want   string
		take   bool
	}{
		{"free", Pending, 0, nobody, "pending", true},
		{"free by now", Pending, 3, nobody, "pending", true},
		{"its own", Pending, 0, mine, "pending", false},
		{"its own by now", Pending, 3, mine, "pending", false},
		{"owned, open", Pending, 0, open, "pending 3", false},
		{"owned, settled", Pending, 0, settled, "duplicate 3", false},
		{"waited, settled", Pending, 3, settled, "duplicate 3", false},
		{"waited for another", Pending, 2, open, "pending 3", false},
		{"unknown outcome, free", Sending, 0, nobody, "sending", true},
		{"unknown outcome, its own", Sending, 0, mine, "sending", false},
		{"unknown outcome, owned", Sending, 0, settled, "sending", false},
		{"delivered", Delivered, 0, nobody, "delivered", false},
		{"delivered, owned", Delivered, 0, open, "delivered", false},
		{"refused", Failed, 0, nobody, "failed", false},
		{"a duplicate", Duplicated, 2, nobody, "duplicate 2", false},
		{"a duplicate of another", Duplicated, 2, settled, "duplicate 2", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			owners := map[string]Owner{}
			if c.owner != nobody {
				owners["Ann@x.example"] = c.owner
			}
			before := []Delivery{{Recipient: "Ann@X.example", Status: c.status, DuplicateOf: c.of}}
			out, take := Own(5, before, owners)
			if got := inLine(out); got != "Ann@X.example "+c.want {
				t.Errorf("the delivery is %s, want %s", got, c.want)
			}
			if got := slices.Contains(take, "Ann@x.example"); got != c.take || len(take) > 1 {
				t.Errorf("to take: %q; want its mailbox: %t", take, c.take)
			}
			if before[0].Status != c.status || before[0].DuplicateOf != c.of {
				t.Errorf("the argument was changed to %+v", before[0])
			}
		})
	}
}

// TestEnds: what a task gives up, and what is settled, when a claim ends in a status.
func TestEnds(t *testing.T) {
	var all []Delivery
	for _, s := range []DeliveryStatus{Pending, Sending, Delivered, Failed, Duplicated} {
		all = append(all, Delivery{Recipient: string(s), Status: s})
	}
	for _, status := range Statuses {
		givesUp, settles := "failed", "delivered failed duplicate"
		if status == Skipped {
			givesUp, settles = "pending failed", "pending sending delivered failed duplicate"
		}
		if got := strings.Join(GivesUp(status, all), " "); got != givesUp {
			t.Errorf("%s gives up %q, want %q", status, got, givesUp)
		}
		if got := strings.Join(Settles(status, all), " "); got != settles {
			t.Errorf("%s settles %q, want %q", status, got, settles)
		}
	}
}

// TestBegin: where a new task begins.
func TestBegin(t *testing.T) {
	send, waits := Delivery{Recipient: "a", Status: Pending}, Delivery{Recipient: "b", Status: Pending, DuplicateOf: 3}
	also := Delivery{Recipient: "c", Status: Pending, DuplicateOf: 4}
	has := Delivery{Recipient: "d", Status: Duplicated, DuplicateOf: 9}
	to := &Decision{Recipients: []string{"a"}}
	skipped := &Decision{Recipients: []string{"a"}, Skip: SkipByRoute, Reason: "list"}
	const same = "the same message is task "
	for _, c := range []struct {
		name   string
		d      *Decision
		ds     []Delivery
		status Status
		skip   SkipReason
		reason string
		wait   bool
	}{
		{"not decided", nil, nil, Received, "", "", false},
		{"to be sent", to, []Delivery{send}, Received, "", "", false},
		{"some are duplicates", to, []Delivery{has, send}, Received, "", "", false},
		{"some wait", to, []Delivery{send, waits}, Received, "", "", false},
		{"all wait", to, []Delivery{waits, also, waits}, Received, "", "waits: " + same + "3, task 4", true},
		{"all wait or have it", to, []Delivery{waits, has}, Received, "", "waits: " + same + "3", true},
		{"all have it", to, []Delivery{has, has}, Skipped, SkipDuplicate, "duplicate: " + same + "9", false},
		{"nobody", &Decision{Reason: "no route"}, nil, SkippedNoMatch, "", "no route", false},
		{"skipped", skipped, nil, Skipped, SkipByRoute, "list", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, skip, reason, wait := Begin(c.d, c.ds)
			if status != c.status || skip != c.skip || reason != c.reason || wait != c.wait {
				t.Errorf("%s, %q, %q, waits %t; want %s, %q, %q, %t",
					status, skip, reason, wait, c.status, c.skip, c.reason, c.wait)
			}
		})
	}
}

func TestOnlyWaits(t *testing.T) {
	send, waits := Delivery{Status: Pending}, Delivery{Status: Pending, DuplicateOf: 3}
	copied := Delivery{Status: Duplicated, DuplicateOf: 1}
	for _, c := range []struct {
		name string
		ds   []Delivery
		want bool
	}{
		{"nothing", nil, false},
		{"waits", []Delivery{waits}, true},
		{"waits, others have ended", []Delivery{{Status: Delivered}, {Status: Failed}, copied, waits}, true},
		{"one is to be sent", []Delivery{waits, send}, false},
		{"one has an unknown outcome", []Delivery{waits, {Status: Sending}}, false},
		{"a duplicate", []Delivery{copied}, false},
	} {
		if got := OnlyWaits(c.ds); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}

// TestDecided: one delivery for each recipient, in their order, and none of what nobody gets.
func TestDecided(t *testing.T) {
	d := &Decision{Recipients: []string{"b", "a", "C"}}
	if got := inLine(Decided(d)); got != "C pending, a pending, b pending" {
		t.Errorf("%s", got)
	}
	for _, d := range []*Decision{{}, {Recipients: []string{"a"}, Skip: SkipLoop}} {
		if got := Decided(d); got != nil {
			t.Errorf("%+v: %v, want none", d, got)
		}
	}
}

// TestOwnerOf: a delivery that was refused and is still owned is about to be given up. Who has the
// same content for that recipient is no duplicate of it.
func TestOwnerOf(t *testing.T) {
	for _, c := range []struct {
		name     string
		task     Status
		delivery DeliveryStatus
		open     bool
	}{
		{"not sent yet", Received, Pending, true},
		{"in the relay's hands", InProgress, Sending, true},
		{"refused, and the claim goes on", InProgress, Failed, true},
		{"delivered", InProgress, Delivered, false},
		{"delivered by another task", Forwarded, Duplicated, false},
		{"skipped by an operator before it was sent", Skipped, Pending, false},
		{"skipped by an operator after it was refused", Skipped, Failed, false},
	} {
		ds := []Delivery{
			{Recipient: "ann@Firm.example", Status: c.delivery},
			{Recipient: "bob@firm.example", Status: Pending},
		}
		if got := OwnerOf(7, c.task, ds, "ann@firm.example"); got != (Owner{7, c.open}) {
			t.Errorf("%s: %+v, want task 7, open %t", c.name, got, c.open)
		}
	}
	if got := OwnerOf(7, "", nil, "ann@firm.example"); got.Open {
		t.Error("a purged owner is open, want it settled")
	}
}
