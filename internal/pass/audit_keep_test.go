package pass

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"postrider/internal/inbox"
)

// kept is the stored result of the last audit; zero before the first.
func (r *rig) kept() inbox.Audit {
	r.t.Helper()
	in := r.stored()
	got, err := r.store.Audits(r.t.Context(), in.ID)
	check(r.t, err)
	return got[in.ID]
}

// TestAuditIsKept: the result of each inbox is stored, with what is not accounted for.
func TestAuditIsKept(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll, "INBOX", "Gone")
	check(t, r.imap.CreateFolder(address, "Gone"))
	r.put("INBOX", mails(6)...)
	r.run()
	r.audit(AuditOptions{Who: "ann@host"})
	a := r.kept()
	if a.By != "ann@host" || a.Messages != 6 || a.Accounted != 6 || !a.Clean || len(a.Findings) != 0 || a.Error != "" ||
		!a.StartedAt.Equal(r.clock.Now()) ||
		!strings.HasPrefix(a.Summary, "Every message is accounted for: 6 on the servers.") {
		t.Errorf("the stored result is %+v, want six messages, all of them accounted for, by ann@host", a)
	}

	r.deleteTasks(2, 3, 5)
	check(t, r.imap.Expunge(address, "INBOX", 5))
	check(t, r.imap.DeleteFolder(address, "Gone"))
	r.audit(AuditOptions{Who: "bob@host"})
	a = r.kept()
	if a.By != "bob@host" || a.Messages != 5 || a.Accounted != 3 || a.Unaccounted != 3 || a.Clean || a.More() != 0 ||
		!strings.HasPrefix(a.Summary, "Missing: 2; ") {
		t.Errorf("the stored result is %+v, want three of five accounted for, and three that are not", a)
	}
	var findings []string
	for _, f := range a.Findings {
		if f.UID != 0 && f.UID != 5 && (f.Received == nil || f.Size == 0) {
			t.Errorf("the finding %+v lacks when the message was received, or its size", f)
		}
		says, _, _ := strings.Cut(f.Says, "; ")
		findings = append(findings, fmt.Sprint(f.Folder, " ", f.UID, " ", f.TaskID, " ", says))
	}
	if len(findings) != 4 || !strings.HasPrefix(findings[0], "Gone 0 0 ") || !slices.Equal(findings[1:], []string{
		"INBOX 2 2 something other than postrider deleted its task, so it is unknown who got it",
		"INBOX 3 3 something other than postrider deleted its task, so it is unknown who got it",
		"INBOX 5 5 is no longer on the server",
	}) {
		t.Errorf("the findings are %q, want the folder that is not there, then UIDs 2, 3 and 5", findings)
	}

	r.Dial = func(context.Context, inbox.Inbox) (Source, error) { return nil, errors.New("connection refused") }
	r.audit(AuditOptions{})
	if a = r.kept(); a.Clean || a.Error != "connection refused" || a.Unaccounted != 0 {
		t.Errorf("the stored result is %+v, want the error", a)
	}
}

// TestStoppedAuditIsNotKept: the last result stays. One that ran out of time is a result.
func TestStoppedAuditIsNotKept(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	r.put("INBOX", mails(1)...)
	r.run()
	r.audit(AuditOptions{Who: "ann@host"})
	ctx, cancel := context.WithCancel(t.Context())
	restore := r.behind(func(src Source) Source { cancel(); return src })
	r.Audit(ctx, []inbox.Inbox{r.stored()}, AuditOptions{})
	if a := r.kept(); !a.Clean || a.By != "ann@host" {
		t.Errorf("after an audit was stopped, the stored result is %+v; want the one before", a)
	}
	restore()
	ctx, cancel = context.WithTimeoutCause(t.Context(), time.Millisecond, errors.New("it took too long"))
	defer cancel()
	r.behind(func(src Source) Source { <-ctx.Done(); return src })
	r.Audit(ctx, []inbox.Inbox{r.stored()}, AuditOptions{})
	if a := r.kept(); a.Error != "interrupted before all of it was compared: it took too long" {
		t.Errorf("after an audit ran out of time, the stored result is %+v; want the error", a)
	}
}

// TestAuditThatCannotBeKept is good all the same.
func TestAuditThatCannotBeKept(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	r.Inboxes = fullDisk{r.store}
	found, _ := r.audit(AuditOptions{})
	if found.Error != "" || !strings.Contains(r.log.String(), "the result of the audit could not be stored") {
		t.Errorf("the audit found %+v, and logs\n%s\nwant no error, and a line in the log", found, r.log)
	}
}

// fullDisk stores no results.
type fullDisk struct{ Inboxes }

func (fullDisk) KeepAudit(context.Context, int64, inbox.Audit) error { return errors.New("disk full") }
