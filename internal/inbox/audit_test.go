package inbox

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"
)

// TestAudits: the last result of an inbox replaces the one before, and goes with the inbox.
func TestAudits(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		desk, other := b.add("desk@firm.example"), b.add("other@firm.example")
		at := time.Date(2026, 3, 31, 12, 0, 0, 0, time.UTC)
		first := Audit{
			StartedAt: at, DurationMS: 7, By: "ann@mail-a",
			Error: "cannot be reached", Summary: "no proof", Findings: []Finding{},
		}
		last := Audit{
			StartedAt: at.Add(time.Hour), DurationMS: 90_000, By: "bob@mail-b",
			Messages: 30, Accounted: 28, Unaccounted: 3, Summary: "Missing: 2.",
			Findings: []Finding{
				{Folder: "Ordner <ü>", Says: "not there"},
				{Folder: "INBOX", UID: 1<<32 - 1, TaskID: 5, Received: &at, Size: 4096, Says: "missing"},
			},
		}
		clean := Audit{
			StartedAt: at, By: "ann@mail-a", Messages: 2, Accounted: 2,
			Clean: true, Summary: "Every message is accounted for", Findings: []Finding{},
		}
		b.keep(desk.ID, first)
		b.keep(desk.ID, last)
		b.keep(other.ID, clean)
		b.keep(other.ID+100, clean) // which was removed meanwhile
		got := b.audits(desk.ID, other.ID, other.ID+100)
		if want := map[int64]Audit{desk.ID: last, other.ID: clean}; !reflect.DeepEqual(got, want) {
			t.Errorf("the last audits are %+v, want %+v", got, want)
		}
		if more := got[desk.ID].More(); more != 2 {
			t.Errorf("%d are not listed, want 2 of 3", more)
		}
		b.remove(desk.Address)
		if got := b.audits(desk.ID, other.ID); len(got) != 1 {
			t.Errorf("after the inbox is removed the audits are %+v, want one of the other inbox", got)
		}
		if got := b.audits(); len(got) != 0 {
			t.Errorf("of no inbox the audits are %+v, want none", got)
		}
	})
}

// TestLongAudit: what is stored is bounded.
func TestLongAudit(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		in := b.add("desk@firm.example")
		long := strings.Repeat("<\U0001F480", 100_000)
		a := Audit{StartedAt: time.Now(), By: long, Summary: long, Error: long, Unaccounted: 900}
		for i := range 900 {
			a.Findings = append(a.Findings, Finding{Folder: long, UID: uint32(i + 1), Says: long})
		}
		b.keep(in.ID, a)
		got := b.audits(in.ID)[in.ID]
		if octets := len(fmt.Sprint(got)); len(got.Findings) != MaxFindings || got.More() != 880 || octets > 200_000 {
			t.Errorf("%d findings and %d more, %d octets; want 20 and 880, and a bounded size",
				len(got.Findings), got.More(), octets)
		}
	})
}

// TestAuditBegins: the trail of the inbox has one line for each call.
func TestAuditBegins(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		in := b.add("desk@firm.example")
		for _, id := range []int64{in.ID, in.ID, in.ID + 100} { // which was removed meanwhile
			if err := b.AuditBegins(b.ctx, id, "anna (status page)", "by an operator: a test"); err != nil {
				t.Fatal(err)
			}
		}
		want := fmt.Sprintf("%d audit_started anna (status page) by an operator: a test", in.ID)
		if lines := b.trail(); len(lines) != 2 || lines[0] != want || lines[1] != want {
			t.Errorf("the trail is %q, want %q twice", lines, want)
		}
	})
}

// trail is the audit trail of all inboxes.
func (b bench) trail() (lines []string) {
	b.t.Helper()
	err := b.db.View(b.ctx, func(tx *gorm.DB) error {
		lines = nil
		return tx.Raw(`SELECT CONCAT(inbox_id, ' ', event, ' ', worker, ' ', detail)
			FROM monitored_emails_events WHERE task_id = 0`).Scan(&lines).Error
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return lines
}

func (b bench) keep(inboxID int64, a Audit) {
	b.t.Helper()
	if err := b.KeepAudit(b.ctx, inboxID, a); err != nil {
		b.t.Fatal(err)
	}
}

func (b bench) audits(inboxIDs ...int64) map[int64]Audit {
	b.t.Helper()
	got, err := b.Audits(b.ctx, inboxIDs...)
	if err != nil {
		b.t.Fatal(err)
	}
	return got
}
