package cmd

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/config"
	"postrider/internal/inbox"
	"postrider/internal/outbox"
	"postrider/internal/watch"
)

const watchedConfig = `
database: {path: p.db}
smtp: {host: 127.0.0.1, security: none}
forward: {from: forwarder@firm.example}
routes: [{name: all, match: {}, to: [intake@firm.example]}]
events: {%s: {url: "%s", secrets: whsec_QUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJD, allow_internal: true, on: %s}}
`

// watchedApp has a configuration with one destination of events, and a database.
func watchedApp(t *testing.T, url string) (a *app, configure func(destination, kind string), migrate func()) {
	a = &app{in: &bytes.Buffer{}, out: &bytes.Buffer{}, err: &bytes.Buffer{}, env: noEnv}
	a.config = filepath.Join(t.TempDir(), "postrider.yaml")
	configure = func(destination, kind string) {
		text := fmt.Sprintf(watchedConfig, destination, url, kind)
		if err := os.WriteFile(a.config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	migrate = func() {
		if code := a.run(t.Context(), []string{"-c", a.config, "migrate"}); code != exitOK {
			t.Fatalf("migrate ends with %d\n%s", code, a.err)
		}
	}
	return a, configure, migrate
}

// TestImapSettings: an edit that may repair a login has all sessions opened again.
func TestImapSettings(t *testing.T) {
	app := func(o config.OAuth) config.Config { return config.Config{OAuth: map[string]config.OAuth{"app": o}} }
	old := app(config.OAuth{ClientSecret: "old"})
	before := (&services{cfg: &old}).imapSettings()
	for name, tt := range map[string]struct {
		cfg  config.Config
		same bool
	}{
		"the poll":        {config.Config{Watch: config.Watch{Poll: 1}}, true},
		"the proxy":       {config.Config{IMAP: config.IMAP{Proxy: "socks5://proxy.example"}}, false},
		"the key file":    {config.Config{Secrets: config.Secrets{KeyFile: "other.key"}}, false},
		"an application":  {app(config.OAuth{ClientSecret: "old", Tenant: "firm.example"}), false},
		"a client secret": {app(config.OAuth{ClientSecret: "new"}), false},
		"a key":           {app(config.OAuth{ClientSecret: "old", ServiceAccount: "{}"}), false},
	} {
		if tt.cfg.OAuth == nil {
			tt.cfg.OAuth = old.OAuth
		}
		if same := (&services{cfg: &tt.cfg}).imapSettings() == before; same != tt.same {
			t.Errorf("%s has changed, and sessions stay open: %t, want %t", name, same, tt.same)
		}
	}
}

// TestOneConfigurationAtATime: once the configuration is read again, nothing is decided by the old
// one, although that is still busy with a message and an event.
func TestOneConfigurationAtATime(t *testing.T) {
	arrived, answer := make(chan struct{}, 10), make(chan struct{})
	hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-answer
	}))
	t.Cleanup(hook.Close)
	a, configure, migrate := watchedApp(t, hook.URL)
	configure("crm", "inbox_ok")
	migrate()
	l := &watchLoader{app: a, log: slog.New(slog.DiscardHandler)}
	old, err := l.load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := l.last
	desk := inbox.Inbox{Address: "desk@firm.example", Host: "127.0.0.1", Port: 143, Security: "none"}
	in, err := before.services.inboxes.Add(t.Context(), desk, "sesame")
	if err != nil {
		t.Fatal(err)
	}
	happens := func() {
		err := before.services.db.Change(t.Context(), func(tx *gorm.DB, now time.Time) error {
			return outbox.Note(tx, now, []outbox.Occurrence{{Kind: outbox.InboxOK, InboxID: in.ID}})
		})
		if err != nil {
			t.Fatal(err)
		}
		before.services.wakeEvents()
	}
	happens()
	<-arrived
	configure("bus", "dead")
	next, err := l.load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	happens()
	close(answer)
	select {
	case <-before.stopped:
	case <-time.After(20 * time.Second):
		t.Error("the old configuration goes on to publish and to act until it is closed")
	}
	decided := func() (done bool) {
		err := before.services.db.View(t.Context(), func(tx *gorm.DB) error {
			return tx.Raw(`SELECT COUNT(*) = 0 FROM monitored_occurrences`).Scan(&done).Error
		})
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	for !decided() {
		time.Sleep(time.Millisecond)
	}
	events, err := before.services.outbox.List(t.Context(), outbox.Filter{})
	if err != nil || len(events) != 1 {
		t.Errorf("there are %d events, %v; want the one of before: the new configuration wants none of an inbox",
			len(events), err)
	}
	for _, s := range []*watch.Setup{old, next} {
		s.End()
		s.Close()
	}
}

// TestWebChanged: who may use the page is as it was at the start, and the log says so.
func TestWebChanged(t *testing.T) {
	a, configure, migrate := watchedApp(t, "http://127.0.0.1:1")
	configure("crm", "dead")
	migrate()
	page, err := a.openLivePage(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(page.close)
	l := &watchLoader{app: a, page: page, log: slog.New(slog.DiscardHandler)}
	for _, web := range []string{"", "web: {operators: [anna]}\n"} {
		text, err := os.ReadFile(a.config)
		if err := errors.Join(err, os.WriteFile(a.config, append(text, web...), 0o600)); err != nil {
			t.Fatal(err)
		}
		setup, err := l.load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		log := fmt.Sprint(a.err)
		if said := strings.Contains(log, "the section web was changed"); said != (web != "") {
			t.Errorf("with %q the log says that the section was changed: %t\n%s", web, said, log)
		}
		setup.End()
		setup.Close()
	}
}

// TestAnotherDatabaseFile: `watch` ends within a minute when another file is in the place of its
// database, and does not open that beside the log of the old one.
func TestAnotherDatabaseFile(t *testing.T) {
	a, configure, migrate := watchedApp(t, "http://127.0.0.1:1")
	configure("crm", "dead")
	migrate()
	var ended error
	l := &watchLoader{app: a, log: slog.New(slog.DiscardHandler), end: func(why error) { ended = why }}
	setup, err := l.load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if stale, err := setup.Stale(t.Context()); err != nil || stale {
		t.Errorf("before, the setup is stale: %t, %v; want false", stale, err)
	}
	path := filepath.Join(filepath.Dir(a.config), "p.db")
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	migrate()
	if stale, err := setup.Stale(t.Context()); err != nil || !stale {
		t.Errorf("with another file, the setup is stale: %t, %v; want true", stale, err)
	}
	if _, err := l.load(t.Context()); err == nil || ended == nil || !strings.Contains(ended.Error(), "was replaced") {
		t.Errorf("the configuration was read again: %v; the process ends because of %v; "+
			"want that the file was replaced", err, ended)
	}
	setup.End()
	setup.Close()
}
