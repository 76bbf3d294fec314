// Package arrivals reads the messages of the bounce inbox as reports, and records what they say
// with the deliveries that they are about.
//
// Anybody can write a report. With a Signer only a valid token in the reverse-path names the
// delivery, and the report only says what became of it. Without a Signer, the original's Message-ID
// and recipient name the delivery: whoever knows both can forge a bounce of it, and so have its
// recipient suspended. A report about no delivery of ours changes nothing.
//
// Reading a report twice has the same effect as reading it once. A report about an attempt that was
// repeated after a requeue is not recorded: the token tells, except after one requeue in 256.
// Without a Signer only the date does, if it is more than an hour before the requeue. A report is
// read before its message is registered, or when its task is claimed: after a kill in between, the
// next pass reads it again.
//
// A recipient whose mail bounces too often (Config.After, Config.Within) is noted, once. If
// Config.Suspend is set, nothing is sent to it until an operator resumes it.
package arrivals

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"postrider/internal/address"
	"postrider/internal/bounce"
	"postrider/internal/message"
	"postrider/internal/tasks"
)

// Queue is the registry, as far as it is needed here.
type Queue interface {
	Get(ctx context.Context, id int64) (tasks.Task, error)
	tasks.Tracker
}

// Config says what is read, and who is suspended.
type Config struct {
	Inbox   string         // the address of the bounce inbox
	Signer  *bounce.Signer // nil: reports are matched by Message-ID and recipient
	MaxAge  time.Duration  // without a Signer, how long after its registration a message may bounce
	Worker  string         // who records it, for the audit trail
	After   int            // this many bounces of one recipient ...
	Within  time.Duration  // ... within this time are too many
	Suspend bool           // nothing more is sent to it then
}

// Book reads reports, and knows who is suspended. It is safe for concurrent use.
type Book struct {
	cfg   Config
	queue Queue
	store *Store
	log   *slog.Logger
	now   func() time.Time

	suspended atomic.Pointer[remembered] // nil before they were read, and after a change
}

// New is a Book over a registry. now is the clock of this host.
func New(cfg Config, queue Queue, store *Store, log *slog.Logger, now func() time.Time) *Book {
	return &Book{cfg: cfg, queue: queue, store: store, log: log, now: now}
}

// Of reports whether an inbox is the bounce inbox.
func (b *Book) Of(inbox string) bool { return address.Same(inbox, b.cfg.Inbox) }

// Read reads a message of the bounce inbox. It returns what the message says in one line, and false
// when it is no report. Unless dry is set, it records that with the deliveries. The error is that
// of ctx, of the message's spool, or of the registry.
func (b *Book) Read(ctx context.Context, m *message.Message, dry bool) (says string, ok bool, _ error) {
	report, err := bounce.Read(ctx, m)
	switch {
	case err != nil || report.Kind == bounce.Unreadable:
		return "", false, err
	case report.Kind == bounce.AutoReply:
		return "report: an automatic answer, which says nothing about a delivery", true, nil
	}
	about, why, err := b.about(ctx, report)
	if err != nil {
		return "", false, err
	}
	if len(about) == 0 {
		return "report: " + why + nothing(report), true, nil
	}
	if !dry {
		err = b.record(ctx, about)
	}
	return "report: " + sentence(about), true, err
}
