package cmd

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"postrider/internal/testserver"
)

// TestDiscoveryThroughTheCommand: inbox add asks the domain's own web servers, over HTTPS alone,
// and believes no answer that is too large or comes from elsewhere. Every web server is the one of
// the test, whose certificate is for example.com and the names below it.
func TestDiscoveryThroughTheCommand(t *testing.T) {
	const found = `<clientConfig><emailProvider><incomingServer type="imap"><hostname>imap.example.com</hostname>` +
		`<port>993</port><socketType>SSL</socketType></incomingServer></emailProvider></clientConfig>`
	to := func(address string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, address, http.StatusFound) }
	}
	say := func(document string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, document) }
	}
	for _, tt := range []struct {
		name  string
		serve http.HandlerFunc
		says  string
	}{
		{
			"a document", say(found),
			"seems to be imap.example.com:993 tls (https://autoconfig.example.com/mail/config-v1.1.xml); " +
				"there is no terminal to confirm it on: add --yes",
		},
		{"within the domain", func(w http.ResponseWriter, r *http.Request) {
			if r.Host == "www.example.com" {
				say(found)(w, r)
				return
			}
			to("https://www.example.com/mail.xml")(w, r)
		}, "seems to be imap.example.com:993 tls"},
		{"huge", say(found + strings.Repeat(" ", 1<<20)), "the document is larger than 64 KiB"},
		{"without HTTPS", to("http://autoconfig.example.com/mail.xml"), "it redirects to an address without HTTPS"},
		{"another domain", to("https://evil.test/mail.xml"), `it redirects to another domain, "evil.test"`},
		{"round and round", func(w http.ResponseWriter, r *http.Request) {
			to("https://"+r.Host+r.URL.Path)(w, r)
		}, "it redirects more than three times"},
		{"a server without TLS", say(strings.ReplaceAll(found, "SSL", "plain")), "it names no IMAP server with TLS"},
		{"a web page", say("<html>Welcome"), "it is no configuration"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, stderr := runIn(t.Context(), t, webServer(t, tt.serve),
				"inbox", "add", "ann@example.com", "--password-from", "env:SESAME")
			if code != exitUsage || !strings.Contains(stderr, tt.says) {
				t.Errorf("exit code %d, %s; want %d and %q", code, stderr, exitUsage, tt.says)
			}
		})
	}
}

// webServer is the environment of a command for which every web server is this one.
func webServer(t *testing.T, serve http.HandlerFunc) map[string]string {
	t.Helper()
	address, trust := secureServer(t, serve)
	dir := filepath.Dir(trust)
	gateway := testserver.StartGateway(t, address, testserver.SOCKSProxy)
	return map[string]string{
		"POSTRIDER_DATABASE_PATH":    filepath.Join(dir, "p.db"),
		"POSTRIDER_SMTP_HOST":        "smtp.firm.example",
		"POSTRIDER_SECRETS_KEY_FILE": filepath.Join(dir, "key"),
		"POSTRIDER_DNS_SERVER":       testserver.NameServer(t, nil).Address,
		"POSTRIDER_IMAP_PROXY":       fmt.Sprintf("socks5h://bob:p%%3Aw@%s", gateway.Addr),
		"POSTRIDER_IMAP_CA_FILE":     trust,
	}
}

// secureServer is an HTTPS server, and the file of its certificate, which is for example.com and
// the names below it.
func secureServer(t *testing.T, serve http.Handler) (address, trust string) {
	t.Helper()
	server := httptest.NewUnstartedServer(serve)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it logs clients that hang up
	server.StartTLS()
	t.Cleanup(server.Close)
	trust = filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(trust, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return server.Listener.Addr().String(), trust
}
