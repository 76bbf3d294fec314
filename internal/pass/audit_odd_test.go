package pass

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/tasks"
	"postrider/internal/testserver/smtpsink"
)

// TestAuditOfAFolderNeverScanned: the audit counts as new what the next run registers, and the
// messages from before the start apart.
func TestAuditOfAFolderNeverScanned(t *testing.T) {
	for start, want := range map[inbox.Start]map[Account]int{
		inbox.StartLatest:  {AsNotNoted: 2, AsNew: 1},
		inbox.StartNow:     {AsNotNoted: 3},
		inbox.StartAll:     {AsNew: 3},
		"since:2001-01-01": {AsNew: 3},
	} {
		t.Run(string(start), func(t *testing.T) {
			r := newRig(t, nil)
			r.add(start)
			r.put("INBOX", mails(3)...)
			found, _ := r.audit(AuditOptions{Repair: true})
			wantCounts(t, found.Folders[0], want)
			if !found.Folders[0].NeverScanned || len(r.tasks()) != 0 {
				t.Errorf("never scanned is %v, with %d tasks; want true, and none",
					found.Folders[0].NeverScanned, len(r.tasks()))
			}
			r.run()
			if got := len(r.tasks()); got != want[AsNew] {
				t.Errorf("the next run registered %d messages, want the %d that were new", got, want[AsNew])
			}
		})
	}
}

// forgetting is a queue that does not note the messages from before the start.
type forgetting struct{ tasks.Queue }

func (forgetting) Baseline(context.Context, tasks.Page) error { return errors.New("killed") }

// TestAuditAfterAnInterruptedBaseline: messages from before the start are accounted for, noted or
// not.
func TestAuditAfterAnInterruptedBaseline(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartLatest)
	r.put("INBOX", mails(5)...)
	r.Queue = forgetting{r.queue}
	r.run()
	r.Queue = r.queue
	found, _ := r.audit(AuditOptions{Repair: true})
	wantCounts(t, found.Folders[0], map[Account]int{AsNotNoted: 4, AsForwarded: 1})
	r.run()
	found, _ = r.audit(AuditOptions{})
	wantCounts(t, found.Folders[0], map[Account]int{AsBeforeStart: 4, AsForwarded: 1})
}

// TestAuditReportsStrays: unfinished tasks whose message is gone, or was not found again in a new
// epoch.
func TestAuditReportsStrays(t *testing.T) {
	r := newRig(t, auditReply, auditRules...)
	r.Config.Policy.Hold = true
	r.add(inbox.StartAll)
	r.put("INBOX", letter("later 1"), letter("lost 2"), letter("team 3"), letter("later 4"))
	r.run()
	check(t, r.imap.Expunge(address, "INBOX", 1, 2, 3))
	strays := func() (out []Stray, gone int) {
		found, _ := r.audit(AuditOptions{})
		for _, s := range found.Folders[0].Strays {
			s.TaskID = 0
			out = append(out, s)
		}
		return out, found.Folders[0].Gone
	}
	in := r.stored()
	epoch := uint32(in.Folders[0].UIDValidity)
	got, gone := strays()
	want := []Stray{
		{UIDValidity: epoch, UID: 1, Status: tasks.Error},
		{UIDValidity: epoch, UID: 2, Status: tasks.Uncertain},
	}
	if !slices.Equal(got, want) || gone != 1 {
		t.Errorf("strays are %+v, and %d gone; want %+v, and one", got, gone, want)
	}
	check(t, r.imap.SetUIDValidity(address, "INBOX", 777))
	if got, _ = strays(); len(got) != 0 { // in the epoch that the registry knows
		t.Errorf("strays are %+v, want none while nothing can be proved", got)
	}
	r.clock.advance(time.Hour)
	r.run()
	got, _ = strays()
	if want := []Stray{{UIDValidity: epoch, UID: 2, Status: tasks.Uncertain}}; !slices.Equal(got, want) {
		t.Errorf("in the new epoch strays are %+v, want %+v", got, want)
	}
}

// blind is a server that reports one message as not there.
type blind struct {
	Source
	uid uint32
}

func (s blind) Bodies(ctx context.Context, uids []uint32, each eachMessage) (imapsrc.Result, error) {
	rest := slices.DeleteFunc(slices.Clone(uids), func(uid uint32) bool { return uid == s.uid })
	res, err := s.Source.Bodies(ctx, rest, each)
	if len(rest) < len(uids) {
		res.Vanished = append(res.Vanished, s.uid)
	}
	return res, err
}

func (s blind) UIDs(ctx context.Context, from, to uint32) ([]uint32, error) {
	uids, err := s.Source.UIDs(ctx, from, to)
	return slices.DeleteFunc(uids, func(uid uint32) bool { return uid == s.uid }), err
}

// TestAuditOfAVanishedMessage that is on the server after all: no one has it, so it is no ordinary
// skip.
func TestAuditOfAVanishedMessage(t *testing.T) {
	r := newRig(t, on("rcpt", 1, smtpsink.Action{Code: 451}))
	r.add(inbox.StartAll)
	uid := r.put("INBOX", mails(1)...)[0]
	r.run()
	r.clock.advance(time.Hour)
	restore := r.behind(func(src Source) Source { return blind{src, uid} })
	r.run()
	restore()
	found, _ := r.audit(AuditOptions{Repair: true})
	wantCounts(t, found.Folders[0], map[Account]int{AsReappeared: 1})
	task := r.wantTask(tasks.Skipped, "vanished: ")
	if s := found.Folders[0].Strays; len(s) != 1 || s[0].TaskID != task.ID || s[0].Status != tasks.Skipped {
		t.Errorf("strays are %+v, want the task %d", s, task.ID)
	}
	if sum := (&AuditReport{Inboxes: []InboxAudit{found}}).Sum(); sum.Clean() || !sum.Proved {
		t.Errorf("the sum is %+v, want it proved, and not clean", sum)
	}
	check(t, r.imap.Expunge(address, "INBOX", uid))
	found, _ = r.audit(AuditOptions{})
	wantCounts(t, found.Folders[0], map[Account]int{})
}

// TestAuditWhileAMessageVanishes: a run ends its task after the server has listed it.
func TestAuditWhileAMessageVanishes(t *testing.T) {
	r := newRig(t, on("rcpt", 1, smtpsink.Action{Code: 451}))
	r.add(inbox.StartAll)
	uid := r.put("INBOX", mails(1)...)[0]
	r.run()
	r.clock.advance(time.Hour)
	r.Queue = &between{r.queue, 1, func() {
		r.Queue = r.queue
		check(t, r.imap.Expunge(address, "INBOX", uid))
		r.run()
	}}
	found, _ := r.audit(AuditOptions{})
	wantCounts(t, found.Folders[0], map[Account]int{})
	if f := found.Folders[0]; len(f.Strays) != 0 || f.Gone != 1 {
		t.Errorf("strays are %+v, and %d gone; want none, and one", f.Strays, f.Gone)
	}
}

// going is a server from which another client expunges what is about to be described.
type going struct {
	Source
	r *rig
}

func (g going) Metadata(ctx context.Context, uids []uint32) ([]imapsrc.Meta, error) {
	check(g.r.t, g.r.imap.Expunge(address, "INBOX", uids...))
	return g.Source.Metadata(ctx, uids)
}

// TestAuditOfAMessageThatGoes after it was listed: it is not missing.
func TestAuditOfAMessageThatGoes(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	r.late(3, 2)
	r.behind(func(src Source) Source { return going{src, r} })
	found, _ := r.audit(AuditOptions{})
	wantCounts(t, found.Folders[0], map[Account]int{AsForwarded: 2})
}

// TestAuditOfAnUnwatchedFolder looks only at the tasks that the folder left behind.
func TestAuditOfAnUnwatchedFolder(t *testing.T) {
	var up atomic.Bool
	r := newRig(t, downUntil(&up))
	r.add(inbox.StartAll, "INBOX", "Cases")
	check(t, r.imap.CreateFolder(address, "Cases"))
	uids := r.put("Cases", mails(3)...)
	restore := r.behind(func(src Source) Source { return hiding{src, uids[1]} })
	r.run() // registers two; the relay is at fault
	restore()
	_, err := r.store.Set(t.Context(), address, inbox.Changes{Folders: []string{"INBOX"}})
	check(t, err)
	r.put("Cases", letter("not watched"))
	found, _ := r.audit(AuditOptions{Repair: true})
	if len(found.Folders) != 2 {
		t.Fatalf("the audit looked at %d folders, want 2", len(found.Folders))
	}
	wantCounts(t, found.Folders[0], map[Account]int{AsWaiting: 2})
	up.Store(true)
	r.run()
	found, _ = r.audit(AuditOptions{})
	wantCounts(t, found.Folders[0], map[Account]int{})
	f := found.Folders[0]
	if !f.Unwatched || !maps.Equal(f.GoneAs, map[Account]int{AsForwarded: 2}) || found.Folders[1].Name != "INBOX" {
		t.Errorf("the audit found %+v; want two forwarded tasks of a folder that is not watched any more", *f)
	}
	sum := AuditReport{Inboxes: []InboxAudit{found}}
	const verdict = "Every message is accounted for: 0 on the servers. " +
		"In folders that are no longer watched, and accounted for: 2."
	if got := sum.Verdict(); got != verdict {
		t.Errorf("the verdict is %q, want %q", got, verdict)
	}
}

// acting is Inboxes where something happens before or after the scan lease is taken, or before an
// inbox is read for the nth time.
type acting struct {
	Inboxes
	before, after func()
	n             int
	get           func()
}

func (a *acting) AcquireScan(
	ctx context.Context, inboxID int64, holder string, ttl time.Duration,
) (inbox.Lease, *inbox.Busy, error) {
	if a.before != nil {
		a.before()
	}
	lease, busy, err := a.Inboxes.AcquireScan(ctx, inboxID, holder, ttl)
	if a.after != nil {
		a.after()
	}
	return lease, busy, err
}

func (a *acting) Get(ctx context.Context, address string) (inbox.Inbox, error) {
	if a.n--; a.n == 0 {
		a.get()
	}
	return a.Inboxes.Get(ctx, address)
}

// TestAuditWhileTheCursorMovesOn: a message that a run registers after the audit read the ledger,
// and before it reads the cursor, is not missing.
func TestAuditWhileTheCursorMovesOn(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	r.late(3, 2)
	r.put("INBOX", letter("fresh"))
	store := r.Inboxes
	r.Inboxes = &acting{Inboxes: store, n: 3, get: func() {
		r.Inboxes = store
		r.run()
	}}
	found, _ := r.audit(AuditOptions{})
	wantCounts(t, found.Folders[0], map[Account]int{AsForwarded: 2, AsMissing: 1, AsNew: 1})
	found, _ = r.audit(AuditOptions{})
	wantCounts(t, found.Folders[0], map[Account]int{AsForwarded: 4})
}

// sparse is a folder with the given UIDs, on a server that reports no UIDNEXT. Its ledger knows
// these, all below gone, and one far above them.
type sparse struct {
	Source
	tasks.Queue
	uids   []uint32
	gone   uint32
	last   uint32
	widest uint32
}

func (s *sparse) Select(context.Context, string) (imapsrc.Folder, error) {
	return imapsrc.Folder{UIDValidity: 1}, nil
}

func (s *sparse) HighestUID(context.Context) (uint32, error) { return s.uids[len(s.uids)-1], nil }

func (s *sparse) UIDs(_ context.Context, from, to uint32) ([]uint32, error) {
	i, _ := slices.BinarySearch(s.uids, from)
	j, _ := slices.BinarySearch(s.uids, to+1)
	return s.uids[i:max(i, j)], nil
}

func (s *sparse) Described(context.Context, uint32, uint32) ([]imapsrc.Meta, error) { return nil, nil }

func (s *sparse) Close() error { return nil }

func (s *sparse) Dispositions(_ context.Context, _, _ int64, from, to uint32) (out []tasks.Disposition, err error) {
	s.widest = max(s.widest, to-from+1)
	for uid := from; uid <= min(to, s.gone); uid++ {
		out = append(out, tasks.Disposition{UID: uid, TaskID: int64(uid), Status: tasks.Forwarded})
	}
	uids, _ := s.UIDs(context.Background(), max(from, s.gone+1), to)
	if from <= s.last && s.last <= to {
		uids = append(slices.Clone(uids), s.last)
	}
	for _, uid := range uids {
		out = append(out, tasks.Disposition{UID: uid, TaskID: int64(uid), Status: tasks.Forwarded})
	}
	return out, nil
}

func (s *sparse) Highest(context.Context, int64, int64) (uint32, error) { return s.last, nil }

func (s *sparse) LeftBehind(context.Context, int64, int64, func(int64, tasks.Disposition) error) error {
	return nil
}

// TestAuditInSteps: a folder with few messages far apart, and a ledger that knows many more, are
// compared in bounded steps. Each message counts once.
func TestAuditInSteps(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	in := r.stored()
	uids := []uint32{1, 3_999, 4_000, 4_001, 10_000, 10_001, 99_999, 1_000_000, 50_000_000}
	s := &sparse{uids: uids, gone: 100_000, last: 60_000_000}
	now := r.clock.Now()
	f := &in.Folders[0]
	f.UIDValidity, f.LastSeenUID, f.InitializedAt = 1, s.last, &now
	r.Inboxes = registered{r.store, in}
	r.Dial = func(context.Context, inbox.Inbox) (Source, error) { return s, nil }
	r.Queue = s
	found := r.Audit(t.Context(), []inbox.Inbox{in}, AuditOptions{}).Inboxes[0]
	wantCounts(t, found.Folders[0], map[Account]int{AsForwarded: len(uids)})
	if got := found.Folders[0].Gone; got != 100_000-7+1 {
		t.Errorf("%d are said to be gone, want %d", got, 100_000-7+1)
	}
	if s.widest > maxLedgerStep {
		t.Errorf("the ledger was asked for %d UIDs at once, want at most %d", s.widest, maxLedgerStep)
	}
}

// registered is the inbox as the registry has it.
type registered struct {
	Inboxes
	in inbox.Inbox
}

func (r registered) Get(context.Context, string) (inbox.Inbox, error) { return r.in, nil }

// TestAuditStopped says so, and proves nothing.
func TestAuditStopped(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	r.late(3)
	boxes, err := r.store.Active(t.Context())
	check(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	r.behind(func(src Source) Source { cancel(); return src })
	report := r.Audit(ctx, boxes, AuditOptions{})
	if report.Sum().Proved || !report.Interrupted || !strings.HasPrefix(report.Inboxes[0].Error, "interrupted") {
		t.Errorf("the audit reports %+v; want it to be interrupted, and nothing proved", report)
	}
}
