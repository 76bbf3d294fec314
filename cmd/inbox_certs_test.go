package cmd

import (
	"bytes"
	"crypto/x509"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"postrider/internal/certs"
	"postrider/internal/inbox"
	"postrider/internal/testserver"
)

// TestInboxCertificates goes from a certificate that is not trusted to the two ways to accept it,
// with a real server. The error has what to set.
func TestInboxCertificates(t *testing.T) {
	server := testserver.Dovecot(t)
	server.AddUser(t, "ann", "sesame")
	dir := t.TempDir()
	t.Chdir(dir)
	ca, err := os.ReadFile(server.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"ca.pem": string(ca), "postrider.yaml": scriptConfig, "password": "sesame\n"}
	for name, content := range files {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(want int, args ...string) string {
		t.Helper()
		var out bytes.Buffer
		a := &app{in: &bytes.Buffer{}, out: &out, err: &out, env: noEnv}
		if code := a.run(t.Context(), append([]string{"-c", "postrider.yaml", "inbox"}, args...)); code != want {
			t.Fatalf("inbox %q: exit code %d, want %d; it printed\n%s", args, code, want, &out)
		}
		return out.String()
	}
	set := func(args ...string) { t.Helper(); run(exitOK, append([]string{"set", deskUser}, args...)...) }
	run(exitOK, "add", deskUser, "--host", server.Host, "--port", strconv.Itoa(server.TLSPort), "--username", "ann",
		"--password-file", "password", "--no-check")

	failed := run(exitFailed, "check", deskUser)
	flag := regexp.MustCompile("`postrider inbox set " + deskUser + " --tls-fingerprint (sha256:[0-9a-f]{64})`")
	command := flag.FindStringSubmatch(failed)
	if command == nil || !strings.Contains(failed, "--ca-file FILE") {
		t.Fatalf("inbox check printed\n%swant the two flags that accept the certificate", failed)
	}
	set("--tls-fingerprint", command[1])
	run(exitOK, "check", deskUser)
	line := regexp.MustCompile(`(?m)^TLS fingerprint +` + command[1] + `$`)
	if shown := run(exitOK, "show", deskUser); !line.MatchString(shown) {
		t.Errorf("inbox show printed\n%swant the fingerprint", shown)
	}
	set("--tls-fingerprint", "sha256:"+strings.Repeat("0a", 32))
	failed = run(exitFailed, "check", deskUser)
	if !strings.Contains(failed, "has the fingerprint "+command[1]+", and not sha256:0a0a") {
		t.Errorf("inbox check printed\n%swant both fingerprints", failed)
	}
	set("--tls-fingerprint", "", "--ca-file", "ca.pem")
	run(exitOK, "check", deskUser)
	settings := `"ca_file":"` + filepath.Join(dir, "ca.pem") + `","tls_fingerprint":"","client_cert":""`
	if shown := run(exitOK, "show", deskUser, "--json"); !strings.Contains(shown, settings) {
		t.Errorf("inbox show printed\n%swant the absolute path", shown)
	}
	set("--ca-file", "")
	run(exitFailed, "check", deskUser)
	for flag, want := range map[string]string{
		"--ca-file":         "--ca-file: there is no certificate in ",
		"--client-cert":     "--client-cert: ",
		"--tls-fingerprint": "the TLS fingerprint is not sha256:",
	} {
		if got := run(exitUsage, "set", deskUser, flag, "password"); !strings.Contains(got, want) {
			t.Errorf("inbox set %s printed\n%swant %q", flag, got, want)
		}
	}
}

// TestPeers: inboxes share TLS sessions and files if all that is set for certificates is the same.
func TestPeers(t *testing.T) {
	p := &peers{}
	of := func(in inbox.Inbox) *credentials {
		t.Helper()
		c, err := p.of(in)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	plain := of(inbox.Inbox{Address: "a@x.org", Host: "h"})
	if plain != of(inbox.Inbox{Address: "b@x.org", Host: "h"}) {
		t.Error("two inboxes without settings of their own do not share TLS sessions, want them shared")
	}
	if pinned := of(inbox.Inbox{Host: "h", TLSFingerprint: "sha256:0a"}); pinned.sessions == plain.sessions {
		t.Error("an inbox with a fingerprint shares the TLS sessions of one without, want its own")
	}
	missing := inbox.Inbox{Address: "a@x.org", ClientCert: filepath.Join(t.TempDir(), "client.pem")}
	_, err := p.of(missing)
	if err == nil || !strings.Contains(err.Error(), "client certificate of inbox a@x.org: there is no file") {
		t.Errorf("got %v, want an error with the inbox and the file", err)
	}
}

// TestPeersTrust: an inbox with its own CA file also trusts imap.ca_file, as it was read with the
// configuration. Other inboxes do not trust that file.
func TestPeersTrust(t *testing.T) {
	file := testserver.Dovecot(t).CAFile
	base := x509.NewCertPool()
	p := &peers{roots: base}
	own, err := p.of(inbox.Inbox{CAFile: file})
	if err != nil {
		t.Fatal(err)
	}
	want := x509.NewCertPool()
	if err := certs.Add(want, file); err != nil {
		t.Fatal(err)
	}
	if !own.roots.Equal(want) || !base.Equal(x509.NewCertPool()) {
		t.Error("the inbox does not trust exactly imap.ca_file and its own file, or other inboxes do now")
	}
	if plain, err := p.of(inbox.Inbox{}); err != nil || plain.roots != base {
		t.Errorf("without a file of its own: %v, want the certificates of imap.ca_file", err)
	}
}
