package pass

import (
	"fmt"
	"testing"
	"time"

	"postrider/internal/inbox"
)

// TestReusedBeforeTheStart: of messages that were there before the start only size and date are
// known. Both have to differ: a store that was moved has other dates, and must not be forwarded.
func TestReusedBeforeTheStart(t *testing.T) {
	for _, tt := range []struct {
		name       string
		date, size bool
		sent       []string
	}{
		{"another date", true, false, []string{"last"}},
		{"another size", false, true, []string{"last"}},
		{"both", true, true, []string{"last", "a fresh one 1", "a fresh one 2", "a fresh one 3"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onSite(t, func(t *testing.T, s *site) {
				s.put("old 1", "old 2", "old 3", "last")
				now := time.Now()
				s.boxes.change(func(f *inbox.Folder) { f.StartUID, f.LastSeenUID, f.InitializedAt = 3, 3, &now })
				s.wantNoError(s.run())
				s.wantSent("last")
				s.servers[boxA].change("INBOX", func(f *fakeFolder) {
					f.shift, f.sizes = map[uint32]time.Duration{}, map[uint32]int64{}
					for uid := range uint32(3) {
						if size := int64(len(f.mail[uid+1])); !tt.size {
							f.sizes[uid+1] = size
						}
						if tt.date {
							f.shift[uid+1] = time.Hour
						}
						f.mail[uid+1] = fakeMail(fmt.Sprintf("a fresh one %d", uid+1))
					}
				})
				s.wantNoError(s.run())
				s.wantSent(tt.sent...)
			})
		})
	}
}

// TestUndatedBeforeTheStart: when UIDVALIDITY changes, the others from before the start are known
// by their dates nevertheless. The new message is as long as one that was deleted.
func TestUndatedBeforeTheStart(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		s.put("old 1", "old 2", "old 3", "last")
		now := time.Now()
		s.boxes.change(func(f *inbox.Folder) { f.StartUID, f.LastSeenUID, f.InitializedAt = 3, 3, &now })
		s.servers[boxA].change("INBOX", func(f *fakeFolder) { f.undated = map[uint32]bool{1: true} })
		s.wantNoError(s.run())
		s.wantSent("last")
		s.servers[boxA].change("INBOX", func(f *fakeFolder) {
			f.validity, f.next = 8, 5
			f.mail = map[uint32][]byte{
				1: fakeMail("old 1"), 2: fakeMail("old 3"), 3: fakeMail("last"), 4: fakeMail("new 1"),
			}
			f.shift = map[uint32]time.Duration{2: time.Second, 3: time.Second, 4: time.Second}
		})
		s.wantNoError(s.run())
		s.wantSent("last", "new 1")
	})
}
