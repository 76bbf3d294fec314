package pass

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
)

// asOpened is a connection that shows a folder as it was when it was opened.
type asOpened struct {
	Source
	next uint32
}

func (s *asOpened) Select(ctx context.Context, name string) (imapsrc.Folder, error) {
	f, err := s.Source.Select(ctx, name)
	s.next = f.UIDNext
	return f, err
}

func (s *asOpened) UIDs(ctx context.Context, from, to uint32) ([]uint32, error) {
	uids, err := s.Source.UIDs(ctx, from, to)
	return slices.DeleteFunc(uids, s.isLater), err
}

func (s *asOpened) Bodies(ctx context.Context, uids []uint32, each eachMessage) (imapsrc.Result, error) {
	res, err := s.Source.Bodies(ctx, slices.DeleteFunc(slices.Clone(uids), s.isLater), each)
	for _, uid := range uids {
		if s.isLater(uid) {
			res.Vanished = append(res.Vanished, uid)
		}
	}
	return res, err
}

func (s *asOpened) isLater(uid uint32) bool { return uid >= s.next }

// TestStayBesideAnotherScanner: another host registers messages that arrived after this process
// opened the folder. This process sends those that are there, and the one that was expunged has
// vanished.
func TestStayBesideAnotherScanner(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		dial := s.pass.Dial
		s.pass.Dial = func(ctx context.Context, in inbox.Inbox) (Source, error) {
			src, err := dial(ctx, in)
			return &asOpened{Source: src}, err
		}
		_, h, ctx := s.stay()
		s.put("one")
		s.visit(ctx, h)
		s.registered(boxA, "two", "three", "four")
		s.servers[boxA].change("INBOX", func(f *fakeFolder) { delete(f.mail, 3) })
		h.Deliver(ctx)
		synctest.Wait()
		s.wantSent("one", "two", "four")
		s.want("one forwarded 1", "two forwarded 1", "three skipped 1", "four forwarded 1")
		if _, selects := s.servers[boxA].counts(); selects != 3 {
			t.Errorf("the folder was opened %d times, want once by each scan and once more", selects)
		}
	})
}

// TestNotGoneWithoutAListing: a message that did not come is gone only when the server lists the
// folder without it.
func TestNotGoneWithoutAListing(t *testing.T) {
	onSession(t, func(t *testing.T, ses *session, srv *fakeServer) {
		srv.hook = func(_ context.Context, op string, _ uint32) error {
			return map[string]error{"fetch": errExpunged, "search": errNetwork}[op]
		}
		batch := make([]fetched, 2)
		for i := range batch {
			batch[i].meta.UID = uint32(i + 1)
		}
		if err := ses.fetchBatch(t.Context(), inboxAt7, batch); !errors.Is(err, errNetwork) {
			t.Errorf("the error is %v, want %v", err, errNetwork)
		}
		if batch[0].disposed() || batch[1].disposed() {
			t.Errorf("the messages are %+v, want that nothing is known of them", batch)
		}
	})
}
