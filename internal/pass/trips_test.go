package pass

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/testserver"
)

// trips are the round trips of a connection: a command that the client writes after it was answered
// begins the next one.
type trips struct {
	mu       sync.Mutex
	commands [][]string // what the client wrote without waiting for an answer
	answered bool
}

func (tr *trips) look(p testserver.Piece) (int, func() testserver.End) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if p.FromServer {
		tr.answered = true
		return 0, nil
	}
	if tr.answered {
		tr.commands, tr.answered = append(tr.commands, nil), false
	}
	lines := strings.Split(strings.TrimSuffix(string(p.Data), "\r\n"), "\r\n")
	last := len(tr.commands) - 1
	tr.commands[last] = append(tr.commands[last], lines...)
	return 0, nil
}

// verbs are the names of the commands, those joined that went out together. LOGOUT is left out: its
// answer is not waited for.
func (tr *trips) verbs() (all []string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, lines := range tr.commands {
		if strings.HasSuffix(lines[0], " LOGOUT") {
			continue
		}
		var names []string
		for _, line := range lines {
			words := append(strings.Fields(line), "", "")
			names = append(names, words[1])
		}
		all = append(all, strings.Join(names, "+"))
	}
	return all
}

// with are the commands that contain a text.
func (tr *trips) with(part string) (found []string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, lines := range tr.commands {
		for _, line := range lines {
			if strings.Contains(line, part) {
				found = append(found, line)
			}
		}
	}
	return found
}

// tripsThrough are those of the connections that a proxy accepts from now on.
func tripsThrough(p *testserver.CutProxy) *trips {
	tr := &trips{}
	p.Watch(func() testserver.Look { return tr.look })
	return tr
}

// through makes the inbox, at a server behind a proxy, and a client that has a name.
func (r *rig) through(p *testserver.CutProxy, folders ...string) {
	r.t.Helper()
	in := inbox.Inbox{
		Address: address, Host: "127.0.0.1", Port: p.Port, Security: inbox.None,
		Start: inbox.StartAll, Active: true,
	}
	for _, folder := range folders {
		in.Folders = append(in.Folders, inbox.Folder{Name: folder})
	}
	_, err := r.store.Add(r.t.Context(), in, password)
	check(r.t, err)
}

// TestTripsOfAnIdlePass: what a pass over an inbox with nothing new waits for after the greeting.
func TestTripsOfAnIdlePass(t *testing.T) {
	dovecot := func(t *testing.T, _ *rig) string {
		s := testserver.Dovecot(t)
		s.AddUser(t, address, password)
		s.Append(t, address, "INBOX", mails(2)...)
		for _, name := range []string{"Junk", "Sales"} {
			s.CreateFolder(t, address, name)
			s.Append(t, address, name, mails(1)...)
		}
		return net.JoinHostPort(s.Host, strconv.Itoa(s.Port))
	}
	inside := func(_ *testing.T, r *rig) string {
		r.put("INBOX", mails(2)...)
		return r.imap.Addr()
	}
	for name, tc := range map[string]struct {
		server  func(t *testing.T, r *rig) string
		folders []string
		want    []string
	}{
		"Dovecot, one folder": {
			dovecot,
			nil,
			[]string{"AUTHENTICATE", "ID+EXAMINE", "UID"},
		},
		"Dovecot, three folders": {
			dovecot,
			[]string{"INBOX", "Junk", "Sales"},
			[]string{"AUTHENTICATE", "ID+EXAMINE", "UID", "EXAMINE", "UID", "EXAMINE", "UID"},
		},
		"a server in this process": {inside, nil, []string{"AUTHENTICATE", "EXAMINE", "UID"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			p := testserver.NewCutProxy(t, tc.server(t, r))
			r.through(p, tc.folders...)
			if first := r.run(); first.Error != "" || first.Counters.Forwarded == 0 {
				t.Fatalf("the first pass reports %+v; want messages forwarded", first)
			}
			tr := tripsThrough(p)
			r.want(r.run(), Counters{})
			if got := tr.verbs(); !slices.Equal(got, tc.want) {
				t.Errorf("an idle pass sent, waiting before each, %q; want %q", got, tc.want)
			}
		})
	}
}

// TestBodiesOfAPageComeInOneFetch counts the commands of a pass over two pages.
func TestBodiesOfAPageComeInOneFetch(t *testing.T) {
	r := newRig(t, nil)
	p := testserver.NewCutProxy(t, r.imap.Addr())
	r.through(p)
	tr := tripsThrough(p)
	r.put("INBOX", mails(2*r.Config.Page)...)
	r.want(r.run(), Counters{Registered: 2 * r.Config.Page, Forwarded: 2 * r.Config.Page})
	if got, want := tr.with("BODY.PEEK[]"), []string{"UID FETCH 1:4 ", "UID FETCH 5:8 "}; len(got) != len(want) ||
		!strings.Contains(got[0], want[0]) || !strings.Contains(got[1], want[1]) {
		t.Errorf("bodies were fetched with %q; want two commands, %q", got, want)
	}
}

// TestBatchIsBoundedInOctets: what is fetched at once is bounded in octets, too. A message that is
// larger than the bound comes alone, and one that is not fetched takes nothing of it.
func TestBatchIsBoundedInOctets(t *testing.T) {
	const half, tooMuch = maxBatchOctets / 2, 4 * maxBatchOctets
	s := &scanner{pass: &Pass{Config: Config{MaxSize: 3 * maxBatchOctets}}}
	for name, tc := range map[string]struct {
		sizes []int64
		want  int // messages in the first batch
	}{
		"small":               {[]int64{1, 2, 3}, 3},
		"just as much":        {[]int64{half, half, 1}, 2},
		"too much together":   {[]int64{half, half + 1, 1}, 1},
		"one is larger":       {[]int64{2 * maxBatchOctets, 1}, 1},
		"a larger one behind": {[]int64{1, 2 * maxBatchOctets, 1}, 1},
		"not fetched at all":  {[]int64{half, tooMuch, half, 1}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			var metas []imapsrc.Meta
			for i, size := range tc.sizes {
				metas = append(metas, imapsrc.Meta{UID: uint32(i + 1), Size: size})
			}
			if got := fits(s.toFetch(metas)); got != tc.want {
				t.Errorf("the first batch has %d messages; want %d", got, tc.want)
			}
		})
	}
}

// TestPageKeepsNoMessages: what a page has registered takes no memory while its rest is fetched.
func TestPageKeepsNoMessages(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		const n, header = 24, 256 << 10
		s.pass.Config.Page, s.pass.Config.MaxSize = n+firstPage, 2*maxBatchOctets
		server := s.servers[boxA]
		server.change("INBOX", func(f *fakeFolder) {
			f.sizes = map[uint32]int64{}
			for uid := uint32(1); uid <= firstPage+n; uid++ {
				lines := strings.Repeat(strings.Repeat("x", 70)+"\r\n ", header/73)
				f.mail[uid] = []byte("X: " + lines + "\r\n" + string(fakeMail(fmt.Sprint(uid))))
				f.sizes[uid] = maxBatchOctets // each one is a batch
			}
			f.next = firstPage + n + 1
		})
		heap := map[uint32]uint64{}
		server.hook = func(_ context.Context, op string, uid uint32) error {
			if op == "fetch" {
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				heap[uid] = m.HeapAlloc
			}
			return nil
		}
		s.scan(boxA)
		if grown := int64(heap[firstPage+n]) - int64(heap[firstPage+2]); grown > 4*header {
			t.Errorf("the heap has grown by %d octets while a page of %d messages was fetched, want at most %d",
				grown, n, 4*header)
		}
	})
}
