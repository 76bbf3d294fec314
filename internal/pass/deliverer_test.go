package pass

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"postrider/internal/dkim"
	"postrider/internal/forward"
	"postrider/internal/inbox"
	"postrider/internal/message"
	"postrider/internal/route"
	"postrider/internal/tasks"
)

// TestOneMessagesTrouble counts an attempt of its task, and those behind it go on.
func TestOneMessagesTrouble(t *testing.T) {
	t.Run("fetch refused", func(t *testing.T) {
		onSite(t, func(t *testing.T, s *site) {
			s.put("one", "two", "three")
			s.servers[boxA].hook = failAt("fetch", errRefused, 1)
			s.wantNoError(s.run())
			s.want(" error 1", "two forwarded 1", "three forwarded 1")
			s.servers[boxA].hook = nil
			time.Sleep(2 * time.Minute)
			s.wantNoError(s.run())
			s.want("one forwarded 2", "two forwarded 1", "three forwarded 1")
		})
	})
	t.Run("fetch breaks the connection", func(t *testing.T) {
		onSite(t, func(t *testing.T, s *site) {
			s.registered(boxA, "one", "two", "three")
			s.servers[boxA].hook = failAt("fetch", errNetwork, 1)
			s.wantNoError(s.run())
			s.want("one error 1", "two forwarded 1", "three forwarded 1")
		})
	})
	t.Run("expunged", func(t *testing.T) {
		onSite(t, func(t *testing.T, s *site) {
			s.registered(boxA, "one", "two")
			s.servers[boxA].change("INBOX", func(f *fakeFolder) { delete(f.mail, 1) })
			s.wantNoError(s.run())
			s.want("one skipped 1", "two forwarded 1")
			if got := s.task("one").Skip; got != tasks.SkipVanished {
				t.Errorf("it was skipped as %q, want %q", got, tasks.SkipVanished)
			}
		})
	})
	t.Run("compose", func(t *testing.T) {
		onSite(t, func(t *testing.T, s *site) {
			var err error
			s.pass.Composer, err = forward.NewComposer(forward.ComposeConfig{})
			check(t, err)
			s.put("one", "two", "three")
			s.wantNoError(s.run())
			s.want("one error 1", "two forwarded 1", "three forwarded 1")
		}, route.Rule{Name: "one", Match: subject("one"), Mode: route.Rewrite, To: []string{team}},
			route.Rule{Name: "all", To: []string{team}})
	})
	t.Run("sign", func(t *testing.T) {
		key := unusableKey(t)
		onSite(t, func(t *testing.T, s *site) {
			var err error
			s.pass.Composer, err = forward.NewComposer(forward.ComposeConfig{From: "forwarder@firm.example", Key: key})
			check(t, err)
			s.put("one", "two", "three")
			s.wantNoError(s.run())
			s.want("one error 1", "two forwarded 1", "three forwarded 1")
			if got, want := s.task("one").Reason, "sign for "; !strings.Contains(got, want) {
				t.Errorf("the reason of the task is %q, want one with %q", got, want)
			}
		}, route.Rule{Name: "one", Match: subject("one"), Mode: route.Attach, To: []string{team}},
			route.Rule{Name: "all", To: []string{team}})
	})
	t.Run("a panic while it is composed", func(t *testing.T) {
		onSite(t, func(t *testing.T, s *site) { // mode auto without a Judge
			s.put("one", "two", "three")
			s.wantNoError(s.run())
			s.want("one error 1", "two forwarded 1", "three forwarded 1")
			s.wantPanic("one", "compose the message: ")
			s.pass.Config.Policy.MaxAttempts = 2
			time.Sleep(time.Hour)
			s.wantNoError(s.run())
			s.want("one dead 2", "two forwarded 1", "three forwarded 1")
		}, route.Rule{Name: "one", Match: subject("one"), Mode: route.Auto, To: []string{team}},
			route.Rule{Name: "all", To: []string{team}})
	})
	t.Run("a panic while it is decided on", func(t *testing.T) {
		onSite(t, func(t *testing.T, s *site) {
			s.pass.Bounces = panicky{}
			s.put("one", "two", "three")
			s.wantNoError(s.run())
			s.want("one error 1", "two forwarded 1", "three forwarded 1")
			s.wantPanic("one", "decide on the message: ")
			s.pass.Bounces = nil
			time.Sleep(time.Hour)
			s.wantNoError(s.run())
			s.want("one forwarded 2", "two forwarded 1", "three forwarded 1")
		})
	})
	t.Run("refused for good", func(t *testing.T) {
		onSite(t, func(t *testing.T, s *site) {
			s.relay.reply = func(subject, _ string) forward.Status {
				if subject == "one" {
					return forward.Refused
				}
				return ""
			}
			s.put("one", "two", "three")
			s.wantNoError(s.run())
			s.want("one dead 1", "two forwarded 1", "three forwarded 1")
		})
	})
}

// wantPanic checks that a task has a panic as its reason, and that the log has its stack.
func (s *site) wantPanic(subject, doing string) {
	s.t.Helper()
	want := doing + "a bug in this program, please report it: panic: "
	if got := s.task(subject).Reason; !strings.HasPrefix(got, want) {
		s.t.Errorf("the reason of the task is %q, want one that begins with %q", got, want)
	}
	s.wantLog("level=ERROR", want, "stack=", ".go:")
}

// panicky panics when it reads the message with the subject "one".
type panicky struct{}

func (panicky) Of(string) bool                                    { return true }
func (panicky) Review(context.Context) error                      { return nil }
func (panicky) Suspended(context.Context, string) (string, error) { return "", nil }
func (panicky) Read(_ context.Context, m *message.Message, _ bool) (string, bool, error) {
	if m.Subject() == "one" {
		panic("this one")
	}
	return "", false, nil
}

// unusableKey is a DKIM key without a domain, which signs nothing.
func unusableKey(t *testing.T) *dkim.Key {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	check(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	check(t, err)
	file := filepath.Join(t.TempDir(), "key.pem")
	check(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
	key, err := dkim.Load("", "s", file)
	check(t, err)
	return key
}

// TestFolderThatCannotBeRead: its tasks wait, and no attempt counts.
func TestFolderThatCannotBeRead(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.registered(boxA, "one", "two", "three")
		s.boxes.busy = &inbox.Busy{Holder: "there:1"}
		s.servers[boxA].hook = failAt("select", errFolder)
		s.wantError(s.run().Inboxes[0], "NO such folder")
		s.want("one received 0", "two received 0", "three received 0")
		if at := s.task("one").VisibleAt; !at.After(time.Now()) {
			t.Errorf("the task is due at %s, want later", at)
		}
	})
}

// TestRelayAtFault: what is claimed is released, nothing more is claimed, and the scanner goes on
// with a cache that stays within its bounds.
func TestRelayAtFaultWhileScanning(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		// What the scanner fetches at once, what the cache holds, and what is on its way to the
		// relay; 4 KiB each.
		s.servers[boxA].spool.Budget = (2 + 2*2 + 2) * 4 << 10
		s.relay.onBegin = func(context.Context, string) error { return errRelay }
		all := subjects("%d", 1, 12)
		s.put(all...)
		rep := s.run()
		s.wantNoError(rep)
		if rep.RelayError != errRelay.Error() || rep.Totals.Registered != len(all) || rep.Clean() {
			t.Errorf("the pass reports %+v, want %d registered, and the relay's error", rep, len(all))
		}
		for _, one := range s.tasks() {
			if one.Status != tasks.Received || one.Attempts != 0 {
				t.Errorf("%s is %s after %d attempts, want received after 0",
					one.Identity.Subject, one.Status, one.Attempts)
			}
		}
		if n := s.queue.called("Receive"); n > 2 {
			t.Errorf("tasks were claimed %d times, want no more after the relay was at fault", n)
		}
		s.relay.onBegin = nil
		s.wantNoError(s.run())
		s.wantSent(slices.Clone(all)...)
	})
}

// TestCacheIsBoundedBesideASlowRelay: the scanner waits for room, and stops waiting when there is.
func TestCacheIsBoundedBesideASlowRelay(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.servers[boxA].spool.Budget = (2*2 + 2 + 2) * 4 << 10 // cached, waiting for a slot, on the way
		release := make(chan struct{})
		s.relay.onSend = func(string) error { <-release; return nil }
		all := subjects("%d", 1, 12)
		s.put(all...)
		done := s.start(t.Context())
		synctest.Wait()
		if n := len(s.tasks()); n == len(all) {
			t.Error("all messages are registered, want that the scanner waits for room in the cache")
		}
		close(release)
		s.wantNoError(s.end(done))
		s.wantSent(slices.Clone(all)...)
		if n := len(s.servers[boxA].fetched); n != len(all) {
			t.Errorf("%d bodies were fetched for %d messages", n, len(all))
		}
	})
}

// TestNextIsSentWhileAnEndIsRecorded: as many messages as there are slots are sent while the ends
// of as many others are being recorded, and no more.
func TestNextIsSentWhileAnEndIsRecorded(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		record := make(chan struct{})
		s.queue.hook = func(method string, _ int64) error {
			if method == "Finish" {
				<-record
			}
			return nil
		}
		all := subjects("%d", 1, 7)
		s.put(all...)
		done := s.start(t.Context())
		synctest.Wait()
		if n := len(s.relay.subjects()); n != 4 || s.queue.called("Finish") != 2 {
			t.Errorf("%d messages were sent, and %d ends are being recorded; want 4 and 2", n, s.queue.called("Finish"))
		}
		close(record)
		s.wantNoError(s.end(done))
		s.wantSent(all...)
		if s.relay.most > 2 {
			t.Errorf("%d messages were at the relay at once, want at most 2", s.relay.most)
		}
	})
}

// TestRegistersBesideARelayThatHangs: the scanner waits for room for a while, and then goes on
// without.
func TestRegistersBesideARelayThatHangs(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		release := make(chan struct{})
		s.relay.onSend = func(string) error { <-release; return nil }
		all := subjects("%d", 1, 12)
		s.put(all...)
		done := s.start(t.Context())
		time.Sleep(time.Duration(len(all)) * cachePatience) // of the fake clock
		if n := len(s.tasks()); n != len(all) {
			t.Errorf("%d of %d messages are registered while the relay hangs, want all", n, len(all))
		}
		close(release)
		s.wantNoError(s.end(done))
		s.wantSent(slices.Clone(all)...)
	})
}

// TestBodiesOfTasksThatOthersClaim are dropped, and the scanner goes on.
func TestBodiesOfTasksThatOthersClaim(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		in := s.boxes.rows[0].ID
		s.queue.hook = func(method string, _ int64) error {
			if method == "Next" { // the other worker is faster, always
				_, err := s.queue.Queue.Receive(t.Context(), tasks.Want{
					InboxID: in, Max: 100, Lease: time.Hour, Worker: "there:1",
				})
				return err
			}
			return nil
		}
		s.put("a", "b", "c", "d", "e", "f", "g", "h", "i", "j")
		rep := s.run()
		s.wantNoError(rep)
		s.wantSent()
		if rep.Totals.Registered != 10 {
			t.Errorf("%d are registered, want 10", rep.Totals.Registered)
		}
	})
}

// TestDecidedAgain when the rules have changed: who is no longer a recipient gets nothing.
func TestDecidedAgain(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.registered(boxA, "one", "two")
		table, err := route.Compile([]route.Rule{
			{Name: "one", Match: route.Match{Subject: []string{"one"}}, Skip: true},
			{Name: "all", To: []string{"new@firm.example"}},
		})
		check(t, err)
		s.pass.Routes = table
		s.wantNoError(s.run())
		s.want("one skipped 1", "two forwarded 1")
		s.wantSent("two new@firm.example")
	})
}

// TestBusyScanNeedsNoConnection unless a body is needed.
func TestBusyScanNeedsNoConnection(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.boxes.busy = &inbox.Busy{Holder: "there:1"}
		s.put("new")
		rep := s.run()
		s.wantNoError(rep)
		wantCounted(t, s.servers[boxA], 0, 0)
		s.want()
		if rep.Inboxes[0].Busy == "" {
			t.Error("the report does not say that another run scans the inbox")
		}
	})
}

func TestBusyScanDelivers(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.registered(boxA, "one", "two", "three")
		s.boxes.busy = &inbox.Busy{Holder: "there:1"}
		s.put("new")
		s.wantNoError(s.run())
		s.want("one forwarded 1", "two forwarded 1", "three forwarded 1")
		s.wantSent("one", "two", "three")
		wantCounted(t, s.servers[boxA], 2, 2) // the first registered them
	})
}

// TestUnknownOutcomeIsHeld without its body: no connection is needed to settle it.
func TestUnknownOutcomeIsHeld(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.registered(boxA, "one")
		id := s.task("one").ID
		claims, err := s.queue.Receive(t.Context(), tasks.Want{
			InboxID: s.boxes.rows[0].ID, Max: 1, Lease: time.Second, Worker: "dead:1",
		})
		check(t, err)
		check(t, s.queue.Sending(t.Context(), claims[0], tasks.Form{Mode: "redirect"},
			[]tasks.Delivery{{Recipient: team, Status: tasks.Sending}}))
		time.Sleep(time.Minute)
		s.boxes.busy = &inbox.Busy{Holder: "there:1"}
		s.pass.Config.Policy.Hold = true
		s.wantNoError(s.run())
		s.want("one uncertain 2")
		s.wantSent()
		wantCounted(t, s.servers[boxA], 1, 1)
		_, err = s.queue.Requeue(t.Context(), tasks.By{Who: "ann"}, id)
		check(t, err)
		s.pass.Config.Policy.Hold = false
		s.wantNoError(s.run())
		s.wantSent("one")
	})
}
