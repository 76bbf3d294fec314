package tasks

import "testing"

// TestOwnerOf: a delivery that was refused and is still owned is about to be given up. Who has the same
// content for that recipient is no duplicate of it.
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
		ds := []Delivery{{Recipient: "ann@Firm.example", Status: c.delivery}, {Recipient: "bob@firm.example", Status: Pending}}
		if got := OwnerOf(7, c.task, ds, "ann@firm.example"); got != (Owner{7, c.open}) {
			t.Errorf("%s: %+v, want task 7, open %t", c.name, got, c.open)
		}
	}
	if got := OwnerOf(7, "", nil, "ann@firm.example"); got.Open {
		t.Error("a purged owner is open, want it settled")
	}
}
