package pass

import (
	"bufio"
	"context"
	"io"
	"net"
	"regexp"
	"sync/atomic"
	"testing"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/message"
	"postrider/internal/route"
	"postrider/internal/tasks"
	"postrider/internal/testserver"
)

// lying puts a proxy between the pass and the server, which changes the lines of both.
func (r *rig) lying(asked, answered func(line []byte) []byte) {
	r.t.Helper()
	lines := func(to io.Writer, from io.Reader, change func([]byte) []byte) {
		for in := bufio.NewReader(from); ; {
			line, err := in.ReadBytes('\n')
			if change != nil {
				line = change(line)
			}
			if _, failed := to.Write(line); failed != nil || err != nil {
				return
			}
		}
	}
	port := testserver.Listen(r.t, func(client net.Conn) {
		server, err := net.Dial("tcp", r.imap.Addr())
		if err != nil {
			return
		}
		go func() {
			lines(server, client, asked)
			_ = server.Close()
		}()
		lines(client, server, answered)
	})
	dial := r.Dial
	r.Dial = func(ctx context.Context, in inbox.Inbox) (Source, error) {
		in.Port = port
		return dial(ctx, in)
	}
}

// TestSearchIsWrong: the server takes the UIDs in a SEARCH for message numbers, as GNU imap4d does.
func TestSearchIsWrong(t *testing.T) {
	r := newRig(t, nil)
	uids := regexp.MustCompile(`(UID SEARCH .*)UID ([0-9:,]+)`)
	r.lying(func(line []byte) []byte { return uids.ReplaceAll(line, []byte("$1$2")) }, nil)
	r.add(inbox.StartAll)
	msgs := mails(12)
	gone := r.put("INBOX", msgs...)[:8]
	check(t, r.imap.Expunge(address, "INBOX", gone...))
	r.want(r.run(), Counters{Registered: 4, Forwarded: 4})
	fresh := mails(3)
	r.put("INBOX", fresh...)
	r.want(r.run(), Counters{Registered: 3, Forwarded: 3})
	r.wantArrived(msgs[8:], fresh)
	found, _ := r.audit(AuditOptions{})
	wantCounts(t, found.Folders[0], map[Account]int{AsForwarded: 7})
}

// TestYearOne: the server sends dates that the IMAP library refuses, for more messages than a pass
// connects again.
func TestYearOne(t *testing.T) {
	r := newRig(t, nil)
	date := regexp.MustCompile(`INTERNALDATE "[^"]*"`)
	r.lying(nil, func(line []byte) []byte {
		return date.ReplaceAll(line, []byte(`INTERNALDATE "01-Jan-0001 00:00:00 +0000"`))
	})
	r.Config.Page = 10
	r.add(inbox.StartAll)
	msgs := mails(25)
	r.put("INBOX", msgs...)
	r.want(r.run(), Counters{Registered: 25, Forwarded: 25})
	r.want(r.run(), Counters{})
	r.wantArrived(msgs)
	for _, one := range r.tasks() {
		if one.Attempts != 1 {
			t.Errorf("UID %d needed %d attempts, want one", one.UID, one.Attempts)
		}
	}
	found, _ := r.audit(AuditOptions{})
	wantCounts(t, found.Folders[0], map[Account]int{AsForwarded: 25})
}

// TestNoticeOfAnotherMessage: of a message that is too large only the header is read. Another one
// that has its UID by now is not told of to those who were to get the first one.
func TestNoticeOfAnotherMessage(t *testing.T) {
	var up atomic.Bool
	r := newRig(t, downUntil(&up), route.Rule{Name: "all", To: []string{"team@firm.example"}})
	r.Config.Notices, r.Config.MaxSize = true, 10
	r.add(inbox.StartAll)
	r.put("INBOX", mails(2)...)
	r.run() // registers both
	release := r.scannedBy("there:1")
	defer release()
	up.Store(true)
	r.behind(func(src Source) Source { return swapped{src} })
	r.run()
	got := r.tasks()
	if len(got) != 2 || got[0].Skip != tasks.SkipVanished || got[1].Status != tasks.Forwarded {
		t.Fatalf("the tasks are %+v, want the first one vanished, and the second one forwarded", got)
	}
	if n := len(r.sink.Messages()); n != 1 {
		t.Errorf("%d notices arrived, want one", n)
	}
	f := r.stored().Folders[0]
	if !f.Distrusted() || f.Doubt() != "the server gave the UID of a message to another one" {
		t.Errorf("the folder is distrusted: %t (%s); want it distrusted because of the server",
			f.Distrusted(), f.Doubt())
	}
}

// swapped is a server that has the second message under the first UID, too.
type swapped struct{ Source }

func (s swapped) Headers(ctx context.Context, uids []uint32, each eachMessage) (imapsrc.Result, error) {
	for _, uid := range uids {
		res, err := s.Source.Headers(ctx, []uint32{2}, func(_ uint32, m *message.Message) error { return each(uid, m) })
		if err != nil {
			return res, err
		}
	}
	return imapsrc.Result{}, nil
}
