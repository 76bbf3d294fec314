package pass

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"postrider/internal/imapsrc"
)

// maxReconnects is how often one pass connects to one inbox again after its connection broke.
const maxReconnects = 5

// mailbox shares one IMAP connection between the reading and the working side of an inbox, and replaces it when it breaks.
type mailbox struct {
	dial func(ctx context.Context) (Source, error)
	log  *slog.Logger

	mu         sync.Mutex
	src        Source
	folder     imapsrc.Folder // the one selected
	reconnects int
}

func newMailbox(dial func(ctx context.Context) (Source, error), log *slog.Logger) *mailbox {
	return &mailbox{dial: dial, log: log}
}

// in runs f with the connection, the folder selected. A folder that was selected already is not asked for again, unless
// fresh is set. After an error of the connection the next call connects anew.
func (m *mailbox) in(ctx context.Context, folder string, fresh bool, f func(Source, imapsrc.Folder) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.src == nil {
		src, err := m.dial(ctx)
		if err != nil {
			return err
		}
		m.src, m.folder = src, imapsrc.Folder{}
	}
	if fresh || m.folder.Name != folder {
		m.folder = imapsrc.Folder{}
		info, err := m.src.Select(ctx, folder)
		if err != nil {
			return m.broken(err)
		}
		info.Name = folder
		m.folder = info
	}
	return m.broken(f(m.src, m.folder))
}

// broken drops a connection that can no longer be used.
func (m *mailbox) broken(err error) error {
	if lost(err) {
		_ = m.src.Close()
		m.src = nil
		return &brokenError{err}
	}
	return err
}

// brokenError is the end of a connection that had worked before.
type brokenError struct{ error }

func (e *brokenError) Unwrap() error { return e.error }

// again reports whether a call that failed with err is worth repeating on a new connection: the old one worked and
// then broke. A server that cannot be reached at all is left to the next pass.
func (m *mailbox) again(ctx context.Context, err error) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	var broke *brokenError
	if !errors.As(err, &broke) || ctx.Err() != nil || m.reconnects >= maxReconnects {
		return false
	}
	m.reconnects++
	m.log.Warn("the connection to the IMAP server broke; connecting again", "error", err)
	return true
}

func (m *mailbox) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.src != nil {
		_ = m.src.Close()
		m.src = nil
	}
}

// lost reports whether err means that the connection is gone or in an unknown state.
func lost(err error) bool {
	var e *imapsrc.Error
	if !errors.As(err, &e) {
		return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	}
	return e.Kind == imapsrc.KindNetwork || e.Kind == imapsrc.KindProtocol || e.Kind == imapsrc.KindUnavailable
}
