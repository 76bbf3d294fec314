package taskstest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"postrider/internal/message"
	"postrider/internal/tasks"
)

// side is one of the two queues, and what its numbers stand for.
type side struct {
	Fixture
	t    *testing.T
	ctx  context.Context
	salt string // of all that has to be unlike that of other worlds

	inboxes [2]inbox
	folders [3]folder // two of the first inbox, and one of the second
	tasks   []registered
	claims  []tasks.Claim
	offers  []tasks.Task // that were not taken yet

	// Set when all is done by the rules:
	scope     tasks.Dedupe
	delivered map[once]int64 // by which task
	unread    map[int64]bool // tasks that were sent while their content was not known
	broken    string         // what must not be
}

type inbox struct{ id, token int64 }

type folder struct {
	id, epoch int64
	inbox     int
}

type registered struct {
	id      int64
	content int
}

// once is what is delivered once. inbox is 0 when the scope is all of them.
type once struct {
	inbox   int64
	content int
	mailbox string
}

func newSide(ctx context.Context, t *testing.T, f Fixture, salt string) *side {
	t.Helper()
	s := &side{Fixture: f, t: t, ctx: ctx, salt: salt}
	s.makeInbox(0)
	s.makeInbox(1)
	if _, err := f.Queue.ExpireEvents(ctx, -24*time.Hour, 1<<30); err != nil {
		t.Fatal(err)
	}
	return s
}

// makeInbox makes an inbox with its folders, in place of one that was removed.
func (s *side) makeInbox(n int) {
	s.inboxes[n] = inbox{id: s.Inbox(s.t, fmt.Sprintf("%d-%d-%s@example.com", n, s.inboxes[n].id, s.salt))}
	for i, name := range []string{"INBOX", "Junk", "INBOX"} {
		if of := i / 2; of == n {
			s.folders[i] = folder{id: s.Folder(s.t, s.inboxes[n].id, name, epoch), epoch: epoch, inbox: n}
		}
	}
}

// hash is a fingerprint that only this world has. Some contents share their outline.
func (s *side) hash(what string, n int) message.Fingerprint {
	return sha256.Sum256(fmt.Append(nil, s.salt, what, n))
}

func (s *side) said(n int) tasks.Stated { return saidOf(s.hash("outline", n%4)) }

func (s *side) identity(n int) tasks.Identity {
	return tasks.Identity{
		Fingerprint: s.hash("content", n), MessageID: s.messageID(n),
		Subject: fmt.Sprint("content ", n), Size: int64(n),
		Date: time.Date(2026, 2, 1, 0, 0, n, 0, time.UTC),
	}
}

// messageID is unlike another one in its case alone, and some contents share it.
func (s *side) messageID(n int) string {
	return fmt.Sprintf("<%s%d@%s>", []string{"id", "ID"}[n%2], n%4/2, s.salt)
}

// number is the number of a task, -1 when there is none.
func (s *side) number(id int64) int {
	return slices.IndexFunc(s.tasks, func(r registered) bool { return r.id == id })
}

func (s *side) content(id int64) int { return s.tasks[s.number(id)].content }

// name is a task in texts.
func (s *side) name(id int64) string {
	if id == 0 {
		return "-"
	}
	return "#" + strconv.Itoa(s.number(id))
}

var taskID = regexp.MustCompile(`\btask (retry )?(\d+)`)

// words is a text with numbers for ids.
func (s *side) words(text string) string {
	return taskID.ReplaceAllStringFunc(text, func(m string) string {
		i := strings.LastIndexByte(m, ' ') + 1
		id, _ := strconv.ParseInt(m[i:], 10, 64)
		return m[:i] + s.name(id)
	})
}

// failure is an error, by its kind.
func (s *side) failure(err error) string {
	for _, kind := range []error{
		tasks.ErrLeaseLost, tasks.ErrTaken, tasks.ErrSending, tasks.ErrEpochChanged,
		tasks.ErrScanLost, tasks.ErrMoved, tasks.ErrNotFound,
	} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	if err != nil {
		return s.words(err.Error())
	}
	return "done"
}

func (s *side) deliveries(ds []tasks.Delivery) string {
	var out []string
	for _, d := range ds {
		line := fmt.Sprintf("%s %s of %s %d %q %d attempts, delivered %t",
			d.Recipient, d.Status, s.name(d.DuplicateOf), d.Code, d.Reply, d.Attempts, d.DeliveredAt != nil)
		if a := d.Arrival; a != nil {
			line += fmt.Sprintf(", %s %d %q", a.Status, a.Code, a.Reply)
		}
		out = append(out, line)
	}
	return "[" + strings.Join(out, "; ") + "]"
}

// now is the queue's clock.
func (s *side) now() time.Time {
	stats, err := s.Queue.Stats(s.ctx, []int64{s.inboxes[0].id})
	s.must(err)
	return stats[s.inboxes[0].id].Now
}

func (s *side) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// at is a time as it is compared.
func at(t *time.Time, now time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Sub(now).Round(time.Minute).String()
}

// list lists the tasks of both inboxes.
func (s *side) list(f tasks.Filter) (out []tasks.Task) {
	for _, in := range s.inboxes {
		f.Inboxes = []int64{in.id}
		s.must(s.Queue.List(s.ctx, f, func(t tasks.Task) error {
			out = append(out, t)
			return nil
		}))
	}
	return out
}

// tasksNow is a line for each task that there ever was.
func (s *side) tasksNow() []string {
	now := s.now()
	out := make([]string, len(s.tasks))
	for i := range out {
		out[i] = fmt.Sprintf("#%d is gone", i)
	}
	for _, t := range s.list(tasks.Filter{}) {
		out[s.number(t.ID)] = fmt.Sprintf(
			"%s %s %q kept %q in folder %d, epoch %d, UID %d, read %t as %q %x; "+
				"revision %q, route %q, form %v, priority %d; "+
				"in doubt %t, %d attempts, %d lost, worker %q, reason %q; "+
				"visible %s, created %s, queued %s, finished %s; %s",
			s.name(t.ID), t.Status, t.Skip, t.Keep, s.folder(t.FolderID), t.Epoch, t.UID, t.Read, t.Identity.Subject,
			t.Identity.Fingerprint[:2], t.Revision, t.Route, t.Form, t.Priority, t.InDoubt, t.Attempts, t.LostLeases,
			t.Worker, s.words(t.Reason), at(t.VisibleAt, now), at(&t.CreatedAt, now), at(&t.QueuedAt, now),
			at(t.FinishedAt, now), s.deliveries(t.Deliveries))
	}
	return out
}

func (s *side) folder(id int64) int {
	return slices.IndexFunc(s.folders[:], func(f folder) bool { return f.id == id })
}

// everything is all that a queue says.
func (s *side) everything() []string {
	out := s.tasksNow()
	for i, r := range s.tasks {
		events, err := s.Queue.Events(s.ctx, r.id)
		s.must(err)
		for _, e := range events {
			out = append(out, fmt.Sprintf("#%d: %s by %q: %s", i, e.Event, e.Worker, s.words(e.Detail)))
		}
	}
	for i, in := range s.inboxes {
		out = append(out, fmt.Sprintf("inbox %d: %s", i, s.stats(in.id)))
	}
	for i, f := range s.folders {
		for epoch := f.epoch; epoch > f.epoch-3; epoch-- {
			out = append(out, fmt.Sprintf("folder %d, epoch %d: %s", i, epoch, s.accounted(f, epoch)))
		}
	}
	return append(out, s.lists()...)
}

func (s *side) stats(inbox int64) string {
	all, err := s.Queue.Stats(s.ctx, []int64{s.inboxes[0].id, s.inboxes[1].id})
	s.must(err)
	got := all[inbox]
	due, err := s.Queue.DueOf(s.ctx, []int64{inbox})
	s.must(err)
	next, err := s.Queue.Next(s.ctx, tasks.Want{InboxID: inbox, Max: 3})
	s.must(err)
	var ids []string
	for _, id := range next {
		ids = append(ids, s.name(id))
	}
	purged, err := s.Queue.Purged(s.ctx, inbox, 24*time.Hour)
	s.must(err)
	return fmt.Sprint(got.ByStatus, " due ", got.Due, due[inbox], ids, " oldest ", at(got.Oldest, got.Now),
		" ended ", got.Ended, got.Retried, " conflicts ", got.Conflicts, " purged ", purged,
		" bounced ", got.Bounced, got.Bounces, got.Arrivals)
}

// accounted is how the messages of an epoch are accounted for, and what the epoch before left
// behind.
func (s *side) accounted(f folder, epoch int64) string {
	cursor, baseline := s.Cursor(s.t, f.id)
	out := fmt.Sprint("cursor ", cursor, " ", baseline)
	var uids []uint32
	for uid := uint32(1); uid <= maxUID; uid++ {
		uids = append(uids, uid)
	}
	unseen, err := s.Queue.Unseen(s.ctx, f.id, epoch, uids)
	s.must(err)
	unregistered, err := s.Queue.Unregistered(s.ctx, f.id, epoch, uids)
	s.must(err)
	waits, err := s.Queue.Unreconciled(s.ctx, f.id, epoch)
	s.must(err)
	ds, err := s.Queue.Dispositions(s.ctx, f.id, epoch, 1, maxUID)
	s.must(err)
	out += fmt.Sprint(" unseen ", unseen, " unregistered ", unregistered, " unreconciled ", waits)
	for _, d := range ds {
		out += "\n" + s.disposition(d)
	}
	s.must(s.Queue.LeftBehind(s.ctx, f.id, epoch, func(epoch int64, d tasks.Disposition) error {
		out += fmt.Sprintf("\nleft in %d: %s", epoch, s.disposition(d))
		return nil
	}))
	return out
}

func (s *side) disposition(d tasks.Disposition) string {
	return fmt.Sprintf("UID %d %s %s %q purged %t %q visible %t %s",
		d.UID, s.name(d.TaskID), d.Status, d.Skip, d.Purged, s.words(d.Reason), d.VisibleAt != nil,
		s.deliveries(d.Deliveries))
}

// lists are what some filters select.
func (s *side) lists() (out []string) {
	for _, f := range []tasks.Filter{
		{Statuses: []tasks.Status{tasks.Dead, tasks.Skipped}},
		{Route: "desk"},
		{Registered: 7 * time.Minute},
		{Within: 7 * time.Minute},
		{Ended: 7 * time.Minute},
		{Due: true},
		{Bounced: true},
		{Bounced: true, Statuses: []tasks.Status{tasks.Forwarded}, Limit: 2},
		{Limit: 2},
	} {
		line := fmt.Sprintf("listed by %v:", f)
		for _, t := range s.list(f) {
			line += " " + s.name(t.ID)
		}
		out = append(out, line)
	}
	for n := range contents {
		ids, err := s.Queue.SentAs(s.ctx, s.messageID(n), 7*time.Minute)
		s.must(err)
		line := "sent as " + strconv.Itoa(n) + ":"
		for _, id := range ids {
			line += " " + s.name(id)
		}
		out = append(out, line)
	}
	return out
}
