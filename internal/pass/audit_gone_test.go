package pass

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/tasks"
)

// goneLines are the lines of tasks whose message is not on the server.
func goneLines(lines []Audited) (out []string) {
	for _, m := range lines {
		if m.Gone || m.Unwatched {
			out = append(out, fmt.Sprintf("%s %d/%d %s as %s to %d",
				m.Folder, m.UIDValidity, m.UID, m.Account, m.Status, len(m.To)))
		}
	}
	return out
}

// TestAuditOfOlderEpochs: a message that was finished before UIDVALIDITY changed, and is no longer
// on the server, is accounted for.
func TestAuditOfOlderEpochs(t *testing.T) {
	r := newRig(t, auditReply, auditRules...)
	r.Config.Policy.Hold = true
	r.add(inbox.StartAll)
	uids := r.put("INBOX", letter("team 1"), letter("never 2"), letter("bulk 3"), letter("team 4"),
		letter("lost 5"), letter("team 6"), letter("team 7"))
	r.run()
	_, err := r.queue.Purge(t.Context(), tasks.By{Who: "ann"}, r.tasks()[3].ID)
	check(t, err)
	check(t, r.imap.Expunge(address, "INBOX", uids[:6]...))
	before, _ := r.audit(AuditOptions{})
	check(t, r.imap.SetUIDValidity(address, "INBOX", 777))
	r.run()
	found, lines := r.audit(AuditOptions{})
	f := found.Folders[0]
	wantCounts(t, f, map[Account]int{AsForwarded: 1})
	gone := map[Account]int{AsForwarded: 2, AsDead: 1, AsSkipped: 1, AsPurged: 1}
	if f.Gone != 5 || !maps.Equal(f.GoneAs, gone) {
		t.Errorf("%d are gone, as %v; want 5, as %v", f.Gone, f.GoneAs, gone)
	}
	epoch := before.Folders[0].UIDValidity
	if b := before.Folders[0]; b.Gone != f.Gone || !maps.Equal(b.GoneAs, f.GoneAs) || len(b.Strays) != 1 {
		t.Errorf("before the change the audit found %+v; want the same", *b)
	}
	line := func(uid int, as Account, status tasks.Status, to int) string {
		return fmt.Sprintf("INBOX %d/%d %s as %s to %d", epoch, uid, as, status, to)
	}
	want := []string{
		line(1, AsForwarded, tasks.Forwarded, 2), line(2, AsDead, tasks.Dead, 1),
		line(3, AsSkipped, tasks.Skipped, 0), line(4, AsPurged, tasks.Forwarded, 0),
		line(5, AsUncertain, tasks.Uncertain, 0), line(6, AsForwarded, tasks.Forwarded, 2),
	}
	if got := goneLines(lines); !slices.Equal(got, want) {
		t.Errorf("the audit reports\n%q\nwant\n%q", got, want)
	}
	if sum := (&AuditReport{Inboxes: []InboxAudit{found}}).Sum(); !sum.Clean() || sum.Gone != 5 {
		t.Errorf("the sum is %+v, want it clean, with 5 that are gone", sum)
	}
}

// TestAuditOfWhatAnUnwatchedFolderHad: the audit reports a task that waits for an operator, though
// no run looks at it.
func TestAuditOfWhatAnUnwatchedFolderHad(t *testing.T) {
	r := newRig(t, auditReply, auditRules...)
	r.Config.Policy.Hold = true
	r.add(inbox.StartAll, "INBOX", "Cases", "Empty")
	check(t, r.imap.CreateFolder(address, "Cases"))
	check(t, r.imap.CreateFolder(address, "Empty"))
	r.put("Cases", letter("lost 1"), letter("team 2"))
	r.run()
	_, err := r.store.Set(t.Context(), address, inbox.Changes{Folders: []string{"INBOX"}})
	check(t, err)
	check(t, r.imap.DeleteFolder(address, "Cases"))
	found, lines := r.audit(AuditOptions{})
	if len(found.Folders) != 2 || found.Error != "" {
		t.Fatalf("the audit found %+v; want INBOX and Cases, without an error", found)
	}
	i := slices.IndexFunc(found.Folders, func(f *FolderAudit) bool { return f.Name == "Cases" })
	f := found.Folders[i]
	if !f.Unwatched || f.Gone != 1 || len(f.Strays) != 1 || f.Strays[0].Status != tasks.Uncertain {
		t.Errorf("the audit found %+v; want one forwarded and one uncertain", *f)
	}
	if got := goneLines(lines); len(got) != 2 {
		t.Errorf("the audit reports %q, want both", got)
	}
}

// byHand changes the database as someone would who knows it but not postrider.
func (r *rig) byHand(statement string, args ...any) {
	r.t.Helper()
	pool, err := sql.Open("sqlite", r.db.Path)
	check(r.t, err)
	defer func() { _ = pool.Close() }()
	_, err = pool.ExecContext(r.t.Context(), statement, args...)
	check(r.t, err)
}

func (r *rig) deleteTasks(uids ...uint32) {
	r.t.Helper()
	for _, uid := range uids {
		r.byHand("DELETE FROM monitored_emails_tasks WHERE uid = ?", uid)
	}
}

// TestAuditOfChangedTasks: no run processes a task whose status does not exist, or that waits and
// is never due.
func TestAuditOfChangedTasks(t *testing.T) {
	for change, want := range map[string]string{
		"status = 'processing'": `task 2 (UID 2): it has the status "processing", which does not exist`,
		"status = 'error'":      "task 2 (UID 2): it has the status error and no visible_at",
	} {
		for name, leave := range map[string]func(r *rig){
			"there": func(*rig) {},
			"gone":  func(r *rig) { check(t, r.imap.Expunge(address, "Cases", 2)) },
			"unwatched": func(r *rig) {
				_, err := r.store.Set(t.Context(), address, inbox.Changes{Folders: []string{"INBOX"}})
				check(t, err)
			},
		} {
			t.Run(change+", "+name, func(t *testing.T) {
				r := newRig(t, nil)
				r.add(inbox.StartAll, "INBOX", "Cases")
				check(t, r.imap.CreateFolder(address, "Cases"))
				r.put("Cases", mails(3)...)
				r.run()
				r.byHand("UPDATE monitored_emails_tasks SET " + change + " WHERE uid = 2")
				leave(r)
				found, _ := r.audit(AuditOptions{Repair: true})
				i := slices.IndexFunc(found.Folders, func(f *FolderAudit) bool { return f.Name == "Cases" })
				if i < 0 || !strings.Contains(found.Folders[i].Error, want) {
					t.Fatalf("the audit found %+v, want an error of Cases that says %q", found.Folders, want)
				}
				if sum := (&AuditReport{Inboxes: []InboxAudit{found}}).Sum(); sum.Clean() {
					t.Errorf("the sum is %+v, want it not clean", sum)
				}
			})
		}
	}
}

// TestAuditOfDeletedTasks: no one knows how they ended, so their messages are missing. After a
// repair they are forwarded.
func TestAuditOfDeletedTasks(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	msgs := mails(6)
	r.put("INBOX", msgs...)
	r.run()
	r.deleteTasks(2, 3, 5)
	check(t, r.imap.Expunge(address, "INBOX", 5))
	check(t, r.imap.SetUIDValidity(address, "INBOX", 777))
	r.want(r.run(), Counters{}) // no run sends again by itself what someone may have

	found, lines := r.audit(AuditOptions{})
	f := found.Folders[0]
	wantCounts(t, f, map[Account]int{AsForwarded: 3, AsMissing: 2})
	if f.Missing[0].UID != 2 || f.Missing[0].TaskID != 2 || f.Missing[0].Size == 0 ||
		len(f.Strays) != 1 || f.Strays[0].TaskID != 5 || !f.Strays[0].Lost() {
		t.Errorf("missing are %+v, strays %+v; want the deleted tasks 2 and 3, and 5 among the strays",
			f.Missing, f.Strays)
	}
	if got := goneLines(lines); len(got) != 1 || found.Error != "" {
		t.Errorf("the audit reports %q, error %q; want the one that is not there either", got, found.Error)
	}
	if sum := (&AuditReport{Inboxes: []InboxAudit{found}}).Sum(); sum.Clean() || sum.Lost != 1 || sum.Missing != 2 {
		t.Errorf("the sum is %+v, want it not clean: one lost, two missing", sum)
	}

	found, _ = r.audit(AuditOptions{Repair: true, Who: "ann@host"})
	f = found.Folders[0]
	wantCounts(t, f, map[Account]int{AsForwarded: 3})
	if f.Registered != 2 || f.Forgotten != 1 || len(f.Strays) != 0 || found.Error != "" {
		t.Errorf("the repair found %+v, error %q; want two registered and one forgotten", *f, found.Error)
	}
	events, err := r.queue.Events(t.Context(), 5)
	if err != nil || len(events) != 1 || events[0].Worker != "ann@host" {
		t.Errorf("the trail of the one that is forgotten is %+v, error %v; want who did it", events, err)
	}
	r.Config.Worker = "test:next"
	r.want(r.run(), Counters{Forwarded: 2})
	found, _ = r.audit(AuditOptions{})
	wantCounts(t, found.Folders[0], map[Account]int{AsForwarded: 5})
}

// TestAuditRepairsADeletedTaskAboveTheCursor: after a rewind the next run registers it, and the
// messages before it.
func TestAuditRepairsADeletedTaskAboveTheCursor(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll)
	r.put("INBOX", mails(5)...)
	r.run()
	r.deleteTasks(3)
	in := r.stored()
	r.rewind(in.Folders[0])
	found, _ := r.audit(AuditOptions{Repair: true, Who: "ann"})
	wantCounts(t, found.Folders[0], map[Account]int{AsForwarded: 4, AsNew: 1})
	r.Config.Worker = "test:next"
	r.want(r.run(), Counters{Registered: 1, Forwarded: 1})
}

// TestAuditAfterARewind: messages that are above a cursor that was moved back, and no longer on the
// server, are accounted for, also when no other message is left.
func TestAuditAfterARewind(t *testing.T) {
	r := newRig(t, auditReply, auditRules...)
	r.add(inbox.StartAll)
	uids := r.put("INBOX", letter("team 1"), letter("never 2"))
	r.run()
	check(t, r.imap.Expunge(address, "INBOX", uids...))
	r.rewind(r.stored().Folders[0])
	for range 2 { // the second time after a run that found nothing, and without a UIDNEXT
		found, lines := r.audit(AuditOptions{})
		if f := found.Folders[0]; f.Gone != 2 || len(goneLines(lines)) != 2 {
			t.Errorf("%d are gone, and the lines are %q; want 2", f.Gone, goneLines(lines))
		}
		r.run()
		r.behind(func(src Source) Source { return nextless{src} })
	}
}

// nextless is a server that reports no UIDNEXT.
type nextless struct{ Source }

func (s nextless) Select(ctx context.Context, name string) (imapsrc.Folder, error) {
	info, err := s.Source.Select(ctx, name)
	info.UIDNext = 0
	return info, err
}
