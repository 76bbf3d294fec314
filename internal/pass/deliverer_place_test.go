package pass

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/tasks"
)

// unread registers a message whose content cannot be read.
func (s *site) unread(subject string) {
	s.t.Helper()
	uid := s.put(subject)[0]
	s.servers[boxA].hook = failAt("fetch", errRefused, uid)
	s.scan(boxA)
	s.servers[boxA].hook = nil
}

// wantOnly checks the one task that there is.
func (s *site) wantOnly(status tasks.Status, skip tasks.SkipReason, reason string) {
	s.t.Helper()
	all := s.tasks()
	if len(all) != 1 {
		s.t.Fatalf("%d tasks are registered, want one", len(all))
	}
	if one := all[0]; one.Status != status || one.Skip != skip || !strings.Contains(one.Reason, reason) {
		s.t.Errorf("the task is %s %s, %q; want %s %s, %q", one.Status, one.Skip, one.Reason, status, skip, reason)
	}
}

// TestUIDOfAnotherMessage: what is there now is not sent in the place of what was registered. That
// the server did so is recorded, and the next scan compares all messages.
func TestUIDOfAnotherMessage(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.registered(boxA, "one", "two")
		s.boxes.busy = &inbox.Busy{Holder: "there:1"}
		s.servers[boxA].change("INBOX", func(f *fakeFolder) { f.mail[1] = fakeMail("another") })
		s.wantNoError(s.run())
		s.want("one skipped 1", "two forwarded 1")
		if one := s.task("one"); one.Skip != tasks.SkipVanished || !slices.Equal(s.boxes.distrusted, []int64{7}) {
			t.Errorf("it was skipped as %q, and the epochs %v are distrusted; want vanished, and epoch 7",
				one.Skip, s.boxes.distrusted)
		}
		s.boxes.busy = nil
		s.wantNoError(s.run())
		s.want("one skipped 1", "two forwarded 1", "another forwarded 1")
		s.wantSent("two", "another")
	})
}

// TestUIDsOfOthers: two messages have changed places. Each task finds its own message again.
func TestUIDsOfOthers(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.registered(boxA, "one", "two")
		s.servers[boxA].change("INBOX", func(f *fakeFolder) { f.mail[1], f.mail[2] = f.mail[2], f.mail[1] })
		s.wantNoError(s.run())
		s.wantSent()
		s.want("one skipped 1", "two skipped 1")
		s.wantNoError(s.run())
		s.want("one forwarded 2", "two forwarded 2")
		s.wantSent("one", "two")
	})
}

// TestUnreadTask: nothing is known of its content, so what is at its UID is its message, while its
// epoch is the folder's.
func TestUnreadTask(t *testing.T) {
	t.Run("in the current epoch", func(t *testing.T) {
		onSite(t, func(t *testing.T, s *site) {
			s.unread("one")
			s.wantNoError(s.run())
			s.wantOnly(tasks.Forwarded, "", "")
		})
	})
	t.Run("a scan compares", func(t *testing.T) {
		onSite(t, func(t *testing.T, s *site) {
			s.unread("one")
			s.boxes.busy = &inbox.Busy{Holder: "there:1"}
			s.boxes.change(func(f *inbox.Folder) { f.UIDValidity = 1<<32 | 7 })
			s.wantNoError(s.run())
			s.wantOnly(tasks.Received, "", "the next scan looks for it")
			s.wantSent()
			if n := s.tasks()[0].Attempts; n != 0 {
				t.Errorf("%d attempts, want none", n)
			}
		})
	})
	t.Run("a scan has compared", func(t *testing.T) {
		onSite(t, func(t *testing.T, s *site) {
			s.unread("one")
			s.boxes.busy = &inbox.Busy{Holder: "there:1"}
			s.boxes.change(func(f *inbox.Folder) { f.UIDValidity, f.Reconciled = 1<<32|7, 1<<32|7 })
			s.wantNoError(s.run())
			s.wantOnly(tasks.Skipped, tasks.SkipVanished, "not found again")
			s.wantSent()
		})
	})
	t.Run("the folder was removed", func(t *testing.T) {
		onSite(t, func(t *testing.T, s *site) {
			s.unread("one")
			s.boxes.busy = &inbox.Busy{Holder: "there:1"}
			s.boxes.rows[0].Folders = nil
			s.wantNoError(s.run())
			s.wantOnly(tasks.Skipped, tasks.SkipVanished, "")
			s.wantSent()
		})
	})
}

// TestUIDValidityChangesWhileAnotherScans: what may still be found again waits for that scan.
func TestUIDValidityChangesWhileAnotherScans(t *testing.T) {
	for name, change := range map[string]func(*inbox.Folder){
		"that has not seen it": func(*inbox.Folder) {},
		"that compares":        func(f *inbox.Folder) { f.UIDValidity = 1<<32 | 8 },
	} {
		t.Run(name, func(t *testing.T) {
			onSite(t, func(t *testing.T, s *site) {
				s.registered(boxA, "one")
				s.boxes.busy = &inbox.Busy{Holder: "there:1"}
				s.boxes.change(change)
				s.servers[boxA].change("INBOX", func(f *fakeFolder) { f.validity = 8 })
				s.wantNoError(s.run())
				s.wantOnly(tasks.Received, "", "its UIDVALIDITY changed")
				if one := s.tasks()[0]; one.Attempts != 0 || !one.VisibleAt.After(time.Now()) {
					t.Errorf("after %d attempts it is due at %s, want 0, and later", one.Attempts, one.VisibleAt)
				}
				wantCounted(t, s.servers[boxA], 2, 3) // the folder is selected again before that is believed
			})
		})
	}
	t.Run("that has compared", func(t *testing.T) {
		onSite(t, func(t *testing.T, s *site) {
			s.registered(boxA, "one")
			s.boxes.busy = &inbox.Busy{Holder: "there:1"}
			s.boxes.change(func(f *inbox.Folder) { f.UIDValidity, f.Reconciled = 1<<32|8, 1<<32|8 })
			s.servers[boxA].change("INBOX", func(f *fakeFolder) { f.validity = 8 })
			s.wantNoError(s.run())
			s.wantOnly(tasks.Skipped, tasks.SkipVanished, "not found again after UIDVALIDITY changed")
		})
	})
}

// TestMovedWhileItWasFetched: another scan found it again meanwhile. It has not vanished, and is
// sent from its new place.
func TestMovedWhileItWasFetched(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.registered(boxA, "one")
		moved := false
		s.queue.hook = func(method string, _ int64) error {
			if method == "Finish" && !moved {
				moved = true
				s.servers[boxA].change("INBOX", func(f *fakeFolder) {
					f.validity, f.next, f.mail = 8, 6, map[uint32][]byte{5: fakeMail("one")}
				})
				s.scan(boxA)
			}
			return nil
		}
		s.servers[boxA].change("INBOX", func(f *fakeFolder) { delete(f.mail, 1) })
		w := s.process().Hold(s.boxes.rows[0])
		check(t, w.deliverer().run(t.Context()))
		w.Close()
		s.want("one forwarded 1")
		s.wantSent("one")
	})
}

// TestLookupsThatFail: nothing ends as vanished while the database cannot say where its folder
// stands.
func TestLookupsThatFail(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.registered(boxA, "one")
		s.boxes.busy = &inbox.Busy{Holder: "there:1"}
		s.servers[boxA].change("INBOX", func(f *fakeFolder) { f.mail[1] = fakeMail("another") })
		s.pass.Inboxes = blindInboxes{s.boxes}
		s.wantError(s.run().Inboxes[0], errAway.Error())
		s.want("one received 0")
	})
}

// blindInboxes cannot be read.
type blindInboxes struct{ *fakeInboxes }

func (blindInboxes) Get(context.Context, string) (inbox.Inbox, error) { return inbox.Inbox{}, errAway }

// TestNewEpochOfManyNewMessages: nothing is claimed before the folder was compared, so the scanner
// waits for no deliverer meanwhile.
func TestNewEpochOfManyNewMessages(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.wantNoError(s.run())
		s.servers[boxA].change("INBOX", func(f *fakeFolder) { f.validity = 8 })
		var subjects []string
		for i := range 20 * s.pass.Config.Page {
			subjects = append(subjects, fmt.Sprint("new ", i))
		}
		s.put(subjects...)
		start := time.Now()
		s.wantNoError(s.run())
		if took := time.Since(start); took >= cachePatience {
			t.Errorf("the pass took %s", took)
		}
		s.wantSent(subjects...)
	})
}
