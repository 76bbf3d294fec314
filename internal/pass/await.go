package pass

import (
	"context"
	"errors"
	"time"

	"postrider/internal/imapsrc"
)

// Patience is how long Await waits, and how often it polls.
type Patience struct {
	// Idle is how long Await waits at most. Then the next visit is due, which also detects a dead
	// connection.
	Idle time.Duration
	// Poll is how often Await asks a server without IDLE, and any server about the folders that
	// IDLE does not watch.
	Poll time.Duration
}

// Await waits until something may have arrived that the last visit did not see, or until it is time
// for the next visit, or until ctx ends. It leaves the connection open, and gives way to a
// deliverer that needs it. Its error says that the connection is lost.
func (h *Held) Await(ctx context.Context, p Patience) error {
	for end := time.Now().Add(p.Idle); ctx.Err() == nil && time.Now().Before(end); {
		if arrived, err := h.session.await(ctx, time.Until(end), p.Poll); arrived || err != nil {
			return err
		}
	}
	return nil
}

// await is one round of Await, of at most d.
func (s *session) await(ctx context.Context, d, poll time.Duration) (arrived bool, err error) {
	folder, others := s.scanned.watched()
	idles := s.idles(ctx)
	if len(others) > 0 || !idles {
		d = min(d, poll)
	}
	if folder == "" { // nothing was scanned: the inbox was disabled at the last visit
		Sleep(ctx, min(d, poll))
		return ctx.Err() == nil, nil
	}
	if !idles {
		Sleep(ctx, d)
	} else if arrived, err = s.idle(ctx, folder, d); arrived || err != nil {
		return arrived, err
	}
	if ctx.Err() != nil || idles && len(others) == 0 {
		return false, nil
	}
	return s.poll(ctx, folder, others)
}

// idle waits with IDLE, for d at most, or until somebody wants the session.
func (s *session) idle(ctx context.Context, folder string, d time.Duration) (arrived bool, err error) {
	err = s.look(ctx, folder, func(src Source, seen bool) error {
		if !seen {
			arrived = true
			return nil
		}
		if s.isWanted(src) {
			return nil
		}
		arrived, err = src.Idle(ctx, d)
		return err
	})
	return arrived, err
}

// isWanted reports whether somebody wants the session. Anybody who wants it later can end the wait
// in src.
func (s *session) isWanted(src Source) bool {
	wake := src.Interrupt
	s.wake.Store(&wake)
	select {
	case <-s.wanted:
		return true
	default:
		return false
	}
}

// poll asks the server about all folders.
func (s *session) poll(ctx context.Context, folder string, others []string) (arrived bool, err error) {
	err = s.look(ctx, folder, func(src Source, seen bool) error {
		var now []imapsrc.Folder
		arrived, now, err = src.Poll(ctx, others)
		arrived = arrived || !seen
		for _, f := range now {
			arrived = arrived || s.scanned.differs(f.Name, f)
		}
		return err
	})
	return arrived, err
}

// errNotConnected says that there is no connection, and that this call does not open one.
var errNotConnected = errors.New("the connection is lost")

// look calls f with the folder open. seen reports whether the last scan saw all that was in the
// folder when it was opened. Unlike in, look does not connect, and gives way to those who wait.
func (s *session) look(ctx context.Context, folder string, f func(src Source, seen bool) error) error {
	if !s.takeAsLast(ctx) {
		return nil
	}
	defer s.give()
	if failed := s.failed.Load(); s.src == nil && failed != nil {
		return failed
	}
	if s.src == nil {
		return errNotConnected
	}
	return s.inOpen(ctx, folder, false, func(src Source, opened imapsrc.Folder) error {
		return f(src, !s.scanned.differs(folder, opened))
	})
}

// takeAsLast waits for a turn without interrupting anybody. It reports false when ctx has ended.
func (s *session) takeAsLast(ctx context.Context) bool {
	select {
	case <-s.turn:
		return true
	case <-ctx.Done():
		return false
	}
}

// idles reports whether the server can be waited for with IDLE, as far as known.
func (s *session) idles(ctx context.Context) (idles bool) {
	if !s.takeAsLast(ctx) {
		return false
	}
	defer s.give()
	return s.src == nil || s.src.Idles()
}

// Sleep waits for d, or until ctx ends.
func Sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
