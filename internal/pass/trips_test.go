package pass

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/message"
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

// TestTripsOfAnIdlePass: what a pass over an inbox with nothing new waits for, besides the greeting.
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
			dovecot, nil,
			[]string{"AUTHENTICATE", "ID+EXAMINE", "UID"},
		},
		"Dovecot, three folders": {
			dovecot, []string{"INBOX", "Junk", "Sales"},
			[]string{"AUTHENTICATE", "ID+EXAMINE", "UID", "EXAMINE", "UID", "EXAMINE", "UID"},
		},
		"a server in this process": {inside, nil, []string{"AUTHENTICATE", "EXAMINE", "UID"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			p := testserver.NewCutProxy(t, tc.server(t, r))
			in := inbox.Inbox{Address: address, Host: "127.0.0.1", Port: p.Port, Security: inbox.None, Start: inbox.StartAll, Active: true}
			for _, folder := range tc.folders {
				in.Folders = append(in.Folders, inbox.Folder{Name: folder})
			}
			_, err := r.store.Add(t.Context(), in, password)
			check(t, err)
			r.Dial = func(ctx context.Context, in inbox.Inbox) (Source, error) {
				return imapsrc.Dial(ctx, imapsrc.Config{
					Host: in.Host, Port: in.Port, Security: imapsrc.SecurityNone, Username: in.Username, Password: password,
					Spooler: &message.Spooler{Limit: 1 << 20, Budget: 16 << 20}, Proxy: "direct", ClientName: "postrider",
				})
			}
			if first := r.run(); first.Error != "" || first.Counters.Forwarded == 0 {
				t.Fatalf("the first pass reports %+v; want messages forwarded", first)
			}
			tr := &trips{}
			p.Watch(func() testserver.Look { return tr.look })
			r.want(r.run(), Counters{})
			if got := tr.verbs(); !slices.Equal(got, tc.want) {
				t.Errorf("an idle pass sent, waiting before each, %q; want %q", got, tc.want)
			}
		})
	}
}
