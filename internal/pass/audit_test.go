package pass

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/route"
	"postrider/internal/tasks"
	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

// audit audits the active inboxes, and collects the report of each message.
func (r *rig) audit(opts AuditOptions) (InboxAudit, []Audited) {
	r.t.Helper()
	boxes, err := r.store.Active(r.t.Context())
	check(r.t, err)
	var mu sync.Mutex
	var lines []Audited
	opts.Each = func(m Audited) error {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, m)
		return nil
	}
	return r.Audit(r.t.Context(), boxes, opts).Inboxes[0], lines
}

// contentless prevents that anyone reads the content of a message, until restore is called.
func (r *rig) contentless() (restore func()) {
	return r.behind(func(src Source) Source { return contentless{src, r.t} })
}

type contentless struct {
	Source
	t *testing.T
}

func (s contentless) Bodies(_ context.Context, uids []uint32, _ eachMessage) (imapsrc.Result, error) {
	s.t.Errorf("the bodies of the UIDs %v were read, want none", uids)
	return imapsrc.Result{}, errors.New("no bodies here")
}

func (s contentless) Headers(_ context.Context, uids []uint32, _ eachMessage) (imapsrc.Result, error) {
	s.t.Errorf("the headers of the UIDs %v were read, want none", uids)
	return imapsrc.Result{}, errors.New("no headers here")
}

// wantCounts checks that a folder was compared, with these counts and no others.
func wantCounts(t *testing.T, f *FolderAudit, want map[Account]int) {
	t.Helper()
	got := maps.Clone(f.Counts)
	maps.DeleteFunc(got, func(_ Account, n int) bool { return n == 0 })
	sum := f.Registered
	for _, n := range want {
		sum += n
	}
	if f.Error != "" || !maps.Equal(got, want) || f.Messages != sum || len(f.Missing) != want[AsMissing] {
		t.Errorf("folder %s: error %q, %d messages, %v, missing %v; want no error, %d, and %v",
			f.Name, f.Error, f.Messages, got, f.Missing, sum, want)
	}
}

// letter is a message with its own size; its subject chooses the route.
func letter(subject string) []byte {
	return testserver.Mail("alice@client.example", address, subject, "hello "+subject)
}

var auditRules = []route.Rule{
	{Name: "team", Match: subject("team"), To: []string{"team@firm.example", "boss@firm.example"}},
	{Name: "later", Match: subject("later"), To: []string{"later@firm.example"}},
	{Name: "never", Match: subject("never"), To: []string{"team@firm.example", "never@firm.example"}},
	{Name: "lost", Match: subject("lost"), To: []string{"lost@firm.example"}},
	{Name: "bulk", Match: subject("bulk"), Skip: true},
}

func auditReply(e smtpsink.Event) smtpsink.Action {
	switch {
	case e.Stage == "rcpt" && e.Arg == "later@firm.example":
		return smtpsink.Action{Code: 451, Text: "4.2.0 later"}
	case e.Stage == "rcpt" && e.Arg == "never@firm.example":
		return smtpsink.Action{Code: 550, Text: "5.1.1 never"}
	case e.Stage == "dot" && e.Message.To[0] == "lost@firm.example":
		return smtpsink.Action{AcceptAndDrop: true}
	}
	return smtpsink.Action{}
}

// TestAuditReportsEachMessage has one message of each kind.
func TestAuditReportsEachMessage(t *testing.T) {
	r := newRig(t, auditReply, auditRules...)
	r.Config.Policy.Hold = true
	r.add(inbox.StartLatest)
	r.put("INBOX", letter("before 1"), letter("before 2"), letter("team 3"))
	r.run()
	r.put("INBOX", letter("later 4"), letter("never 5"), letter("lost 6"), letter("bulk 7"),
		letter("nobody 8"), letter("team 9"), letter("team 10"))
	r.run()
	ids := map[uint32]int64{}
	for _, task := range r.tasks() {
		ids[task.UID] = task.ID
	}
	_, err := r.queue.Purge(t.Context(), tasks.By{Who: "ann"}, ids[9])
	check(t, err)
	check(t, r.imap.Expunge(address, "INBOX", 10))
	r.put("INBOX", letter("team 11"))

	r.contentless()
	found, lines := r.audit(AuditOptions{})
	if found.Error != "" || len(found.Folders) != 1 {
		t.Fatalf("the audit found %+v, want one folder and no error", found)
	}
	wantCounts(t, found.Folders[0], map[Account]int{
		AsBeforeStart: 2, AsForwarded: 1, AsWaiting: 1, AsDead: 1, AsUncertain: 1,
		AsSkipped: 1, AsNoMatch: 1, AsPurged: 1, AsNew: 1,
	})
	if found.Folders[0].Gone != 1 || len(found.Folders[0].Strays) != 0 {
		t.Errorf("%d gone and strays %v, want one gone, and no stray", found.Folders[0].Gone, found.Folders[0].Strays)
	}
	var got []string
	for _, m := range lines {
		got = append(got, fmt.Sprintf("%d %s task=%d %s to=%s reason=%.20s",
			m.UID, m.Account, m.TaskID, m.Status, strings.Join(m.To, ","), m.Reason))
		now := r.clock.Now()
		if m.Account == AsWaiting &&
			(m.NextTry == nil || !m.NextTry.Equal(now.Add(time.Minute)) || !m.Since.Equal(now)) {
			t.Errorf("the waiting one waits since %v until %v, want from now on for a minute", m.Since, m.NextTry)
		}
	}
	want := []string{
		"1 before_start task=0  to= reason=", "2 before_start task=0  to= reason=",
		fmt.Sprintf("3 forwarded task=%d forwarded to=boss@firm.example,team@firm.example reason=", ids[3]),
		fmt.Sprintf("4 waiting task=%d error to= reason=later@firm.example: ", ids[4]),
		fmt.Sprintf("5 dead task=%d dead to=team@firm.example reason=permanently refused:", ids[5]),
		fmt.Sprintf("6 uncertain task=%d uncertain to= reason=the outcome is not k", ids[6]),
		fmt.Sprintf("7 skipped task=%d skipped to= reason=by_route: ", ids[7]),
		fmt.Sprintf("8 skipped_no_match task=%d skipped_no_match to= reason=", ids[8]),
		fmt.Sprintf("9 purged task=%d forwarded to= reason=", ids[9]),
		"11 new task=0  to= reason=",
		fmt.Sprintf("10 forwarded task=%d forwarded to=boss@firm.example,team@firm.example reason=", ids[10]), // gone
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !strings.HasPrefix(got[i], want[i]) {
			t.Fatalf("the audit reports\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// TestAuditSaysWhatBecame: an audit says who confirmed, and for whom a message bounced.
func TestAuditSaysWhatBecame(t *testing.T) {
	r := newRig(t, auditReply, auditRules...)
	r.Config.Policy.Hold = true
	r.add(inbox.StartAll)
	r.put("INBOX", letter("team 1"), letter("team 2"), letter("team 3"), letter("lost 4"))
	r.run()
	report := func(uid uint32, to string, a tasks.Arrival) {
		t.Helper()
		for _, task := range r.tasks() {
			if task.UID == uid {
				changed, err := r.queue.Arrived(t.Context(), "reports", task.ID, to, a)
				if check(t, err); !changed {
					t.Fatalf("%s of UID %d for %s changed nothing", a.Status, uid, to)
				}
			}
		}
	}
	confirmed := tasks.Arrival{Status: tasks.Confirmed}
	report(1, "team@firm.example", tasks.Arrival{Status: tasks.Bounced})
	report(1, "boss@firm.example", confirmed)
	report(2, "team@firm.example", tasks.Arrival{Status: tasks.Confirmed, Target: "member@firm.example"})
	report(2, "boss@firm.example", confirmed)
	report(3, "team@firm.example", confirmed)
	report(3, "boss@firm.example", tasks.Arrival{Status: tasks.Complained})
	report(4, "lost@firm.example", tasks.Arrival{Status: tasks.Bounced}) // so the relay had accepted it
	check(t, r.imap.Expunge(address, "INBOX", 3))
	found, lines := r.audit(AuditOptions{})
	f := found.Folders[0]
	if f.Bounced != 2 || f.Confirmed != 2 ||
		f.Accounts() != "2 forwarded, 1 uncertain; of them 2 confirmed, 2 bounced" {
		t.Errorf("the audit found %d bounced, %d confirmed, %q; want 2, 2", f.Bounced, f.Confirmed, f.Accounts())
	}
	var got []string
	for _, m := range lines {
		got = append(got, fmt.Sprintf("%d to=%s confirmed=%s bounced=%s", m.UID,
			strings.Join(m.To, ","), strings.Join(m.Confirmed, ","), strings.Join(m.Bounced, ",")))
	}
	want := []string{
		"1 to=boss@firm.example confirmed=boss@firm.example bounced=team@firm.example",
		"2 to=boss@firm.example,team@firm.example confirmed=boss@firm.example bounced=",
		"4 to= confirmed= bounced=lost@firm.example",
		"3 to=boss@firm.example,team@firm.example confirmed=boss@firm.example,team@firm.example bounced=",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the audit reports\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	sum := AuditReport{Inboxes: []InboxAudit{found}}
	const verdict = "Every message is accounted for: 3 on the servers. " +
		"No longer there, and accounted for: 1. Confirmed by the recipients' servers: 2. " +
		"Bounced after the relay had accepted them: 2; see `postrider task list --bounced`."
	if got := sum.Verdict(); got != verdict {
		t.Errorf("the verdict is %q, want %q", got, verdict)
	}
}

// late has r register n messages while the server hides these, and returns all.
func (r *rig) late(n int, hidden ...uint32) [][]byte {
	r.t.Helper()
	msgs := mails(n)
	r.put("INBOX", msgs...)
	var restores []func()
	for _, uid := range hidden {
		restores = append(restores, r.behind(func(src Source) Source { return hiding{src, uid} }))
	}
	r.run()
	for _, restore := range slices.Backward(restores) {
		restore()
	}
	return msgs
}

// TestAuditFindsAndRepairs: a message that the server showed late is missing. After a repair it is
// forwarded once.
func TestAuditFindsAndRepairs(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	msgs := r.late(9, 2, 7)
	restore := r.contentless()
	for range 2 { // it changes nothing
		found, lines := r.audit(AuditOptions{})
		wantCounts(t, found.Folders[0], map[Account]int{AsForwarded: 7, AsMissing: 2})
		m := found.Folders[0].Missing
		if len(m) != 2 || m[0].UID != 2 || m[1].UID != 7 || m[0].Size != int64(len(msgs[1])) || m[0].Received.IsZero() {
			t.Fatalf("missing are %+v, want UIDs 2 and 7, with their time and size, %d octets the first",
				m, len(msgs[1]))
		}
		if line := lines[1]; line.Account != AsMissing || line.Size != m[0].Size || line.Received == nil {
			t.Errorf("the audit reports UID 2 as %+v, want missing, with its size", line)
		}
	}
	restore()
	found, _ := r.audit(AuditOptions{Repair: true})
	wantCounts(t, found.Folders[0], map[Account]int{AsForwarded: 7})
	if found.Folders[0].Registered != 2 || found.Error != "" {
		t.Errorf("the repair registered %d, error %q; want 2", found.Folders[0].Registered, found.Error)
	}
	found, _ = r.audit(AuditOptions{Repair: true})
	wantCounts(t, found.Folders[0], map[Account]int{AsForwarded: 7, AsWaiting: 2})
	r.Config.Worker = "the next run" // the audit has released its lease
	r.want(r.run(), Counters{Forwarded: 2})
	r.wantArrived(msgs)
}

// undated is a server that does not say when messages arrived.
type undated struct{ Source }

func (s undated) Metadata(ctx context.Context, uids []uint32) ([]imapsrc.Meta, error) {
	metas, err := s.Source.Metadata(ctx, uids)
	for i := range metas {
		metas[i].Received = time.Time{}
	}
	return metas, err
}

// TestAuditWithoutADate: a missing message without a date has none, in JSON, too.
func TestAuditWithoutADate(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	r.late(2, 1)
	r.behind(func(src Source) Source { return undated{src} })
	found, lines := r.audit(AuditOptions{})
	missing, err := json.Marshal(found.Folders[0].Missing)
	check(t, err)
	if !strings.Contains(string(missing), `"received":null,`) ||
		lines[0].Account != AsMissing || lines[0].Received != nil {
		t.Errorf("missing is %s, and the line %+v; want a message without a date", missing, lines[0])
	}
}

// TestAuditRepairsACopy: a message is not forwarded again after an equal one was forwarded.
func TestAuditRepairsACopy(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	msgs := mails(1)
	r.put("INBOX", msgs[0], msgs[0], letter("last"))
	restore := r.behind(func(src Source) Source { return hiding{src, 1} })
	r.run()
	restore()
	r.audit(AuditOptions{Repair: true})
	found, lines := r.audit(AuditOptions{})
	wantCounts(t, found.Folders[0], map[Account]int{AsForwarded: 2, AsSkipped: 1})
	if !strings.HasPrefix(lines[0].Reason, "duplicate") {
		t.Errorf("the copy is %+v, want skipped as a duplicate", lines[0])
	}
}

// TestAuditCannotProve: the audit says why, and goes on with the other folders and inboxes.
func TestAuditCannotProve(t *testing.T) {
	for _, tt := range []struct {
		name   string
		break_ func(r *rig)
		want   string
		inbox  bool // all of it
	}{
		{"UIDVALIDITY changed", func(r *rig) {
			check(r.t, r.imap.SetUIDValidity(address, "A", 777))
		}, "UIDVALIDITY has changed from ", false},
		{"UIDNEXT went backwards", func(r *rig) {
			r.behind(func(src Source) Source { return backwards{src} })
		}, "UIDNEXT is 3 and the cursor 5", false},
		{"the folder was deleted", func(r *rig) { check(r.t, r.imap.DeleteFolder(address, "A")) }, "A", false},
		{"the server is down", func(r *rig) {
			r.Dial = func(context.Context, inbox.Inbox) (Source, error) { return nil, errors.New("nobody there") }
		}, "nobody there", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, nil)
			r.add(inbox.StartAll, "A", "B")
			for _, name := range []string{"A", "B"} {
				check(t, r.imap.CreateFolder(address, name))
			}
			r.put("A", mails(5)...)
			r.put("B", letter("b"))
			r.run()
			tt.break_(r)
			found, _ := r.audit(AuditOptions{Repair: true})
			if tt.inbox {
				if !strings.Contains(found.Error, tt.want) || len(found.Folders) != 0 {
					t.Errorf("the audit found %+v; want an error that says %q, and no folder, as none was compared",
						found, tt.want)
				}
				return
			}
			if got := found.Folders[0].Error; !strings.Contains(got, tt.want) || found.Error != "" {
				t.Errorf("the errors are %q of the folder and %q of the inbox; want one of the folder that says %q",
					got, found.Error, tt.want)
			}
			wantCounts(t, found.Folders[1], map[Account]int{AsForwarded: 1})
			if len(r.tasks()) != 6 {
				t.Errorf("there are %d tasks, want the 6 that there were", len(r.tasks()))
			}
		})
	}
}

// backwards is a server whose UIDNEXT went backwards in the folder A.
type backwards struct{ Source }

func (s backwards) Select(ctx context.Context, name string) (imapsrc.Folder, error) {
	info, err := s.Source.Select(ctx, name)
	if name == "A" {
		info.UIDNext = 3
	}
	return info, err
}
