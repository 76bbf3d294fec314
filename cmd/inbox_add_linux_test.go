package cmd

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"postrider/internal/testserver"
	"postrider/internal/testserver/memimap"
)

// newAddWorld has an IMAP server with TLS, and a domain whose SRV record names it.
func newAddWorld(t *testing.T) (dir string, imap *memimap.Server) {
	t.Helper()
	cert, _, err := testserver.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	imap, err = memimap.Start(memimap.Options{
		TLS: &tls.Config{Certificates: []tls.Certificate{cert}}, ImplicitTLS: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(imap.Close)
	if err := imap.AddUser(deskUser, deskPassword); err != nil {
		t.Fatal(err)
	}
	if err := imap.CreateFolder(deskUser, "Junk"); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"Old", "Quarterly figures"} {
		if _, err := imap.Append(deskUser, "INBOX", clerkMail(subject)); err != nil {
			t.Fatal(err)
		}
	}
	dns := testserver.NameServer(t, nil)
	dns.SetSRV(t, "_imaps._tcp.firm.example", "localhost", uint16(imap.Port()), 0, 0)
	dir = t.TempDir()
	for name, text := range map[string]string{
		"ca.pem":   string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})),
		"password": deskPassword,
		"postrider.yaml": fmt.Sprintf(`
smtp: {host: 127.0.0.1, port: 1, security: none}
forward: {from: forwarder@firm.example}
imap: {ca_file: ca.pem}
dns: {server: "%s"}
routes: [{name: all, match: {}, to: [intake@firm.example]}]
`, dns.Address),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, imap
}

// TestAddAtATerminal: the server that was found is shown and confirmed, and what goes out first is
// said before the inbox is stored.
func TestAddAtATerminal(t *testing.T) {
	dir, imap := newAddWorld(t)
	p := &person{t: t, cols: 80}
	add := []string{"inbox", "add", deskUser, "--yes", "--password-file", filepath.Join(dir, "password")}
	found := `^The IMAP server of desk@firm\.example seems to be localhost:` + strconv.Itoa(imap.Port()) +
		` tls \(the SRV record _imaps\._tcp\.firm\.example\), ` +
		`which is outside of its domain: only the DNS says so, which others may forge\.\nUse this server\? \[y/N\] `

	code, shown := p.atTerminal(t.Context(), dir, "n\r", add)
	want := found + `postrider: not confirmed; nothing was changed\n$`
	if code != exitFailed || !regexp.MustCompile(want).MatchString(shown) {
		t.Errorf("exit code %d, it shows\n%s\nwant %d and the server, although --yes was given",
			code, shown, exitFailed)
	}
	if n := imap.Connections(); n != 0 {
		t.Errorf("there were %d connections to a server that was not confirmed", n)
	}

	code, shown = p.atTerminal(t.Context(), dir, "y\r", add)
	want = found + `Logged in to localhost:\d+ tls\.\nFolders: INBOX \(2\), Junk \(0\)\n` +
		`INBOX: 2 messages; the newest \("Quarterly figures"(, [^"]*)?\) will be forwarded, then new mail; ` +
		"`--start now` leaves it out\n" +
		`Mail that arrives before the first run counts as old\.\n` +
		`Added desk@firm\.example\. To see who would get what: postrider run --dry-run --inbox desk@firm\.example\n$`
	if code != exitOK || !regexp.MustCompile(want).MatchString(shown) {
		t.Errorf("exit code %d, it shows\n%s\nwant 0 and %s", code, shown, want)
	}
}

// TestRefusedByAProvider: a refused password says what the provider wants, at add and later.
func TestRefusedByAProvider(t *testing.T) {
	imap, err := memimap.Start(memimap.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(imap.Close)
	g := testserver.StartGateway(t, net.JoinHostPort("127.0.0.1", strconv.Itoa(imap.Port())), testserver.SOCKSProxy)
	env := map[string]string{
		"POSTRIDER_DATABASE_PATH":    filepath.Join(t.TempDir(), "p.db"),
		"POSTRIDER_SMTP_HOST":        "smtp.firm.example",
		"POSTRIDER_IMAP_PROXY":       "socks5://bob:p%3Aw@" + g.Addr,
		"POSTRIDER_SECRETS_KEY_FILE": filepath.Join(t.TempDir(), "key"),
		"SESAME":                     "sesame",
	}
	t.Setenv("SESAME", "sesame")
	add := []string{
		"inbox", "add", "ann@163.com", "--host", "imap.163.com", "--security", "none", "--allow-plaintext",
		"--password-from", "env:SESAME",
	}
	wants := func(says string, args ...string) {
		t.Helper()
		code, stderr := runIn(t.Context(), t, env, args...)
		const word = "163 takes a 授权码 (authorization code)"
		if code != exitFailed || !strings.Contains(stderr, word) || !strings.Contains(stderr, says) {
			t.Errorf("exit code %d, %q; want %d, the word of the provider, and %q", code, stderr, exitFailed, says)
		}
	}
	wants("try again with the right one; nothing was stored", add...)
	if code, stderr := runIn(t.Context(), t, env, append(add, "--no-check")...); code != exitOK {
		t.Fatalf("with --no-check: exit code %d, %s", code, stderr)
	}
	wants("change it in env:SESAME", "inbox", "rewind", "ann@163.com", "--to-start", "--dry-run")
}

func TestDay(t *testing.T) {
	now := time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)
	for want, at := range map[string]time.Time{
		"today 09:12":      now.Add(-48 * time.Minute),
		"2026-03-03 23:59": now.Add(-10*time.Hour - time.Minute),
		"2025-03-04 10:00": now.AddDate(-1, 0, 0),
	} {
		if got := day(at, now); got != want {
			t.Errorf("day(%s) = %q, want %q", at, got, want)
		}
	}
}
