package e2e

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"postrider/internal/testserver"
)

// relayRow is a row of the table in docs/reference.md of what the relay says.
type relayRow struct {
	reply string // the codes: `550 5.1.1`, or `none`
	state string
	exit  int
}

// relayTable reads that table: the case, the reply, the status, the exit code and the notes.
func relayTable(t *testing.T) map[string]relayRow {
	t.Helper()
	text, err := os.ReadFile("../../docs/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## What the relay says\n")
	if !found {
		t.Fatal("docs/reference.md has no section `What the relay says`")
	}
	section, _, _ = strings.Cut(section, "\n#")
	out := map[string]relayRow{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) != 7 {
			continue
		}
		for i := range cells {
			cells[i] = strings.Trim(cells[i], " `")
		}
		if exit, err := strconv.Atoi(cells[4]); err == nil { // otherwise it is the header of the table
			out[cells[1]] = relayRow{reply: cells[2], state: cells[3], exit: exit}
		}
	}
	return out
}

// relayWorld is a world whose relay is a Postfix, with w.sink behind it.
type relayWorld struct {
	*world
	relay *testserver.SMTP
	mails [][]byte
}

func newRelayWorld(t *testing.T, c relayCase) *relayWorld {
	t.Helper()
	w := newWorld(t, "sqlite")
	w.imap.AddUser(t, "forwarder@firm.example", password)
	opts := testserver.PostfixOptions{AuthPort: w.imap.AuthPort, Next: w.smtpPort, Files: c.files, Settings: c.settings}
	rw := &relayWorld{world: w, mails: c.mails}
	if c.policy != nil {
		port := policyService(t, func(asked map[string]string) string { return c.policy(rw, asked) })
		policy := fmt.Sprintf("check_policy_service inet:127.0.0.1:%d", port)
		opts.Settings = append(opts.Settings, strings.ReplaceAll(c.policyAt, "POLICY", policy))
	}
	rw.relay = testserver.Postfix(t, opts)
	rw.smtpPort = rw.relay.Port
	if c.before != nil {
		c.before(rw)
	}
	if c.to != "" {
		w.routes = "  - {name: all, match: {}, to: [" + c.to + "]}\n"
	}
	w.extra = "retry: {base: 1h, max: 1h}\n" // a slow pass tries nothing again
	rw.writeSecrets()
	rw.login(cmp.Or(c.smtp, loggedIn))
	if rw.mails == nil {
		rw.mails = mails(3, "letter")
	}
	w.addInbox(desk, "--start", "all")
	w.imap.Append(t, desk, "INBOX", rw.mails...)
	return rw
}

// These are the keys of the section smtp besides host and port.
const (
	anonymous = `security: starttls, ca_file: relay.pem`
	loggedIn  = anonymous + `, username: forwarder@firm.example, password: "file:smtp-password"`
)

// login writes the configuration, with more keys in the section smtp.
func (w *relayWorld) login(more string) {
	w.smtp = fmt.Sprintf("host: 127.0.0.1, port: %d, %s", w.smtpPort, more)
	w.configure()
}

// writeSecrets writes the files that loggedIn names.
func (w *relayWorld) writeSecrets() {
	w.t.Helper()
	ca, err := os.ReadFile(w.relay.CAFile)
	if err != nil {
		w.t.Fatal(err)
	}
	for name, text := range map[string]string{"relay.pem": string(ca), "smtp-password": password + "\n"} {
		if err := os.WriteFile(w.path(name), []byte(text), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
}

// arriveOnce waits for the relay's queue, and checks that each message arrived once.
func (w *relayWorld) arriveOnce() {
	w.t.Helper()
	w.relay.Drain(w.t)
	w.wantOnce(w.mails)
}

// untilForwarded runs passes until all messages are forwarded.
func (w *relayWorld) untilForwarded() {
	w.t.Helper()
	w.eventually(func() bool {
		w.endPauses()
		w.start(nil, "run").wait()
		return len(w.tasks("--status", "forwarded")) == len(w.mails)
	})
	w.arriveOnce()
}

// policyService answers Postfix's questions (see its SMTPD_POLICY_README): lines name=value and an
// empty line; the answer is `action=...`.
func policyService(t *testing.T, answer func(asked map[string]string) string) (port int) {
	t.Helper()
	return testserver.Listen(t, func(conn net.Conn) {
		asked := map[string]string{}
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			if name, value, ok := strings.Cut(lines.Text(), "="); ok {
				asked[name] = value
				continue
			}
			_, _ = fmt.Fprintf(conn, "action=%s\n\n", answer(asked))
			clear(asked)
		}
	})
}

// tap is a proxy for a port. When the client has sent that many octets, it waits until full has
// returned.
func tap(t *testing.T, to int, most int64, full func()) (port int) {
	t.Helper()
	once := sync.OnceFunc(full)
	return testserver.Listen(t, func(client net.Conn) {
		server, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", to))
		if err != nil {
			return
		}
		defer func() { _ = server.Close() }()
		go func() {
			_, _ = io.Copy(client, server)
			_ = client.Close()
		}()
		if _, err := io.CopyN(server, client, most); err != nil {
			return
		}
		once()
		_, _ = io.Copy(server, client)
	})
}
