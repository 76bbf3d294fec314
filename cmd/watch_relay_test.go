package cmd

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/inbox"
	"postrider/internal/pass"
	"postrider/internal/testserver/memimap"
	"postrider/internal/testserver/smtpsink"
	"postrider/internal/watch"
)

// watcher is what one of several processes does, one step after the other.
type watcher struct {
	t     *testing.T
	setup *watch.Setup
	*watching
}

// watches begins a process that hands mail to a port of this host.
func watches(t *testing.T, dir string, port int) watcher {
	t.Helper()
	a := &app{in: &bytes.Buffer{}, out: &bytes.Buffer{}, err: &bytes.Buffer{}, env: noEnv}
	a.config = filepath.Join(dir, fmt.Sprintf("%d.yaml", port))
	text := fmt.Sprintf("database: {path: p.db}\nsmtp: {host: 127.0.0.1, port: %d, security: none}\n"+
		"forward: {from: forwarder@firm.example}\nroutes: [{name: all, match: {}, to: [intake@firm.example]}]\n", port)
	if err := os.WriteFile(a.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := a.run(t.Context(), []string{"-c", a.config, "migrate"}); code != exitOK {
		t.Fatalf("migrate ends with %d\n%s", code, a.err)
	}
	l := &watchLoader{app: a, log: slog.New(slog.DiscardHandler)}
	setup, err := l.load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		setup.End()
		setup.Close()
	})
	return watcher{t, setup, l.last}
}

// visits the inbox until the relay was tried.
func (w watcher) visits(in inbox.Inbox) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	held := w.setup.Hold(in, nil)
	defer held.Close()
	for {
		if _, err := held.Visit(ctx); err != nil {
			w.t.Fatal(err)
		}
		if n, _ := w.process.RelayTries(); n > 0 {
			return
		}
	}
}

// awaits that the message waits again, or has ended.
func (w watcher) awaits(in inbox.Inbox, waits bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	for {
		due, err := w.services.queue.DueOf(ctx, []int64{in.ID})
		if err != nil {
			w.t.Fatal(err)
		}
		_, later, err := w.services.queue.NextDue(ctx, []int64{in.ID})
		if err != nil {
			w.t.Fatal(err)
		}
		if due[in.ID] > 0 == waits && !later {
			return
		}
	}
}

// says what is new, and does the chores of a minute.
func (w watcher) says() {
	w.t.Helper()
	if !w.say(w.t.Context(), []pass.InboxReport{{Email: "desk@firm.example", Busy: "not visited since"}}) {
		w.t.Error("it could not be said what is new")
	}
	w.chores(w.t.Context())
}

func (w watcher) wants(step string, fails bool) {
	w.t.Helper()
	var said bool
	err := w.services.db.View(w.t.Context(), func(tx *gorm.DB) error {
		return tx.Raw(`SELECT COUNT(*) FROM monitored_said WHERE subject = 'relay'`).Scan(&said).Error
	})
	n, err2 := w.services.measured(w.t.Context())
	if err != nil || err2 != nil || said != fails || n.RelayUp == nil || *n.RelayUp == fails {
		w.t.Errorf("%s: it was said that the relay fails: %t, %v; it is up: %v, %v; want that it fails: %t",
			step, said, err, n.RelayUp, err2, fails)
	}
}

// deskWithMail is an inbox with one message.
func deskWithMail(t *testing.T) inbox.Inbox {
	t.Helper()
	imap, err := memimap.Start(memimap.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(imap.Close)
	if err := imap.AddUser(deskUser, deskPassword); err != nil {
		t.Fatal(err)
	}
	if _, err := imap.Append(deskUser, "INBOX", []byte("Subject: Hearing\r\n\r\nat noon\r\n")); err != nil {
		t.Fatal(err)
	}
	return inbox.Inbox{
		Address: "desk@firm.example", Username: deskUser,
		Host: "127.0.0.1", Port: imap.Port(), Security: inbox.None,
	}
}

func relayOf(t *testing.T, opts smtpsink.Options) *smtpsink.Server {
	t.Helper()
	relay, err := smtpsink.Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(relay.Close)
	return relay
}

func (w watcher) adds(in inbox.Inbox) inbox.Inbox {
	w.t.Helper()
	in, err := w.services.inboxes.Add(w.t.Context(), in, deskPassword)
	if err != nil {
		w.t.Fatal(err)
	}
	return in
}

// TestWatchesWithOneRelayEach: a process whose relay failed does not say so again once another has
// delivered what waited, and forgets it.
func TestWatchesWithOneRelayEach(t *testing.T) {
	in := deskWithMail(t)
	var relays [2]*smtpsink.Server
	for i := range relays {
		relays[i] = relayOf(t, smtpsink.Options{})
	}
	dir := t.TempDir()
	one, other := watches(t, dir, relays[0].Port()), watches(t, dir, relays[1].Port())
	relays[0].Close()
	in = one.adds(in)
	one.visits(in)
	one.awaits(in, true)
	one.says()
	one.wants("the relay of one is away", true)
	if one.process.RelayFault() == nil {
		t.Error("the fault of the relay is forgotten while a message waits for it")
	}
	other.visits(in)
	other.awaits(in, false)
	other.says()
	other.wants("the relay of the other works", false)
	one.says()
	other.wants("one has nothing new", false)
	if err := one.process.RelayFault(); err != nil {
		t.Errorf("the fault of the relay is %v, want it forgotten: nothing waits", err)
	}
}

// TestWatchRemembersTheRelay: a message that the relay hangs up at counts an attempt, and waits for
// the end of a pause. The fault of the relay is not forgotten before.
func TestWatchRemembersTheRelay(t *testing.T) {
	relay := relayOf(t, smtpsink.Options{Reply: func(e smtpsink.Event) smtpsink.Action {
		if e.Stage == "rcpt" {
			return smtpsink.Action{Code: 421, Text: "4.7.0 bye"}
		}
		return smtpsink.Action{}
	}})
	w := watches(t, t.TempDir(), relay.Port())
	in := w.adds(deskWithMail(t))
	w.visits(in)
	w.says()
	w.wants("the relay hangs up", true)
	if w.process.RelayFault() == nil {
		t.Error("the fault of the relay is forgotten while a message waits for the end of a pause")
	}
}

// TestSaysAgainWhatIsNotRecorded: else nothing says later that it is over.
func TestSaysAgainWhatIsNotRecorded(t *testing.T) {
	relay := relayOf(t, smtpsink.Options{})
	relay.Close()
	w := watches(t, t.TempDir(), relay.Port())
	w.visits(w.adds(deskWithMail(t)))
	renames := func(from, to string) {
		t.Helper()
		rename := func(tx *gorm.DB) error { return tx.Exec("ALTER TABLE " + from + " RENAME TO " + to).Error }
		if err := w.services.db.Tx(t.Context(), rename); err != nil {
			t.Fatal(err)
		}
	}
	renames("monitored_said", "away")
	if w.say(t.Context(), nil) {
		t.Error("say reports that all is said, though that could not be recorded")
	}
	renames("away", "monitored_said")
	w.says()
	w.wants("the relay is away", true)
}
