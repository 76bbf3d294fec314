// Package pass is one run over all active inboxes: register what is new, and work off what is due, both at once.
//
// For each inbox, under its scan lease, one side reads: it pages through the UIDs
// past each folder's cursor and registers a page and moves the cursor in one transaction. The other side works: it
// claims what is due, new or left over from earlier passes, takes the body from the page just read or fetches it by
// UID, and hands it to as many senders as there are connections to the relay. A page is read while the last one is
// being sent. A run that finds an inbox scanned by another run of its host steps aside; when another host scans it, one run a host
// helps, under a lease of its own: it works off what is due, changes no folder, and takes the scan over once that is free.
//
// Failures stay where they belong: a message's in its task, an inbox's in its row of the report, while the others go
// on. When the relay is at fault, forwarding stops for this pass and what is claimed is released uncounted;
// registering goes on. When a limit of the relay's provider is used up, what is claimed is released uncounted, in its place, and
// nothing is claimed until the limit allows more, for which a pass waits but a moment: that mail waits is no fault. When ctx ends, what is on the wire is finished, the rest is released.
//
// A pass that was not stopped deletes at its end what Retention does not keep. What was seen stays known.
//
// Register is the reading side alone, for when nobody knows who is to get what.
package pass

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"postrider/internal/forward"
	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/limits"
	"postrider/internal/message"
	"postrider/internal/route"
	"postrider/internal/tasks"
)

// Source is the IMAP side of one inbox, *imapsrc.Conn.
type Source interface {
	Select(ctx context.Context, name string) (imapsrc.Folder, error)
	UIDs(ctx context.Context, from, to uint32) ([]uint32, error)
	HighestUID(ctx context.Context) (uint32, error)
	Since(ctx context.Context, from, to uint32, day time.Time) ([]uint32, error)
	Metadata(ctx context.Context, uids []uint32) ([]imapsrc.Meta, error)
	Bodies(ctx context.Context, uids []uint32, each func(uint32, *message.Message) error) (imapsrc.Result, error)
	Headers(ctx context.Context, uids []uint32, each func(uint32, *message.Message) error) (imapsrc.Result, error)
	Close() error
}

// Relay is the SMTP side, *forward.Relay.
type Relay interface {
	Begin(ctx context.Context, env forward.Envelope, c *forward.Content) (*forward.Transaction, error)
	Envelope(m *message.Message, inbox string, to []string) forward.Envelope
}

// Limits is what is left of the limits of the relay's provider, *limits.Quota. Relay reserves with it.
type Limits interface {
	Left(ctx context.Context) (n int, why *limits.Reached, err error)
	Renew(ctx context.Context) error
	Flush(ctx context.Context) error
}

// Inboxes is what a pass needs of *inbox.Store.
type Inboxes interface {
	Get(ctx context.Context, address string) (inbox.Inbox, error)
	AcquireScan(ctx context.Context, inboxID int64, holder string, ttl time.Duration) (token int64, busy *inbox.Busy, err error)
	RenewScan(ctx context.Context, inboxID, token int64, ttl time.Duration) error
	PauseScan(ctx context.Context, inboxID, token int64, pause time.Duration) error
	ReleaseScan(ctx context.Context, inboxID, token int64) error
	FinishScan(ctx context.Context, inboxID, token int64, errText string) error
	Initialize(ctx context.Context, by inbox.Scan, folderID, epoch int64, startUID uint32) error
	ResetEpoch(ctx context.Context, by inbox.Scan, folderID, oldEpoch, newEpoch int64) error
	FolderScanned(ctx context.Context, by inbox.Scan, folderID int64) error
	AcquireHelp(ctx context.Context, h inbox.Help, ttl time.Duration) (bool, error)
	RenewHelp(ctx context.Context, h inbox.Help, ttl time.Duration) error
	ReleaseHelp(ctx context.Context, h inbox.Help) error
}

// Config is how a pass behaves.
type Config struct {
	Host        string        // its name in leases
	Worker      string        // who claims: unique to this run, and begins with Host and a colon
	Lease       time.Duration // of claims and scans, renewed while they last
	Page        int           // messages registered in one transaction
	Inboxes     int           // worked on at once
	PerHost     int           // worked on at once at one IMAP server
	Senders     int           // connections to the relay
	MaxSize     int64         // octets; a larger message is not downloaded: it is skipped, or a notice goes out
	Notices     bool          // a notice of a larger message goes out
	Style       route.Style   // of messages whose routes do not say
	MaxReceived int           // hops: a message that made more is a loop
	Dedupe      tasks.Dedupe
	Policy      tasks.Policy
	DryRun      bool // register nothing, send nothing, tell Observer.Preview what would happen

	Retention Retention
}

// Observer is told how a pass comes along. Its methods may be called from several goroutines at once.
type Observer interface {
	Expect(n int)      // n more messages are to be worked off
	Done(n int)        // n messages have been worked off
	Preview(p Preview) // a dry run found a message that is not registered
	Due(t tasks.Task)  // a dry run found a task that a pass would work off
}

// Pass is how a pass is done, and with what. All fields must be set; Register does without Routes, Composer, Relay and Limits.
type Pass struct {
	Config   Config
	Inboxes  Inboxes
	Queue    tasks.Queue
	Routes   *route.Table
	Composer *forward.Composer
	Relay    Relay
	Limits   Limits
	Dial     func(ctx context.Context, box inbox.Inbox) (Source, error)
	Now      func() time.Time
	Log      *slog.Logger
	Observer Observer
}

// running is a pass at work.
type running struct {
	*Pass
	down   fault // the relay's
	full   full  // the limits of its provider
	hosts  *hosts
	solo   sync.RWMutex // held for writing while a suspect is worked on, with nothing beside it
	leases *leases
	jobs   chan job
}

// Run works on the boxes and reports on each, in the order given. It fails in no other way.
func (p *Pass) Run(ctx context.Context, boxes []inbox.Inbox) Report {
	start := p.Now()
	report := Report{StartedAt: start.UTC(), Inboxes: make([]InboxReport, len(boxes))}
	r := &running{
		Pass: p, leases: newLeases(p.Queue, p.Config.Lease, p.Log), jobs: make(chan job),
		hosts: newHosts(p.Config.PerHost),
	}
	stopLeases := r.leases.keep(context.WithoutCancel(ctx))
	stopLimits := r.keepLimits(ctx)
	var senders sync.WaitGroup
	for range p.Config.Senders {
		senders.Go(func() {
			for j := range r.jobs {
				r.handle(ctx, j)
			}
		})
	}
	r.round(ctx, boxes, &report)
	close(r.jobs)
	senders.Wait()
	stopLeases()
	stopLimits()
	stopped := ctx.Err() // what comes now is not what a pass is for
	r.expire(ctx, boxes, report.Inboxes)
	r.waiting(ctx, boxes, &report)
	report.finish(p.Now().Sub(start), r.down.err(), stopped)
	return report
}

// round works on all inboxes, and then helps with those that other hosts were scanning: never at the cost of one that is free.
func (r *running) round(ctx context.Context, boxes []inbox.Inbox, report *Report) {
	later := make([]bool, len(boxes))
	for _, help := range []bool{false, true} {
		r.each(boxes, func(i int, in inbox.Inbox) {
			if !help || later[i] {
				report.Inboxes[i], later[i] = r.inbox(ctx, in, help)
			}
		})
	}
}

// each calls do for every box, for several at once.
func (p *Pass) each(boxes []inbox.Inbox, do func(i int, in inbox.Inbox)) {
	var group errgroup.Group
	group.SetLimit(p.Config.Inboxes)
	for i, in := range boxes {
		group.Go(func() error {
			do(i, in)
			return nil
		})
	}
	_ = group.Wait()
}

// handle works one claim off, beside others unless it is a suspect: for that one its feeder holds solo.
func (r *running) handle(ctx context.Context, j job) {
	if !j.claim.Alone {
		r.solo.RLock()
		defer r.solo.RUnlock()
	}
	j.done(r.process(ctx, j))
}

// fault remembers that the relay is to blame, and for what.
type fault struct {
	mu    sync.Mutex
	first error
}

// set reports whether err is the first.
func (f *fault) set(err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.first != nil {
		return false
	}
	f.first = err
	return true
}

func (f *fault) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.first
}
