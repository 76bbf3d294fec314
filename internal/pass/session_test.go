package pass

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
)

// onSession runs a test on a session with a fake server that has three messages.
func onSession(t *testing.T, test func(t *testing.T, ses *session, srv *fakeServer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := newFakeServer(t)
		srv.put("INBOX", "one", "two", "three")
		ses := newSession(srv.dial, slog.New(slog.DiscardHandler))
		test(t, ses, srv)
		ses.close()
		srv.checkNothingLeft("the session")
	})
}

func idleIn(Source, imapsrc.Folder) error { return nil }

func nothing(Source) error { return nil }

func wantCounted(t *testing.T, srv *fakeServer, dials, selects int) {
	t.Helper()
	if d, s := srv.counts(); d != dials || s != selects {
		t.Errorf("%d connections and %d selects, want %d and %d", d, s, dials, selects)
	}
}

func TestSessionOpensAtItsFirstUse(t *testing.T) {
	onSession(t, func(t *testing.T, ses *session, srv *fakeServer) {
		if ses.connected() {
			t.Error("a session that was not used is connected")
		}
		wantCounted(t, srv, 0, 0)
		check(t, ses.within(t.Context(), "INBOX", 7, nothing))
		if !ses.connected() {
			t.Error("a session that was used is not connected")
		}
		ses.close()
		if ses.connected() {
			t.Error("a session that was closed is connected")
		}
	})
}

func TestSessionSelectsOnce(t *testing.T) {
	onSession(t, func(t *testing.T, ses *session, srv *fakeServer) {
		srv.folders["Junk"] = &fakeFolder{validity: 9, next: 1}
		for range 3 {
			check(t, ses.within(t.Context(), "INBOX", 7, nothing))
		}
		wantCounted(t, srv, 1, 1)
		check(t, ses.in(t.Context(), "INBOX", true, idleIn))
		wantCounted(t, srv, 1, 2)
		check(t, ses.within(t.Context(), "Junk", 9, nothing))
		if err := ses.within(t.Context(), "Gone", 9, nothing); !errors.Is(err, errFolder) {
			t.Errorf("a folder that is not there: %v, want %v", err, errFolder)
		}
		check(t, ses.within(t.Context(), "Junk", 9, nothing)) // no longer selected after that
		wantCounted(t, srv, 1, 5)
	})
}

func TestSessionEpoch(t *testing.T) {
	onSession(t, func(t *testing.T, ses *session, srv *fakeServer) {
		err := ses.within(t.Context(), "INBOX", 8, func(Source) error {
			t.Error("the folder of another epoch is used")
			return nil
		})
		if !errors.Is(err, errEpoch) {
			t.Errorf("the error is %v, want %v", err, errEpoch)
		}
		check(t, ses.within(t.Context(), "INBOX", 3<<32|7, nothing)) // the high bits are ours
		srv.change("INBOX", func(f *fakeFolder) { f.validity = 9 })
		check(t, ses.within(t.Context(), "INBOX", 9, nothing)) // it is selected again to find that out
		wantCounted(t, srv, 1, 3)
	})
}

// TestSessionTurns: two use it one after the other, and who waits can be stopped.
func TestSessionTurns(t *testing.T) {
	onSession(t, func(t *testing.T, ses *session, srv *fakeServer) {
		release, first, second := make(chan struct{}), make(chan error, 1), make(chan error, 1)
		go func() {
			first <- ses.within(t.Context(), "INBOX", 7, func(Source) error { <-release; return nil })
		}()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		go func() { second <- ses.within(ctx, "INBOX", 7, nothing) }()
		synctest.Wait()
		if len(second) > 0 {
			t.Fatal("the second did not wait for its turn")
		}
		cancel()
		if err := soon(t, "the second gives up", second); !errors.Is(err, context.Canceled) {
			t.Errorf("the second ends with %v, want %v", err, context.Canceled)
		}
		go func() { second <- ses.within(t.Context(), "INBOX", 7, nothing) }()
		synctest.Wait()
		close(release)
		check(t, soon(t, "the first ends", first))
		check(t, soon(t, "the second ends", second))
		wantCounted(t, srv, 1, 1)
	})
}

// TestSessionReconnects five times at most, in the whole pass.
func TestSessionReconnects(t *testing.T) {
	onSession(t, func(t *testing.T, ses *session, srv *fakeServer) {
		breaks := func() error { return ses.within(t.Context(), "INBOX", 7, func(Source) error { return errNetwork }) }
		if err := ses.retry(t.Context(), breaks); !errors.Is(err, errNetwork) {
			t.Errorf("the error is %v, want %v", err, errNetwork)
		}
		wantCounted(t, srv, 1+maxReconnects, 1+maxReconnects)
		if err := ses.retry(t.Context(), breaks); !errors.Is(err, errNetwork) {
			t.Errorf("the error is %v, want %v", err, errNetwork)
		}
		wantCounted(t, srv, 2+maxReconnects, 2+maxReconnects)
	})
}

// TestSessionStaysBroken: once the server cannot be reached or refuses the login, this pass does
// not try again.
func TestSessionStaysBroken(t *testing.T) {
	for name, fails := range map[string]error{"network": errNetwork, "login": errLogin} {
		t.Run(name, func(t *testing.T) {
			onSession(t, func(t *testing.T, ses *session, srv *fakeServer) {
				srv.hook = failAt("dial", fails)
				for range 3 {
					err := ses.retry(t.Context(), func() error { return ses.within(t.Context(), "INBOX", 7, nothing) })
					if !errors.Is(err, fails) || !lost(err) {
						t.Errorf("the error is %v, want %v, as a lost connection", err, fails)
					}
				}
				wantCounted(t, srv, 1, 0)
			})
		})
	}
}

// TestSessionStoppedWhileConnecting: the other user of the session goes on.
func TestSessionStoppedWhileConnecting(t *testing.T) {
	onSession(t, func(t *testing.T, ses *session, srv *fakeServer) {
		srv.hook = func(ctx context.Context, op string, _ uint32) error {
			if d, _ := srv.counts(); op == "dial" && d == 1 {
				<-ctx.Done()
			}
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- ses.within(ctx, "INBOX", 7, nothing) }()
		synctest.Wait()
		cancel()
		if err := soon(t, "the dial ends", done); !errors.Is(err, context.Canceled) {
			t.Errorf("the error is %v, want %v", err, context.Canceled)
		}
		check(t, ses.within(t.Context(), "INBOX", 7, nothing))
	})
}

var inboxAt7 = &folder{row: inbox.Folder{Name: "INBOX", UIDValidity: 7}}

// TestSessionFindsTheMessageThatBreaksIt, and fetches those beside it.
func TestSessionFindsTheMessageThatBreaksIt(t *testing.T) {
	onSession(t, func(t *testing.T, ses *session, srv *fakeServer) {
		srv.hook = failAt("fetch", errNetwork, 2)
		batch := make([]fetched, 3)
		for i := range batch {
			batch[i].meta.UID = uint32(i + 1)
		}
		check(t, ses.fetchBatch(t.Context(), inboxAt7, batch))
		defer discard(batch)
		for i, want := range []string{"one", "", "three"} {
			if m := batch[i].msg; m == nil && want != "" || m != nil && m.Subject() != want {
				t.Errorf("message %d is %v, want %q", i+1, m, want)
			}
		}
		if !errors.Is(batch[1].err, errNetwork) {
			t.Errorf("message 2 failed with %v, want %v", batch[1].err, errNetwork)
		}
		if !slices.Equal(srv.fetched, []uint32{1, 3}) {
			t.Errorf("fetched were %v, want 1 and 3, once each", srv.fetched)
		}
		wantCounted(t, srv, 3, 3)
	})
}

// TestSessionClosesWhatWasFetchedTwice, and what was not asked for.
func TestSessionClosesWhatWasFetchedTwice(t *testing.T) {
	onSession(t, func(t *testing.T, ses *session, srv *fakeServer) {
		batch := make([]fetched, 1)
		batch[0].meta.UID = 1
		check(t, ses.within(t.Context(), "INBOX", 7, nothing))
		ses.src = doubling{ses.src}
		check(t, ses.fetch(t.Context(), inboxAt7, batch))
		discard(batch)
	})
}

// doubling hands each message over twice, and one that nobody asked for.
type doubling struct{ Source }

func (d doubling) Bodies(ctx context.Context, uids []uint32, each eachMessage) (imapsrc.Result, error) {
	for range 2 {
		if res, err := d.Source.Bodies(ctx, append(uids, 3), each); err != nil {
			return res, err
		}
	}
	return imapsrc.Result{}, nil
}
