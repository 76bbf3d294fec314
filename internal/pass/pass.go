// Package pass is one run over all active inboxes: register what is new, and send what is due.
//
// A scanner, under the scan lease of an inbox, lists the UIDs above each folder's cursor, decides
// who gets each message, and registers a page and moves the cursor in one transaction. A deliverer
// claims tasks that are due, whichever process registered them, and sends them. If another run
// holds the scan lease, only the deliverer works. The two communicate only through the database.
// They share one IMAP session, and a prefetch cache that only saves work.
//
// A failure affects only what it concerns. If a message cannot be fetched, decided, composed or
// signed, an attempt of its task is counted, and later messages are processed. An inbox that cannot
// be read is an error in its row of the report. After two inboxes in a row cannot reach their
// server, the others of that server are skipped with the same error. If the relay fails, forwarding
// stops for this pass; at a limit of the provider, it stops until the limit allows more. In both
// cases claimed tasks are released, and their attempts do not count. If the database fails, the
// inbox's deliverer stops. When the context ends, messages in flight are finished, and the rest is
// released. At its end, a pass that was not interrupted deletes what Retention does not keep, and
// ends the claims that dead workers left in disabled inboxes.
//
// A process that stays up (Stay, and package watch) visits its inboxes again and again over the
// same session, and starts their deliverers when there may be something to claim.
package pass

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"strings"
	"sync"
	"time"

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
	FirstSince(ctx context.Context, to uint32, day time.Time) (uint32, error)
	Described(ctx context.Context, from, to uint32) ([]imapsrc.Meta, error)
	Metadata(ctx context.Context, uids []uint32) ([]imapsrc.Meta, error)
	Bodies(ctx context.Context, uids []uint32, each func(uint32, *message.Message) error) (imapsrc.Result, error)
	Headers(ctx context.Context, uids []uint32, each func(uint32, *message.Message) error) (imapsrc.Result, error)
	// Idles, Idle, Interrupt and Poll are for a process that stays up.
	Idles() bool
	Idle(ctx context.Context, d time.Duration) (arrived bool, err error)
	Interrupt()
	Poll(ctx context.Context, others []string) (arrived bool, state []imapsrc.Folder, err error)
	Close() error
}

// Relay is the SMTP side, see SMTP.
type Relay interface {
	// Begin fails as forward.Relay does. The transaction is never nil.
	Begin(ctx context.Context, env forward.Envelope, c *forward.Content) (Transaction, error)
	Envelope(m *message.Message, via forward.Trace, to []string) forward.Envelope
}

// Transaction is one message on its way to the relay, *forward.Transaction.
type Transaction interface {
	Accepted() []string
	Outcomes() []forward.Outcome
	Rest() []string
	Content() *forward.Content
	Send() ([]forward.Outcome, error)
	Reset()
}

// SMTP is a forward.Relay as a Relay.
type SMTP struct{ *forward.Relay }

// Begin implements Relay.
func (s SMTP) Begin(ctx context.Context, env forward.Envelope, c *forward.Content) (Transaction, error) {
	return s.Relay.Begin(ctx, env, c)
}

// Limits is what is left of the limits of the relay's provider, *limits.Quota. The relay reserves
// with it.
type Limits interface {
	Limited() bool // there is a limit
	Left(ctx context.Context) (n int, why *limits.Reached, err error)
	Renew(ctx context.Context) error
	Flush(ctx context.Context) error
}

// Inboxes is what a pass needs of *inbox.Store.
type Inboxes interface {
	Get(ctx context.Context, address string) (inbox.Inbox, error)
	KeepAudit(ctx context.Context, inboxID int64, a inbox.Audit) error
	ScanLeases
	Cursors
}

// ScanLeases are the leases under which inboxes are scanned.
type ScanLeases interface {
	AcquireScan(ctx context.Context, inboxID int64, holder string, ttl time.Duration) (inbox.Lease, *inbox.Busy, error)
	RenewScan(ctx context.Context, by inbox.Scan, ttl time.Duration) error
	ReleaseScan(ctx context.Context, by inbox.Scan) error
	FinishScan(ctx context.Context, by inbox.Scan, end inbox.ScanEnd) error
}

// Cursors reads and moves the cursors of folders.
type Cursors interface {
	Initialize(ctx context.Context, by inbox.Scan, folderID, epoch int64, startUID uint32) error
	ResetEpoch(ctx context.Context, by inbox.Scan, folderID, oldEpoch, newEpoch int64) error
	Reconciled(ctx context.Context, by inbox.Scan, folderID, epoch int64) error
	// Distrust has the next scan of a folder compare all messages with what is registered.
	Distrust(ctx context.Context, folderID, epoch int64) error
}

// Config is how a pass behaves.
type Config struct {
	Worker      string        // who claims and scans: unique to this run
	Lease       time.Duration // of claims and scans, renewed while they last
	Page        int           // messages registered in one transaction
	Turns       Turns         // how many inboxes are worked on at once
	Senders     int           // messages on their way to the relay at once
	MaxSize     int64         // octets; a larger message is not downloaded: it is skipped, or a notice goes out
	Notices     bool          // a notice of a larger message goes out
	Style       route.Style   // of messages whose routes do not say
	MaxReceived int           // hops: a message that made more is a loop
	Dedupe      tasks.Dedupe
	Policy      tasks.Policy
	Quiet       bool // log failures of inboxes and of the relay at level info: the caller reports them
	Warn        bool // log messages that end dead or uncertain as warnings: nobody reports them
	DryRun      bool // register nothing, send nothing, show Observer.Would what would happen
	Retention   Retention
	Headers     func(in inbox.Inbox) bool // events include the headers of its messages; nil: of none
}

// Observer follows the progress of a pass. Its methods may be called from several goroutines at
// once.
type Observer interface {
	Expect(n int) // n more messages are to be processed
	Done(n int)   // n messages have been processed
	// Would: a dry run found a message to process. t is its task, or the one that it would be
	// registered as. It has neither route nor deliveries if the pass would decide on it first.
	Would(w *Would, t tasks.Task)
}

// Pass is how a pass is done, and with what. All fields except Bounces must be set; an Audit that
// repairs nothing needs no Routes, Composer, Relay and Limits, either.
type Pass struct {
	Config   Config
	Inboxes  Inboxes
	Queue    tasks.Queue
	Routes   *route.Table
	Composer *forward.Composer
	Relay    Relay
	Limits   Limits
	Bounces  Bounces // nil: no messages are read as reports, and nobody is suspended
	Dial     Dial[Source]
	Now      func() time.Time
	Log      *slog.Logger
	Observer Observer
}

// Run works on the boxes and reports on each, in the order given. All errors are in the report.
func (p *Pass) Run(ctx context.Context, boxes []inbox.Inbox) Report {
	start := p.Now()
	report := Report{StartedAt: start.UTC(), Inboxes: make([]InboxReport, len(boxes))}
	work := p.begin(ctx)
	work.hosts = newHosts()
	work.dial = through(work.hosts, p.Dial)
	p.Config.Turns.Each(boxes, func(i int, in inbox.Inbox) { report.Inboxes[i] = work.inbox(ctx, in) })
	work.hosts.report(ctx, p.Log, p.failure())
	work.End()
	report.Interrupted = ctx.Err() != nil // what comes now is not what a pass is for
	p.expire(ctx, boxes, report.Inboxes)
	p.countWaiting(ctx, work.gate, boxes, &report)
	tries, _ := work.gate.tried()
	report.RelayTried = tries > 0
	if fault := work.gate.fault(); fault != nil {
		report.RelayError = fault.Error()
	}
	for _, in := range report.Inboxes {
		report.Totals.add(in.Counters)
	}
	report.DurationMS = p.Now().Sub(start).Milliseconds()
	return report
}

// failure is the log level of errors that the report has, too.
func (p *Pass) failure() slog.Level {
	if p.Config.Quiet {
		return slog.LevelInfo
	}
	return slog.LevelError
}

// revision changes with everything that decides who gets a message. A task with another revision is
// decided again, and takes again the rows that it has to own.
func (p *Pass) revision() string { return p.Routes.Revision() + "/" + string(p.Config.Dedupe) }

// revisionFor is revision for an inbox. Its labels count if a route looks at them.
func (p *Pass) revisionFor(in inbox.Inbox, revision string) string {
	if len(in.Labels) == 0 || !p.Routes.UsesLabels() {
		return revision
	}
	sum := sha256.Sum256([]byte(strings.Join(in.Labels.Texts(), " ")))
	return revision + "/" + hex.EncodeToString(sum[:8]) // 55 octets; the column has 64
}

// tally counts what becomes of one inbox.
type tally struct {
	observer Observer

	mu    sync.Mutex
	sum   InboxReport
	retry map[int64]bool // the tasks that are to be retried
}

func newTally(o Observer, sum InboxReport) *tally {
	return &tally{observer: o, sum: sum, retry: map[int64]bool{}}
}

func (t *tally) report() InboxReport {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sum
}

// change changes the report.
func (t *tally) change(f func(*InboxReport)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(&t.sum)
}

// ended counts a task whose claim ended in s. If a task is claimed several times, only the end of
// the last claim counts.
func (t *tally) ended(id int64, s tasks.Status) {
	t.change(func(r *InboxReport) {
		if s == tasks.Error || s == tasks.Received {
			t.retry[id] = true
		} else {
			delete(t.retry, id)
		}
		r.Counters.Retry = len(t.retry)
		r.Counters.count(s)
	})
	t.observer.Done(1)
}
