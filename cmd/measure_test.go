package cmd

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"postrider/internal/testserver"
	"postrider/internal/testserver/memimap"
	"postrider/internal/testserver/smtpsink"
)

// TestCertificates: a pass notes until when the certificates of the IMAP server and of the relay
// are valid.
func TestCertificates(t *testing.T) {
	pair, _, err := testserver.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}}
	imap, err := memimap.Start(memimap.Options{TLS: config, ImplicitTLS: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(imap.Close)
	sink, err := smtpsink.Start(smtpsink.Options{TLS: config})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sink.Close)
	if err := imap.AddUser(deskUser, deskPassword); err != nil {
		t.Fatal(err)
	}
	if _, err := imap.Append(deskUser, "INBOX", clerkMail("one")); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})
	settings := fmt.Sprintf("imap: {ca_file: ca.pem}\n"+
		"smtp: {host: 127.0.0.1, port: %d, security: starttls, ca_file: ca.pem}\n"+
		"forward: {from: forwarder@firm.example}\n"+
		"routes:\n  - {name: all, match: {}, to: [intake@firm.example]}\n", sink.Port())
	files := map[string]string{"ca.pem": string(ca), "password": deskPassword, "postrider.yaml": settings}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) []byte {
		t.Helper()
		var out, errs bytes.Buffer
		a := &app{in: &bytes.Buffer{}, out: &out, err: &errs, env: noEnv}
		code := a.run(t.Context(), append([]string{"-c", filepath.Join(dir, "postrider.yaml")}, args...))
		if code != exitOK {
			t.Fatalf("%q: exit code %d: %s", args, code, &errs)
		}
		return out.Bytes()
	}
	run("check") // which has no database yet
	run("inbox", "add", deskUser, "--host", "127.0.0.1", "--port", strconv.Itoa(imap.Port()),
		"--password-file", filepath.Join(dir, "password"), "--start", "all")
	run("run")
	var got struct {
		Relay   time.Time `json:"relay_certificate_expires_at"`
		Inboxes []struct {
			Until time.Time `json:"certificate_expires_at"`
		}
	}
	if err := json.Unmarshal(run("status", "--json"), &got); err != nil {
		t.Fatal(err)
	}
	if want := pair.Leaf.NotAfter; !got.Relay.Equal(want) || !got.Inboxes[0].Until.Equal(want) {
		t.Errorf("the certificates are valid until %v and %v, want %v", got.Relay, got.Inboxes[0].Until, want)
	}
}
