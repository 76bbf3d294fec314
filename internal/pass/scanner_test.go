package pass

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"

	"postrider/internal/route"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/tasks"
)

// onFetch is a hook that is called for each UID whose message is fetched.
func onFetch(f func(ctx context.Context, uid uint32) error) func(context.Context, string, uint32) error {
	return func(ctx context.Context, op string, uid uint32) error {
		if op != "fetch" {
			return nil
		}
		return f(ctx, uid)
	}
}

// once fails with err at the first call for a UID.
func once(uid uint32, err error) func(context.Context, string, uint32) error {
	done := false
	return onFetch(func(_ context.Context, at uint32) error {
		if at != uid || done {
			return nil
		}
		done = true
		return err
	})
}

func (s *site) cursor() uint32 {
	s.t.Helper()
	in, err := s.boxes.Get(context.Background(), boxA)
	check(s.t, err)
	return in.Folders[0].LastSeenUID
}

func (s *site) wantCursor(want uint32) {
	s.t.Helper()
	if got := s.cursor(); got != want {
		s.t.Errorf("the cursor is at %d, want %d", got, want)
	}
}

// TestScanConnectsOnce, selects once and fetches each message once.
func TestScanConnectsOnce(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.put("one", "two", "three", "four", "five")
		s.wantNoError(s.run())
		s.wantSent("one", "two", "three", "four", "five")
		s.want("one forwarded 1", "two forwarded 1", "three forwarded 1", "four forwarded 1", "five forwarded 1")
		s.wantCursor(5)
		wantCounted(t, s.servers[boxA], 1, 1)
		if got := s.servers[boxA].fetched; !slices.Equal(got, []uint32{1, 2, 3, 4, 5}) {
			t.Errorf("fetched were %v, want each message once", got)
		}
	})
}

// TestScanGoesOnBehindABreak: what came before the break is registered, and not fetched again.
func TestScanGoesOnBehindABreak(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.put("one", "two", "three", "four")
		s.servers[boxA].hook = once(2, errNetwork)
		s.wantNoError(s.run())
		s.wantSent("one", "two", "three", "four")
		if got := s.servers[boxA].fetched; !slices.Equal(got, []uint32{1, 2, 3, 4}) {
			t.Errorf("fetched were %v, want each message once", got)
		}
		s.wantDials(2)
	})
}

// TestScanOfBodiesThatComeInAnotherOrder: what came before the break, but behind a message that did
// not come, is closed and fetched again.
func TestScanOfBodiesThatComeInAnotherOrder(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.put("one", "two", "three", "four")
		s.servers[boxA].reverse = true
		s.servers[boxA].hook = once(1, errNetwork)
		s.wantNoError(s.run())
		s.wantSent("one", "two", "three", "four")
	})
}

// TestScanOfAMessageThatBreaksTheConnection: it is registered without its content, those behind it
// go on, and each claim of it counts.
func TestScanOfAMessageThatBreaksTheConnection(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.put("one", "two", "three", "four")
		s.servers[boxA].hook = failAt("fetch", errNetwork, 2)
		s.wantNoError(s.run())
		s.wantSent("one", "three", "four")
		s.want("one forwarded 1", " error 1", "three forwarded 1", "four forwarded 1")
		s.wantCursor(4)
	})
}

func TestScanGivesUpAfterFiveBreaks(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.put("one", "two", "three", "four", "five", "six")
		s.servers[boxA].hook = onFetch(func(_ context.Context, uid uint32) error {
			if uid > 1 {
				return errNetwork
			}
			return nil
		})
		s.pass.Queue = onlyRegisters{s.queue}
		s.wantError(s.run().Inboxes[0], "unexpected EOF")
		s.wantDials(1 + maxReconnects)
		s.wantCursor(3) // 2 and 3 broke it twice each, and the fifth break was that of 4
		s.servers[boxA].hook = nil
		s.pass.Queue = s.queue
		s.wantNoError(s.run())
		s.wantSent("one", "two", "three", "four", "five", "six")
	})
}

// onlyRegisters is a registry in which nothing is due.
type onlyRegisters struct{ tasks.Queue }

func (onlyRegisters) Next(context.Context, tasks.Want) ([]int64, error) { return nil, nil }

// TestScanOfMessagesThatVanish between the listing and the fetch: they are no tasks.
func TestScanOfMessagesThatVanish(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.put("one", "two", "three")
		s.servers[boxA].hook = onFetch(func(_ context.Context, uid uint32) error {
			if uid != 1 {
				s.servers[boxA].change("INBOX", func(f *fakeFolder) { delete(f.mail, uid) })
				return errExpunged
			}
			return nil
		})
		s.wantNoError(s.run())
		s.want("one forwarded 1")
		s.wantCursor(3)
	})
}

// TestScanOfAFolderThatCannotBeSelected: the other folders go on, also when the server ends the
// connection each time.
func TestScanOfAFolderThatCannotBeSelected(t *testing.T) {
	for _, why := range []*imapsrc.Error{errFolder, errNetwork} {
		t.Run(string(why.Kind), func(t *testing.T) {
			onSite(t, func(t *testing.T, s *site) {
				s.put("one")
				in := &s.boxes.rows[0]
				gone := inbox.Folder{
					ID: s.queue.AddFolder(in.ID, "Gone", 0), InboxID: in.ID, Name: "Gone", Active: true,
				}
				in.Folders = append([]inbox.Folder{gone}, in.Folders...)
				s.servers[boxA].missing = why
				s.wantError(s.run().Inboxes[0], why.Err.Error())
				s.wantSent("one")
				if s.boxes.finished[0] == "" {
					t.Error("the scan ended without an error, want the folder's")
				}
				if dials, _ := s.servers[boxA].counts(); dials > 2+maxReconnects {
					t.Errorf("the pass connected %d times, want %d at most", dials, 2+maxReconnects)
				}
			})
		})
	}
}

// TestScanOfAServerThatRefusesTheLogin: it is asked once, by the scanner or by the deliverer, and
// no attempt counts.
func TestScanOfAServerThatRefusesTheLogin(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.registered(boxA, "one", "two", "three")
		before, _ := s.servers[boxA].counts()
		s.servers[boxA].hook = failAt("dial", errLogin)
		s.wantError(s.run().Inboxes[0], "wrong password")
		s.wantDials(before + 1)
		s.want("one received 0", "two received 0", "three received 0")
		s.servers[boxA].hook = nil
		s.wantNoError(s.run())
		s.wantSent("one", "two", "three")
	})
}

// TestDeliversWhileAFetchHangs: what is registered is sent meanwhile.
func TestDeliversWhileAFetchHangs(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.put("one", "two", "three", "four")
		release := make(chan struct{})
		s.servers[boxA].hook = onFetch(func(_ context.Context, uid uint32) error {
			if uid == 4 {
				<-release
			}
			return nil
		})
		done := s.start(t.Context())
		synctest.Wait()
		s.want("one forwarded 1", "two forwarded 1")
		close(release)
		s.wantNoError(s.end(done))
		s.wantSent("one", "two", "three", "four")
	})
}

// TestScanStoppedWhileItFetches: what is registered so far stays, and nothing else is.
func TestScanStoppedWhileItFetches(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.put("one", "two", "three", "four")
		s.servers[boxA].hook = onFetch(func(ctx context.Context, uid uint32) error {
			if uid == 4 {
				<-ctx.Done()
			}
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := s.start(ctx)
		synctest.Wait()
		cancel()
		if rep := s.end(done); !rep.Interrupted || rep.Inboxes[0].Error != "" {
			t.Errorf("the pass reports %+v, want that it was interrupted", rep)
		}
		s.want("one forwarded 1", "two forwarded 1")
		s.wantCursor(2)
		s.servers[boxA].hook = nil
		s.wantNoError(s.run())
		s.wantSent("one", "two", "three", "four")
	})
}

// TestScanLostWhileItFetches: the page is not registered, and what was registered before is sent.
func TestScanLostWhileItFetches(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.put("one", "two", "three", "four")
		s.servers[boxA].hook = onFetch(func(_ context.Context, uid uint32) error {
			if uid == 4 {
				s.boxes.takeOver(s.boxes.rows[0].ID)
			}
			return nil
		})
		rep := s.run()
		s.wantError(rep.Inboxes[0], "another run took over the inbox")
		s.want("one forwarded 1", "two forwarded 1")
		if rep.Totals.Registered != 2 {
			t.Errorf("%d are registered, want 2", rep.Totals.Registered)
		}
	})
}

// TestScanLeaseRunsOut while a fetch hangs: the renewal finds out, and the scan ends.
func TestScanLeaseRunsOut(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.registered(boxA, "due")
		s.put("one")
		s.servers[boxA].hook = onFetch(func(ctx context.Context, uid uint32) error {
			if uid == 2 {
				s.boxes.takeOver(s.boxes.rows[0].ID)
				<-ctx.Done()
			}
			return nil
		})
		s.wantError(s.run().Inboxes[0], "another run took over the inbox")
		s.want("due forwarded 1")
	})
}

// TestScanWithoutTheDatabase: a page that could not be registered does not count, and is not lost.
func TestScanWithoutTheDatabase(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.put("one", "two", "three", "four")
		s.queue.hook = s.queue.away("Register", 1)
		rep := s.run()
		s.wantError(rep.Inboxes[0], errAway.Error())
		if c := rep.Totals; c.Registered != 2 || c.Forwarded != 2 || c.Backlog != 2 {
			t.Errorf("the pass reports %+v, want 2 registered and forwarded, and a backlog of 2", c)
		}
		s.wantCursor(2)
		s.queue.hook = nil
		s.wantNoError(s.run())
		s.wantSent("one", "two", "three", "four")
	})
}

// TestScanFindsLateMessages below the cursor.
func TestScanFindsLateMessages(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.put("one", "late", "three")
		var late []byte
		s.servers[boxA].change("INBOX", func(f *fakeFolder) {
			late = f.mail[2]
			delete(f.mail, 2)
		})
		s.wantNoError(s.run())
		s.servers[boxA].change("INBOX", func(f *fakeFolder) { f.mail[2] = late })
		s.wantNoError(s.run())
		s.wantSent("one", "three", "late")
		s.wantCursor(3)
	})
}

// TestScanOfANewUIDValidity: what is known is found again, and what is not is registered.
func TestScanOfANewUIDValidity(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.put("one")
		s.wantNoError(s.run())
		s.registered(boxA, "two", "gone")
		s.servers[boxA].change("INBOX", func(f *fakeFolder) {
			f.validity, f.next = 8, 4
			f.mail = map[uint32][]byte{1: fakeMail("three"), 2: fakeMail("two"), 3: fakeMail("one")}
		})
		s.scan(boxA)
		s.wantNoError(s.run())
		s.want("one forwarded 1", "two forwarded 1", "gone skipped 1", "three forwarded 1")
		s.wantSent("one", "two", "three")
		if got := s.task("gone").Skip; got != tasks.SkipVanished {
			t.Errorf("the message that is gone was skipped as %q, want %q", got, tasks.SkipVanished)
		}
	})
}

// TestScanOfAFolderThatChangesWhileItIsRead: the next pass goes on.
func TestScanOfAFolderThatChangesWhileItIsRead(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.put("one", "two", "three")
		s.servers[boxA].hook = onFetch(func(_ context.Context, uid uint32) error {
			if uid != 3 || s.servers[boxA].folders["INBOX"].validity == 8 {
				return nil
			}
			s.servers[boxA].change("INBOX", func(f *fakeFolder) { f.validity = 8 })
			return errNetwork
		})
		s.wantError(s.run().Inboxes[0], errEpoch.Error())
		s.want("one forwarded 1", "two forwarded 1")
		s.wantNoError(s.run())
		s.want("one forwarded 1", "two forwarded 1", "three forwarded 1")
		s.wantSent("one", "two", "three")
	})
}

// TestScanStoppedWhileItDecides: what was decided until then is registered, nothing is decided on
// half a message, and the next pass goes on from there.
func TestScanStoppedWhileItDecides(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		ctx, cancel := context.WithCancel(t.Context())
		s.pass.Config.Page = 10
		s.pass.Log = slog.New(slog.NewTextHandler(stopper{"a route could not use", cancel}, nil))
		s.put("one", "bad two", "three", "four")
		if rep := s.end(s.start(ctx)); !rep.Interrupted {
			t.Errorf("the pass reports %+v, want it to be interrupted", rep)
		}
		s.want("one received 0", "bad two received 0")
		s.wantNoError(s.run())
		s.want("one forwarded 1", "bad two forwarded 1", "three forwarded 1", "four forwarded 1")
		s.wantSent("one", "bad two", "three", "four")
	}, route.Rule{Name: "named", Match: subject(`/^bad(?P<who>.*)/`), To: []string{"${who}@firm.example"}},
		route.Rule{Name: "all", To: []string{team}})
}

// stopper ends a context when a line is logged.
type stopper struct {
	line string
	stop func()
}

func (s stopper) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(s.line)) {
		s.stop()
	}
	return len(p), nil
}
