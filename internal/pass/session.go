package pass

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"postrider/internal/imapsrc"
)

// maxReconnects is how often one pass connects to one inbox again after its connection broke.
const maxReconnects = 5

// session is one IMAP connection of one inbox, opened at its first use and again when it breaks.
// Its users take turns, in no particular order. If it cannot be opened, all of them get that error:
// a server that refuses a login may block clients that keep trying.
type session struct {
	dial func(ctx context.Context) (Source, error)
	log  *slog.Logger

	failed atomic.Pointer[dialError] // why it is not opened again before the next begin
	turn   chan struct{}             // holds one element while the fields below are free
	wanted chan struct{}             // has an element when somebody may wait for a turn
	wake   atomic.Pointer[func()]    // ends the wait for mail; nil before the first one

	src        Source
	folder     imapsrc.Folder // the one selected
	reconnects int
	scanned    *scanned
}

func newSession(dial func(ctx context.Context) (Source, error), log *slog.Logger) *session {
	s := &session{
		dial: dial, log: log, turn: make(chan struct{}, 1), wanted: make(chan struct{}, 1),
		scanned: &scanned{folders: map[string]imapsrc.Folder{}},
	}
	s.turn <- struct{}{}
	return s
}

// begin is called before a process that stays up visits the inbox again: it forgets the errors of
// earlier visits. The connection stays.
func (s *session) begin(ctx context.Context, dial func(ctx context.Context) (Source, error)) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	defer s.give()
	s.dial, s.reconnects = dial, 0
	s.failed.Store(nil)
	return nil
}

// take waits for the caller's turn. Whoever waits for mail in the session gives way.
func (s *session) take(ctx context.Context) error {
	select {
	case <-s.turn:
		return nil
	default:
	}
	for {
		select {
		case s.wanted <- struct{}{}:
		default:
		}
		if wake := s.wake.Load(); wake != nil {
			(*wake)()
		}
		select {
		case <-s.turn:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(askAgain): // whoever waits for mail may have heard it, and got the turn again
		}
	}
}

// askAgain is how often the turn is asked for.
const askAgain = 100 * time.Millisecond

func (s *session) give() { s.turn <- struct{}{} }

// in runs f with the connection, the folder selected. A folder that is selected already is not
// selected again, unless fresh is set. After an error of the connection the next call connects
// again.
func (s *session) in(ctx context.Context, folder string, fresh bool, f func(Source, imapsrc.Folder) error) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	defer s.give()
	if err := s.open(ctx); err != nil {
		return err
	}
	return s.inOpen(ctx, folder, fresh, f)
}

// inOpen is in for a caller that has the turn and a connection.
func (s *session) inOpen(ctx context.Context, folder string, fresh bool, f func(Source, imapsrc.Folder) error) error {
	if fresh || s.folder.Name != folder {
		s.folder = imapsrc.Folder{}
		info, err := s.src.Select(ctx, folder)
		if err != nil {
			return s.broken(err)
		}
		info.Name = folder
		s.folder = info
	}
	return s.broken(f(s.src, s.folder))
}

// open connects unless there is a connection.
func (s *session) open(ctx context.Context) error {
	if s.src != nil {
		return nil
	}
	if failed := s.failed.Load(); failed != nil {
		return failed
	}
	src, err := s.dial(ctx)
	if err != nil {
		failed := &dialError{err}
		if ctx.Err() == nil {
			s.failed.Store(failed)
		}
		return failed
	}
	s.src, s.folder = src, imapsrc.Folder{}
	return nil
}

// dialError is a connection that could not be opened, or that the server ended for a reason for
// which it is not opened again at once.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

// errEpoch is a folder whose UIDVALIDITY changed while the pass was at work.
var errEpoch = errors.New("its UIDVALIDITY changed during the pass; the next pass goes on")

// within is in, but fails with errEpoch if UIDVALIDITY is not the one that the caller knows.
func (s *session) within(ctx context.Context, folder string, epoch int64, f func(Source) error) error {
	other := fmt.Errorf("folder %q: %w", folder, errEpoch)
	try := func(src Source, info imapsrc.Folder) error {
		if info.UIDValidity != uint32(epoch) {
			return other
		}
		return f(src)
	}
	err := s.in(ctx, folder, false, try)
	if errors.Is(err, other) { // another run may have seen a later UIDVALIDITY than this connection
		err = s.in(ctx, folder, true, try)
	}
	return err
}

// broken drops a connection that can no longer be used. One that the server ended because of a
// limit, a lock or the login is not opened again before the next begin.
func (s *session) broken(err error) error {
	if !lost(err) {
		return err
	}
	_ = s.src.Close()
	s.src = nil
	if e := new(imapsrc.Error); errors.As(err, &e) && !mayPass(e.Kind) {
		failed := &dialError{err}
		s.failed.Store(failed)
		return failed
	}
	return &brokenError{err}
}

// brokenError is the end of a connection that had worked before.
type brokenError struct{ error }

func (e *brokenError) Unwrap() error { return e.error }

// again reports whether a call that failed with err is worth repeating on a new connection: the old
// one worked and then broke. A server that cannot be reached at all is left to the next pass.
func (s *session) again(ctx context.Context, err error) bool {
	var broke *brokenError
	if !errors.As(err, &broke) || s.take(ctx) != nil {
		return false
	}
	defer s.give()
	if ctx.Err() != nil || s.reconnects >= maxReconnects {
		return false
	}
	s.reconnects++
	s.log.Warn("the IMAP connection was closed; connecting again", "error", err)
	return true
}

// retry runs fn again on a new connection when the old one broke.
func (s *session) retry(ctx context.Context, fn func() error) error {
	for {
		err := fn()
		if err == nil || !s.again(ctx, err) {
			return err
		}
	}
}

// reopen runs f with the folder selected again, and again on a new connection when that broke.
func (s *session) reopen(ctx context.Context, folder string, f func(Source, imapsrc.Folder) error) error {
	return s.retry(ctx, func() error { return s.in(ctx, folder, true, f) })
}

// unreachable reports whether the session could not be opened. It waits for nobody's turn.
func (s *session) unreachable() bool { return s.failed.Load() != nil }

// connected reports whether there is a connection.
func (s *session) connected() bool {
	_ = s.take(context.Background()) // fails only with its context
	defer s.give()
	return s.src != nil
}

func (s *session) close() {
	_ = s.take(context.Background()) // fails only with its context
	defer s.give()
	if s.src != nil {
		_ = s.src.Close()
		s.src = nil
	}
}

// lost reports whether err means that there is no connection, or one in an unknown state.
func lost(err error) bool {
	if errors.As(err, new(*dialError)) {
		return true
	}
	var e *imapsrc.Error
	if !errors.As(err, &e) {
		return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	}
	return e.Ended || mayPass(e.Kind)
}

// mayPass reports whether a lost connection of this kind may work when it is opened again at once.
func mayPass(kind imapsrc.Kind) bool {
	return kind == imapsrc.KindNetwork || kind == imapsrc.KindProtocol || kind == imapsrc.KindUnavailable
}
