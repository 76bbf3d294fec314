package pass

import (
	"slices"
	"testing"

	"postrider/internal/inbox"
	"postrider/internal/route"
	"postrider/internal/tasks"
)

// dueOnes are the tasks that a dry run shows, in words and with their recipients.
type dueOnes struct {
	nobody
	outcomes   []string
	recipients []string
}

func (o *dueOnes) Would(w *Would, _ tasks.Task) {
	o.outcomes, o.recipients = append(o.outcomes, w.Route+": "+w.Outcome), append(o.recipients, w.Recipients...)
}

// TestPreviewOfDue: a dry run shows the recipients of a task only while a run would send to them.
func TestPreviewOfDue(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	r.waiting("INBOX", 1)
	preview := func() *dueOnes {
		o := &dueOnes{}
		r.Config.DryRun, r.Observer = true, o
		r.run()
		r.Config.DryRun, r.Observer = false, nobody{}
		return o
	}
	got := preview()
	want := "all: task 1 (received) would be processed"
	if !slices.Equal(got.outcomes, []string{want}) || !slices.Equal(got.recipients, []string{"team@firm.example"}) {
		t.Errorf("by the same routes it shows %q to %q, want %q to the team", got.outcomes, got.recipients, want)
	}
	r.routes(route.Rule{Name: "others", To: []string{"other@firm.example"}})
	got = preview()
	want = ": task 1 (received) would be decided by the current routes; " +
		"to see how: postrider route test --task 1"
	if !slices.Equal(got.outcomes, []string{want}) || len(got.recipients) > 0 {
		t.Errorf("by other routes it shows %q to %q, want %q", got.outcomes, got.recipients, want)
	}
	r.run()
	if got, want := r.recipients(), "other@firm.example delivered"; got != want {
		t.Errorf("the run sent it to %q, want %q", got, want)
	}
}

// TestPreviewOfANotice: of a message that is too large, recipients get a notice.
func TestPreviewOfANotice(t *testing.T) {
	r := newRig(t, nil)
	seen := &woulds{}
	r.Config.Notices, r.Config.MaxSize, r.Config.DryRun, r.Observer = true, 10, true, seen
	r.add(inbox.StartAll)
	r.put("INBOX", mails(1)...)
	r.run()
	if want := "[team@firm.example] a notice would be sent to team@firm.example by route all\n"; seen.all != want {
		t.Errorf("the dry run shows %q, want %q", seen.all, want)
	}
}

// TestWouldOfNobody: a message without a From is shown as one.
func TestWouldOfNobody(t *testing.T) {
	w := Would{Inbox: "desk@firm.example", Folder: "INBOX", UID: 7, Outcome: "would be forwarded"}
	if got, want := w.String(), `desk@firm.example INBOX UID 7 (no sender) "": would be forwarded`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
