package cmd

import (
	"strings"
	"testing"

	"postrider/internal/pass"
	"postrider/internal/tasks"
)

// TestDryRunOfSuspended: a message is not deleted on the server while one of its recipients does
// not get it.
func TestDryRunOfSuspended(t *testing.T) {
	for status, deleted := range map[tasks.DeliveryStatus]bool{tasks.Pending: true, tasks.Failed: false} {
		var out strings.Builder
		o := &observer{out: &out, then: func(*pass.Would) string { return "; it would be deleted" }}
		o.Would(&pass.Would{}, tasks.Task{
			Deliveries: []tasks.Delivery{
				{Recipient: "kept@x.example", Status: tasks.Pending},
				{Recipient: "gone@x.example", Status: status},
			},
		})
		if got := strings.Contains(out.String(), "deleted"); got != deleted {
			t.Errorf("while the second delivery is %s it prints %q, want it deleted: %v", status, out.String(), deleted)
		}
	}
}
