package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/message"
	"postrider/internal/route"
	"postrider/internal/tasks"
)

// fromFile reads a message from a file, or from standard input when the name is -.
func (a *app) fromFile(name string, opts routeOptions) (specimen, error) {
	in := a.in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return specimen{}, usage(fmt.Errorf("read a message: %w", err))
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	spool := (&message.Spooler{Limit: spoolLimit, Budget: spoolBudget}).New()
	if _, err := io.Copy(spool, in); err != nil {
		return specimen{}, errors.Join(usage(fmt.Errorf("read a message from %s: %w", name, err)), spool.Close())
	}
	m, err := message.Parse(spool)
	if err != nil {
		return specimen{}, errors.Join(err, spool.Close())
	}
	return specimen{Mail: route.Mail{
		Inbox: opts.inbox, Folder: opts.folder, Message: m, Size: m.Body.Size(), At: time.Now(),
	}}, nil
}

// fromTask fetches the message of a task from its server.
func (a *app) fromTask(ctx context.Context, id int64) (s specimen, err error) {
	err = a.with(ctx, func(sv *services) error {
		t, err := sv.queue.Get(ctx, id)
		switch {
		case errors.Is(err, tasks.ErrNotFound):
			return noTask(id)
		case err != nil:
			return err
		}
		in, err := sv.inboxes.Get(ctx, t.Inbox)
		if err != nil {
			return err
		}
		m, err := sv.fetch(ctx, in, t)
		if err != nil {
			return fmt.Errorf("fetch the message of task %d: %w", id, err)
		}
		s = specimen{task: t, Mail: route.Mail{Inbox: t.Inbox, Folder: t.Folder, Message: m, Size: m.Body.Size(), At: t.CreatedAt}}
		if m.HeaderOnly {
			s.Size = t.Size
		}
		return nil
	})
	return s, err
}

func (s *services) fetch(ctx context.Context, in inbox.Inbox, t tasks.Task) (m *message.Message, err error) {
	fetch := (*imapsrc.Conn).Bodies
	if limit := int64(s.cfg.Forward.MaxSize); t.Size > limit && notices(s.cfg) {
		fetch = (*imapsrc.Conn).Headers
	} else if t.Size > limit {
		return nil, fmt.Errorf("it has %d octets, and what is larger than forward.max_size (%d) is never downloaded", t.Size, limit)
	}
	conn, err := s.connect(ctx, in)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	info, err := conn.Select(ctx, t.Folder)
	switch {
	case err != nil:
		return nil, err
	case info.UIDValidity != t.UIDValidity():
		return nil, fmt.Errorf("the UIDVALIDITY of folder %q has changed since; `postrider run --inbox %s` finds its messages again", t.Folder, in.Address)
	}
	found, err := fetch(conn, ctx, []uint32{t.UID}, func(_ uint32, one *message.Message) error {
		m = one
		return nil
	})
	switch {
	case m != nil:
		return m, nil
	case err != nil:
		return nil, err
	case found.Failed[t.UID] != nil:
		return nil, found.Failed[t.UID]
	}
	return nil, fmt.Errorf("it is not in folder %q any more", t.Folder)
}
