package cmd

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"

	"postrider/internal/forward"
	"postrider/internal/inbox"
	"postrider/internal/notify"
	"postrider/internal/outbox"
	"postrider/internal/pass"
	"postrider/internal/said"
	"postrider/internal/tasks"
	"postrider/internal/text"
	"postrider/internal/watch"
)

// watchLoader reads the configuration for `watch`, each time it changes.
type watchLoader struct {
	app   *app
	log   *slog.Logger
	dials *watch.Dials    // connections that are being opened outlive a configuration
	page  *livePage       // nil without --listen
	end   func(why error) // ends the process
	last  *watching
}

// load reads the configuration. When another file is in the place of the SQLite file, it ends the
// process: if that were opened while the old one is open, SQLite would apply the log of the old one
// to it.
func (l *watchLoader) load(ctx context.Context) (_ *watch.Setup, err error) {
	if l.last != nil {
		if err := l.last.services.db.Replaced(); err != nil {
			l.end(err)
			return nil, err
		}
	}
	if l.page != nil {
		defer func() { l.page.read(err) }()
	}
	l.app.secrets.ForgetAll()
	s, err := l.app.open(ctx, checkTextFile)
	if err != nil {
		return nil, err
	}
	s.heard.unwatched = true
	setup, err := l.setup(ctx, s)
	if err != nil {
		s.close()
		return nil, err
	}
	return setup, nil
}

// watching is what one configuration leads to.
type watching struct {
	app      *app
	services *services
	relay    *forward.Relay
	pass     *pass.Pass
	process  *pass.Process
	said     int // attempts at the relay already reported by say
	measured int // already counted by measure
	notices  *notify.Notifier
	people   string // the directory, as the routes know it
	endPage  func()

	events      *outbox.Dispatcher
	closeEvents func()

	stop    func()        // ends what follow began
	stopped chan struct{} // closed when that has ended
}

func (l *watchLoader) setup(ctx context.Context, s *services) (*watch.Setup, error) {
	w := &watching{app: l.app, services: s, endPage: func() {}}
	err := s.db.FileWritable()
	if err != nil {
		return nil, err
	}
	if w.people, err = s.directory(ctx); err != nil {
		return nil, err
	}
	if _, err := s.inboxes.Active(ctx); err != nil { // else errors of the database come later
		return nil, err
	}
	if w.relay, err = s.relay(); err != nil {
		return nil, err
	}
	if w.pass, err = s.pass(ctx, w.relay, silent{}, false); err != nil {
		return nil, err
	}
	w.pass.Config.Quiet, w.pass.Config.Warn = true, true // say reports inboxes and the relay, but no messages
	w.notices = l.app.notifier(s, w.pass.Composer, w.relay)
	if l.dials == nil {
		l.dials = watch.NewDials(s.cfg.Concurrency.Inboxes, s.cfg.Concurrency.PerHost)
	}
	w.pass.Dial = l.dials.Through(w.pass.Dial)
	if w.events, w.closeEvents, err = s.dispatcher(); err != nil {
		return nil, err
	}
	if l.page == nil {
		return l.begin(ctx, w), nil
	}
	page, done, err := s.page(l.page.access, l.page.isBroken)
	if err != nil {
		w.closeEvents()
		return nil, err
	}
	if !reflect.DeepEqual(s.cfg.Web, l.page.config) {
		s.log.Warn("the section web was changed; that takes effect when the process starts again")
	}
	hide := l.page.show(page)
	w.endPage = func() {
		hide()
		done()
	}
	return l.begin(ctx, w), nil
}

func (l *watchLoader) begin(ctx context.Context, w *watching) *watch.Setup {
	s := w.services
	if err := s.db.Exposed(); err != nil && s.news(ctx, "exposed") {
		s.log.Warn("other users can read the database", "error", err)
	}
	stop := context.AfterFunc(ctx, s.db.StopWaiting) // else a database that is gone outlasts a signal
	l.dials.Limit(s.cfg.Concurrency.Inboxes, s.cfg.Concurrency.PerHost)
	var last *pass.Process
	before := make(chan struct{})
	if l.last == nil {
		close(before)
	} else {
		l.last.stop()
		last, before = l.last.process, l.last.stopped
	}
	w.process = w.pass.Stay(ctx, watch.RelayAgain, last)
	w.follow(ctx, before)
	l.last = w
	return &watch.Setup{
		Patience: pass.Patience{Idle: s.cfg.Watch.Idle, Poll: s.cfg.Watch.Poll},
		Inboxes:  s.inboxes.Active,
		Hold:     watch.Over(w.process), Tasks: s.queue, Logins: s.imapSettings(),
		Stale: w.stale, Chores: w.chores, Say: w.say, RelayFault: w.process.RelayFault,
		End: w.process.End,
		Close: func() {
			w.measure(ctx)
			w.stop()
			<-w.stopped
			stop()
			w.endPage()
			_ = w.relay.Close()
			s.close()
		},
	}
}

// follow publishes events and carries out actions until stop is called. It begins when before is
// closed: then nothing does that by the configuration before any more.
func (w *watching) follow(ctx context.Context, before <-chan struct{}) {
	ctx, w.stop = context.WithCancel(ctx)
	w.stopped = make(chan struct{})
	go func() {
		defer close(w.stopped)
		<-before
		endEvents, endActions := w.services.publish(ctx, w.events, w.closeEvents), w.services.actOn(ctx)
		<-ctx.Done()
		endActions()
		endEvents(false)
	}()
}

// stale reports whether another file is in the place of the database, or the directory has changed,
// if the routes use it.
func (w *watching) stale(ctx context.Context) (bool, error) {
	if w.services.db.Replaced() != nil {
		return true, nil
	}
	now, err := w.services.directory(ctx)
	return err == nil && now != w.people, err
}

// chores are what a pass does before and after its work.
func (w *watching) chores(ctx context.Context) {
	s := w.services
	boxes, err := s.inboxes.Active(ctx)
	if err != nil {
		return // that is logged elsewhere
	}
	s.repairTimes(ctx, boxes)
	w.forgetRelay(ctx, boxes)
	s.report(ctx, w.notices, w.process.RelayFault() == nil)
	w.measure(ctx)
	w.pass.Tidy(ctx, boxes)
	s.tidyEvents(ctx)
}

// forgetRelay forgets a fault of the relay when nothing waits, not even for the end of a pause or
// of a claim: another process has delivered what waited, or an operator has ended it.
func (w *watching) forgetRelay(ctx context.Context, boxes []inbox.Inbox) {
	if w.process.RelayFault() == nil {
		return
	}
	ids := inbox.IDs(boxes)
	if _, later, err := w.services.queue.NextDue(ctx, ids); err != nil || later {
		return
	}
	if due, err := w.services.queue.DueOf(ctx, ids); err == nil && len(due) == 0 {
		w.process.ForgetRelayFault()
	}
}

// say prints what has changed, as passes under cron do. Like them it says of the relay only what it
// has learned since. A database that cannot be asked is logged elsewhere, and then nothing is said.
func (w *watching) say(ctx context.Context, inboxes []pass.InboxReport) bool {
	s := w.services
	alerts, err := s.alertsAfter(ctx, inbox.Selection{})
	if err != nil {
		return false
	}
	active, err := s.inboxes.Active(ctx)
	if err != nil {
		return false
	}
	report, tries := w.relaySince(w.said)
	report.Inboxes = s.withBounces(ctx, inboxes, active, true)
	lines, err := said.New(s.db, s.cfg.Report.Remind).Meanwhile(ctx, report, alerts)
	for _, l := range lines {
		if l.Sentence != "" {
			s.log.Warn(l.Sentence)
			continue
		}
		_ = w.app.sayLine(ctx, s, l) // fails when the database does
	}
	if err != nil { // what was said is not recorded: it is said again, or else nothing says that it is over
		return false
	}
	w.said = tries
	return true
}

// measure records what was measured since it was called last.
func (w *watching) measure(ctx context.Context) {
	report, tries := w.relaySince(w.measured)
	w.measured = tries
	w.services.meter.Working(relayTook(report))
	w.services.keepMeasures(ctx)
}

// relaySince is what was learned of the relay by the attempts after that many.
func (w *watching) relaySince(before int) (r pass.Report, tries int) {
	tries, fault := w.process.RelayTries()
	r.RelayTried = tries > before
	if fault != nil {
		r.RelayError = text.Error(fault)
	}
	return r, tries
}

// imapSettings is what all sessions are opened with, besides what is stored with each inbox.
func (s *services) imapSettings() string {
	c := s.cfg.IMAP
	all := fmt.Append(nil, string(c.Proxy), "\n", c.CAFile, "\n", c.IdleTimeout, c.DialTimeout,
		s.cfg.Forward.MaxSize, s.cfg.Secrets, s.cfg.OAuth)
	for _, name := range slices.Sorted(maps.Keys(s.cfg.OAuth)) { // what fmt hides
		app := s.cfg.OAuth[name]
		all = fmt.Appendf(all, "%q", []string{string(app.ClientSecret), string(app.ServiceAccount)})
	}
	return fmt.Sprintf("%x", sha256.Sum256(all))
}

// directory differs when the contacts do that routes look at.
func (s *services) directory(ctx context.Context) (string, error) {
	if !s.cfg.Table.UsesContacts() {
		return "", nil
	}
	all, err := s.people.List(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, all))), nil
}

// silent is an observer that shows nothing.
type silent struct{}

func (silent) Expect(int)                    {}
func (silent) Done(int)                      {}
func (silent) Would(*pass.Would, tasks.Task) {}
