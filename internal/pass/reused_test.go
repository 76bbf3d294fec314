package pass

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/route"
	"postrider/internal/tasks"
)

// restored puts a backup with the first messages in the place of what boxA's INBOX has, and then
// these messages under the UIDs from there on. Their date and size differ from those that had the
// UIDs as is asked for.
func (s *site) restored(keep uint32, date, size bool, subjects ...string) {
	s.t.Helper()
	srv := s.servers[boxA]
	srv.change("INBOX", func(f *fakeFolder) {
		f.shift, f.sizes = map[uint32]time.Duration{}, map[uint32]int64{}
		for uid := keep + 1; uid < f.next; uid++ {
			if !size {
				f.sizes[uid] = int64(len(f.mail[uid]))
			}
			delete(f.mail, uid)
		}
		f.next = keep + 1
	})
	for _, uid := range srv.put("INBOX", subjects...) {
		if date {
			srv.change("INBOX", func(f *fakeFolder) { f.shift[uid] = 24 * time.Hour })
		}
	}
}

func subjects(format string, from, to int) (out []string) {
	for i := from; i <= to; i++ {
		out = append(out, fmt.Sprintf(format, i))
	}
	return out
}

// audit audits boxA.
func (s *site) audit(opts AuditOptions) InboxAudit {
	s.t.Helper()
	in, err := s.boxes.Get(s.t.Context(), boxA)
	check(s.t, err)
	return s.pass.Audit(s.t.Context(), []inbox.Inbox{in}, opts).Inboxes[0]
}

func (s *site) wantProof(proof bool, part string) {
	s.t.Helper()
	found := s.audit(AuditOptions{})
	if err := found.Folders[0].Error; (err == "") != proof || !strings.Contains(err, part) || found.Error != "" {
		s.t.Errorf("the audit found the error %q; want proof: %t, and %q", err, proof, part)
	}
}

func (s *site) epoch() int64 {
	s.t.Helper()
	in, err := s.boxes.Get(context.Background(), boxA)
	check(s.t, err)
	return in.Folders[0].UIDValidity
}

// TestRestoredBackup: the server gives out UIDs a second time, and its UIDNEXT is at the cursor or
// above it. All new messages go out, and none twice. The audit sees it before that.
func TestRestoredBackup(t *testing.T) {
	for _, tt := range []struct {
		name       string
		date, size bool
		last       int // of the new ones, of which 11 is the first
	}{
		{"another date and size", true, true, 25},
		{"another date", true, false, 25},
		{"another size", false, true, 25},
		{"up to the cursor", true, true, 20},
		{"far above the cursor", true, true, 400},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onSite(t, func(t *testing.T, s *site) {
				s.pass.Config.Page = 50
				old, fresh := subjects("old %d", 1, 20), subjects("a fresh one %d", 11, tt.last)
				s.put(old...)
				s.wantNoError(s.run())
				s.wantProof(true, "")
				s.restored(10, tt.date, tt.size, fresh...)
				s.wantProof(false, "now has a different message than the registered one")
				s.wantNoError(s.run())
				s.wantSent(slices.Concat(old, fresh)...)
				s.wantLog("the server gave the UID of a message to another one")
				s.wantProof(true, "")
				s.wantNoError(s.run())
				s.wantSent(slices.Concat(old, fresh)...)
				if s.epoch()>>32 != 1 {
					t.Errorf("the folder has begun %d new epochs, want one", s.epoch()>>32)
				}
			})
		})
	}
}

// TestRestoredBackupAndKilled: the database goes away after the pass saw that. The next pass goes
// on.
func TestRestoredBackupAndKilled(t *testing.T) {
	for registered := range 3 {
		t.Run(fmt.Sprint("after page ", registered), func(t *testing.T) {
			onSite(t, func(t *testing.T, s *site) {
				old, fresh := subjects("old %d", 1, 6), subjects("a fresh one %d", 4, 9)
				s.put(old...)
				s.wantNoError(s.run())
				s.restored(3, true, true, fresh...)
				s.queue.hook = s.queue.away("Register", s.queue.called("Register")+registered)
				s.wantError(s.run().Inboxes[0], errAway.Error())
				s.queue.hook = nil
				s.wantNoError(s.run())
				s.wantSent(slices.Concat(old, fresh)...)
			})
		})
	}
}

// TestRestoredBackupWhileTasksWait: none of the new messages goes to the recipients of the old
// ones. Each is decided by itself, and the trail of the old tasks says what became of them.
func TestRestoredBackupWhileTasksWait(t *testing.T) {
	rules := []route.Rule{
		{Name: "old", Match: route.Match{Subject: []string{"old"}}, To: []string{"old@firm.example"}},
		{Name: "new", Match: route.Match{Subject: []string{"fresh"}}, To: []string{"new@firm.example"}},
	}
	for name, change := range map[string]func(s *site){
		"this run scans":    func(*site) {},
		"another run scans": func(s *site) { s.boxes.busy = &inbox.Busy{Holder: "there:1"} },
	} {
		t.Run(name, func(t *testing.T) {
			onSite(t, func(t *testing.T, s *site) {
				s.registered(boxA, subjects("old %d", 1, 8)...)
				s.restored(3, true, true, subjects("a fresh one %d", 4, 9)...)
				change(s)
				s.wantNoError(s.run())
				s.boxes.busy = nil
				for range 2 {
					time.Sleep(2 * time.Minute)
					s.wantNoError(s.run())
				}
				old := subjects("old %d old@firm.example", 1, 3)
				fresh := subjects("a fresh one %d new@firm.example", 4, 9)
				s.wantSent(slices.Concat(old, fresh)...)
				for _, one := range s.tasks() {
					kind, _, _ := strings.Cut(one.Identity.Subject, " ")
					to := map[string]string{"old": "old@firm.example", "a": "new@firm.example"}[kind]
					if len(one.Deliveries) != 1 || one.Deliveries[0].Recipient != to {
						t.Errorf("%s has the deliveries %+v, want one to %s", one.Identity.Subject, one.Deliveries, to)
					}
					if kind != "old" || one.UID <= 3 {
						continue
					}
					events, err := s.queue.Events(t.Context(), one.ID)
					check(t, err)
					if one.Skip != tasks.SkipVanished || !slices.ContainsFunc(events, func(e tasks.Event) bool {
						return e.Event == "skipped" && strings.Contains(e.Detail, "the server gave ")
					}) {
						t.Errorf("%s is skipped as %q, and its trail is %+v; "+
							"want it vanished, and a line that says why", one.Identity.Subject, one.Skip, events)
					}
				}
			}, rules...)
		})
	}
}

// TestServerCorrectsItself: a server that states another size or date for messages that are the
// same begins no new epoch. Their contents are compared once, and a few in one pass.
func TestServerCorrectsItself(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.put(subjects("%d", 1, 8)...)
		s.wantNoError(s.run())
		srv := s.servers[boxA]
		srv.change("INBOX", func(f *fakeFolder) {
			f.sizes, f.shift = map[uint32]int64{1: 7, 2: 77, 8: 777}, map[uint32]time.Duration{}
			for uid := range uint32(8) {
				f.shift[uid+1] = time.Hour
			}
		})
		s.wantProof(true, "")
		srv.fetched = nil
		for range 3 {
			s.wantNoError(s.run())
		}
		if want := []uint32{4, 5, 6, 7, 8, 1, 2, 3}; !slices.Equal(srv.fetched, want) {
			t.Errorf("the contents of %v were read, want %v", srv.fetched, want)
		}
		s.wantProof(true, "")
		if s.epoch() != 7 || len(s.tasks()) != 8 {
			t.Errorf("the folder is in epoch %d and has %d tasks; want 7, and 8", s.epoch(), len(s.tasks()))
		}
	})
}

// TestServerThatNeverStatesTheSame: it costs a few contents in each pass, and begins no new epoch.
func TestServerThatNeverStatesTheSame(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.put(subjects("%d", 1, 8)...)
		s.wantNoError(s.run())
		srv := s.servers[boxA]
		for n := range 5 {
			srv.change("INBOX", func(f *fakeFolder) {
				f.shift = map[uint32]time.Duration{}
				for uid := range uint32(8) {
					f.shift[uid+1] = time.Duration(n+1) * time.Minute
				}
			})
			srv.fetched = nil
			s.wantNoError(s.run())
			if len(srv.fetched) != maxDoubts {
				t.Errorf("%d contents were read, want %d", len(srv.fetched), maxDoubts)
			}
		}
		if s.epoch() != 7 || len(s.tasks()) != 8 {
			t.Errorf("the folder is in epoch %d and has %d tasks; want 7, and 8", s.epoch(), len(s.tasks()))
		}
	})
}

// TestDoubtfulMessageThatCannotBeRead: it decides nothing, and blocks nothing.
func TestDoubtfulMessageThatCannotBeRead(t *testing.T) {
	for name, trouble := range map[string]error{"refused": errRefused, "breaks the connection": errNetwork} {
		t.Run(name, func(t *testing.T) {
			onSite(t, func(t *testing.T, s *site) {
				s.put(subjects("%d", 1, 6)...)
				s.wantNoError(s.run())
				srv := s.servers[boxA]
				srv.change("INBOX", func(f *fakeFolder) {
					f.sizes = map[uint32]int64{}
					for uid := range uint32(6) {
						f.sizes[uid+1] = 7
					}
				})
				srv.hook = failAt("fetch", trouble, 1, 2, 3, 4, 5, 6)
				s.put("new")
				s.wantNoError(s.run())
				s.wantSent(append(subjects("%d", 1, 6), "new")...)
				if s.epoch() != 7 {
					t.Errorf("the folder is in epoch %d, want 7", s.epoch())
				}
			})
		})
	}
}

// TestReusedBelowTheWindow: the audit sees it, and its repair has the next run compare all
// messages.
func TestReusedBelowTheWindow(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.pass.Config.Page = 50
		old := subjects("old %d", 1, 250)
		s.put(old...)
		s.wantNoError(s.run())
		s.servers[boxA].change("INBOX", func(f *fakeFolder) { f.mail[9] = fakeMail("a fresh one") })
		s.wantNoError(s.run())
		s.wantSent(old...)
		for range 2 {
			s.wantProof(false, "UID 9 now has a different message than the registered one")
		}
		got := s.audit(AuditOptions{Repair: true}).Folders[0].Error
		if !strings.Contains(got, "the next run does that") {
			t.Errorf("the audit that repairs reports %q, want that the next run compares all", got)
		}
		s.wantNoError(s.run())
		s.wantSent(slices.Concat(old, []string{"a fresh one"})...)
		s.wantProof(true, "")
	})
}

// TestFolderReplacedByAnother that has the same UIDVALIDITY, as with servers that use the time for
// it: its messages are others.
func TestFolderReplacedByAnother(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.put("one", "two")
		s.wantNoError(s.run())
		s.servers[boxA].change("INBOX", func(f *fakeFolder) {
			f.next = 4
			f.mail = map[uint32][]byte{
				1: fakeMail("the first"), 2: fakeMail("the second"), 3: fakeMail("the third"),
			}
		})
		s.wantNoError(s.run())
		s.wantSent("one", "two", "the first", "the second", "the third")
	})
}

// TestUIDNEXTTooLow: the server says that there is nothing new.
func TestUIDNEXTTooLow(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.put("one", "two")
		s.wantNoError(s.run())
		s.put("three", "four")
		s.servers[boxA].change("INBOX", func(f *fakeFolder) { f.next = 3 })
		s.wantNoError(s.run())
		s.wantSent("one", "two", "three", "four")
		s.wantCursor(4)
	})
}

// TestDatesThatCannotBeRead leave the size and the content to tell messages apart.
func TestDatesThatCannotBeRead(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		all := subjects("%d", 1, 60)
		s.put(all...)
		s.servers[boxA].change("INBOX", func(f *fakeFolder) {
			f.undated = map[uint32]bool{}
			for uid := range f.mail {
				f.undated[uid] = uid%3 == 0
			}
		})
		s.wantNoError(s.run())
		s.wantSent(all...)
		s.wantNoError(s.run())
		s.wantProof(true, "")
		s.restored(50, true, true, subjects("a fresh one %d", 51, 62)...)
		s.wantNoError(s.run())
		s.wantSent(slices.Concat(all, subjects("a fresh one %d", 51, 62))...)
	})
}

// TestDescriptionsThatBreakTheConnection of many messages: what came is registered, so each pass
// comes further.
func TestDescriptionsThatBreakTheConnection(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.pass.Config.Page = 50
		all := subjects("%d", 1, 40)
		s.put(all...)
		s.servers[boxA].hook = func(_ context.Context, op string, uid uint32) error {
			if op == "describe" && uid%4 == 0 {
				return errNetwork
			}
			return nil
		}
		cursor := uint32(0)
		for range 10 {
			s.run()
			if s.cursor() <= cursor && cursor < 40 {
				t.Fatalf("the cursor stays at %d", cursor)
			}
			cursor = s.cursor()
		}
		s.wantSent(all...)
		for _, one := range s.tasks() {
			if one.Attempts != 1 {
				t.Errorf("%s needed %d attempts, want one", one.Identity.Subject, one.Attempts)
			}
		}
	})
}
