package pass

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"postrider/internal/inbox"
	"postrider/internal/tasks"
)

// between has something happen when the ledger is read for the nth time.
type between struct {
	tasks.Queue
	n    int
	then func()
}

func (q *between) Dispositions(
	ctx context.Context, folderID, epoch int64, from, to uint32,
) ([]tasks.Disposition, error) {
	if q.n--; q.n == 0 {
		q.then()
	}
	return q.Queue.Dispositions(ctx, folderID, epoch, from, to)
}

// TestAuditBesideOthers: nothing counts as missing because of what runs and operators do meanwhile.
func TestAuditBesideOthers(t *testing.T) {
	for _, tt := range []struct {
		name  string
		then  func(r *rig, f inbox.Folder)
		want  map[Account]int
		fault string
	}{
		{"a run registers what is new", func(r *rig, _ inbox.Folder) {
			r.put("INBOX", mails(3)...)
			r.run()
		}, map[Account]int{AsBeforeStart: 4, AsForwarded: 1}, ""},
		{"the cursor is moved back", func(r *rig, f inbox.Folder) {
			r.rewind(f)
		}, map[Account]int{AsNew: 4, AsForwarded: 1}, ""},
		{"a message is expunged", func(r *rig, f inbox.Folder) {
			r.rewind(f)
			check(r.t, r.imap.Expunge(address, "INBOX", 1, 2))
		}, map[Account]int{AsNew: 2, AsForwarded: 1}, ""},
		{"a new epoch begins", func(r *rig, f inbox.Folder) {
			r.rewind(f) // so that there is a doubt
			check(r.t, r.imap.SetUIDValidity(address, "INBOX", 777))
			r.run()
		}, nil, "UIDVALIDITY changed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, nil)
			r.add(inbox.StartLatest)
			r.put("INBOX", mails(5)...)
			r.run()
			in := r.stored()
			r.Queue = &between{r.queue, 1, func() {
				r.Queue = r.queue
				tt.then(r, in.Folders[0])
			}}
			found, _ := r.audit(AuditOptions{})
			if tt.fault == "" {
				wantCounts(t, found.Folders[0], tt.want)
			} else if !strings.Contains(found.Folders[0].Error, tt.fault) {
				t.Errorf("the audit found %+v; want an error that says %q", *found.Folders[0], tt.fault)
			}
		})
	}
}

// listing is a server where a run comes in between, when UIDs are listed for the nth time. Before
// that it does not show one message.
type listing struct {
	Source
	late uint32
	n    int
	run  func()
}

func (s *listing) UIDs(ctx context.Context, from, to uint32) ([]uint32, error) {
	if s.n--; s.n == 0 {
		s.run()
	}
	if s.n >= 0 {
		return hiding{s.Source, s.late}.UIDs(ctx, from, to)
	}
	return s.Source.UIDs(ctx, from, to)
}

// TestAuditOfALateMessage that a run registers during the audit: it is neither a stray nor missing.
func TestAuditOfALateMessage(t *testing.T) {
	for _, tt := range []struct {
		name string
		late uint32
		n    int
	}{
		{"not shown when first listed", 2, 1},
		{"not registered when the ledger was first read", 0, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var up atomic.Bool
			r := newRig(t, downUntil(&up))
			r.add(inbox.StartAll)
			r.late(3, 2)
			var restore func()
			restore = r.behind(func(src Source) Source {
				restore()
				return &listing{src, tt.late, tt.n, func() { r.run() }}
			})
			found, _ := r.audit(AuditOptions{})
			wantCounts(t, found.Folders[0], map[Account]int{AsWaiting: 3})
			if len(found.Folders[0].Strays) != 0 {
				t.Errorf("strays are %+v, want none", found.Folders[0].Strays)
			}
		})
	}
}
