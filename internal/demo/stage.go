package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"postrider/internal/db"
	"postrider/internal/inbox"
	"postrider/internal/tasks"
	"postrider/internal/tasks/sqlqueue"
	"postrider/internal/testserver/memimap"
)

// stage holds the servers, files and database of a running demo.
type stage struct {
	opts    Options
	dir     string // of all files
	config  string
	imap    *memimap.Server
	relay   *relay
	db      *db.DB
	inboxes *inbox.Store
	queue   *sqlqueue.Queue
	faults  []string
}

// configText is the configuration file; the port is the relay's. With one connection, exactly one
// message is being sent when pass 1 is killed. The lease is short, because pass 2 waits until it
// has expired, but long enough for slow machines.
const configText = `database: {driver: sqlite, path: postrider.db}
smtp: {host: 127.0.0.1, port: %d, security: none, connections: 1, local_name: demo.kt.example}
imap: {proxy: direct}
forward: {from: "Forwarder <forwarder@kt.example>", uncertain: retry}
retry: {base: 1s, max: 1s}
concurrency: {lease: 3s}
secrets: {key_file: postrider.key}
routes:
  - {name: court, match: {from: "*@lg.example", subject: LADUNG}, to: [intake@kt.example], priority: high}
  - {name: contracts, match: {subject: 合同}, to: [contracts@kt.example, tanaka@kt.example]}
  - {name: deadlines, match: {subject: 期限}, to: [deadlines@kt.example]}
  - {name: scans, match: {has_attachment: true}, to: [records@kt.example]}
  - {name: tickets, match: {subject: '/ticket #\d+/'}, to: [support@kt.example]}
  - {name: olsen, match: {recipient: h.olsen@kt.example}, to: [h.olsen@kt.example]}
`

func (s *stage) open(ctx context.Context) (err error) {
	if s.dir, err = os.MkdirTemp("", "postrider-demo-"); err != nil {
		return fmt.Errorf("create a directory for the demo: %w", err)
	}
	if s.relay, err = startRelay(); err != nil {
		return err
	}
	s.config = filepath.Join(s.dir, "postrider.yaml")
	if err := os.WriteFile(s.config, fmt.Appendf(nil, configText, s.relay.Port()), 0o600); err != nil {
		return fmt.Errorf("write the configuration of the demo: %w", err)
	}
	if s.db, err = db.Open(ctx, db.Config{Driver: db.SQLite, Path: filepath.Join(s.dir, "postrider.db")}); err != nil {
		return err
	}
	s.inboxes = inbox.New(s.db, inbox.OpenSealer(filepath.Join(s.dir, "postrider.key")))
	s.queue = sqlqueue.New(s.db)
	return s.fill(ctx)
}

// fill puts the samples on the IMAP server, and adds the inbox to the database.
func (s *stage) fill(ctx context.Context) (err error) {
	if s.imap, err = memimap.Start(memimap.Options{}); err != nil {
		return err
	}
	password := rand.Text()
	if err := s.imap.AddUser(deskInbox, password); err != nil {
		return err
	}
	for _, l := range samples() {
		if _, err := s.imap.Append(deskInbox, "INBOX", l.raw()); err != nil {
			return err
		}
	}
	_, err = s.inboxes.Add(ctx, inbox.Inbox{
		Address: deskInbox, Host: "127.0.0.1", Port: s.imap.Port(), Security: inbox.None, Start: inbox.StartAll,
	}, password)
	return err
}

// close stops the servers and removes all files.
func (s *stage) close() error {
	var errs []error
	if s.imap != nil {
		s.imap.Close()
	}
	if s.relay != nil {
		s.relay.Close()
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	if s.dir != "" {
		if err := os.RemoveAll(s.dir); err != nil {
			errs = append(errs, fmt.Errorf("remove the demo's files: %w; delete %s", err, s.dir))
		}
	}
	return errors.Join(errs...)
}

// registry returns all tasks, oldest first.
func (s *stage) registry(ctx context.Context) (all []tasks.Task, err error) {
	err = s.queue.List(ctx, tasks.Filter{}, func(t tasks.Task) error {
		all = append(all, t)
		return nil
	})
	return all, err
}

// due waits until all tasks in this state are visible.
func (s *stage) due(ctx context.Context, state tasks.Status) error {
	return until(ctx, func() (bool, error) {
		registry, err := s.registry(ctx)
		for _, t := range registry {
			if t.Status == state && t.VisibleAt != nil && t.VisibleAt.After(time.Now()) {
				return false, err
			}
		}
		return true, err
	})
}

// rewind moves the cursor back to the beginning.
func (s *stage) rewind(ctx context.Context) error {
	in, err := s.inboxes.Get(ctx, deskInbox)
	if err != nil {
		return err
	}
	_, err = s.inboxes.UnderScan(ctx, in.ID, "demo", func(by inbox.Scan) error {
		for _, f := range in.Folders {
			if err := s.inboxes.Rewind(ctx, by, f, 0, "demo", "to show that nothing is sent twice"); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// until calls done repeatedly until it returns true or an error.
func until(ctx context.Context, done func() (bool, error)) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
