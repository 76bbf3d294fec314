package cmd

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// TestLoginsThatFail: each says in one line what is wrong and what to do, and nothing is stored.
func TestLoginsThatFail(t *testing.T) {
	answer := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	pending := answer(http.StatusBadRequest, `{"error":"authorization_pending"}`)
	code := answer(http.StatusOK, `{"device_code":"d","user_code":"AB-CD",`+
		`"verification_uri":"https://id.firm.example/device","expires_in":600,"interval":1}`)
	add := []string{
		"inbox", "add", "office@firm.example", "--host", "127.0.0.1", "--port", "1", "--security", "none", "--oauth",
	}
	for _, tt := range []struct {
		name          string
		device, token http.HandlerFunc
		args          []string
		says          string
	}{
		{
			"a scope that is refused", answer(http.StatusBadRequest, `{"error":"invalid_scope"}`), pending,
			[]string{"devices"},
			"inbox office@firm.example was not added: log in as office@firm.example: " +
				"oauth.devices.scopes: the provider refuses it (invalid_scope); correct them\n",
		},
		{
			"a client that is refused", answer(http.StatusUnauthorized, `{"error":"invalid_client"}`), pending,
			[]string{"devices"},
			"oauth.devices.client_id: the provider refuses it (invalid_client); check it, and client_secret\n",
		},
		{
			"a provider that is down", answer(http.StatusServiceUnavailable, "down"), pending,
			[]string{"devices"},
			"devices gives no token now (503 Service Unavailable)\n",
		},
		{
			"a page in place of a code", answer(http.StatusOK, "<html>"), pending,
			[]string{"devices"},
			"devices gives no token: its answer is not JSON " +
				"(unmarshal invalid character '<' looking for beginning of value)\n",
		},
		{
			"a code that is not entered", code, pending,
			[]string{"devices", "--timeout", "50ms"},
			"inbox office@firm.example was not added: there was no login as office@firm.example within 50ms; " +
				"nothing was stored; log in again\n",
		},
		{
			"a code that has expired", code, answer(http.StatusBadRequest, `{"error":"expired_token"}`),
			[]string{"devices"},
			"log in as office@firm.example: the code was not entered in time; log in again for a new one\n",
		},
		{
			"a browser that does not come back", code, pending,
			[]string{"browsers", "--timeout", "50ms"},
			"there was no login as office@firm.example within 50ms; nothing was stored; log in again\n",
		},
		{
			"no address that is pasted", code, pending, []string{"browsers", "--no-browser"}, "no address was given\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := withFakeProvider(t, tt.device, tt.token)
			exit, stderr := runOn(t, file, append(add, tt.args...)...)
			if exit != exitFailed || !strings.HasSuffix(stderr, tt.says) || strings.Count(stderr, "postrider: ") != 1 {
				t.Errorf("exit code %d, it says\n%s\nwant %d and one line that ends with %q",
					exit, stderr, exitFailed, tt.says)
			}
			if exit, stderr := runOn(t, file, "inbox", "show", "office@firm.example"); exit != exitUsage {
				t.Errorf("the inbox was stored: exit code %d, %s", exit, stderr)
			}
		})
	}
}

// TestTokenForAll: inboxes that are not stored yet use the one token of an application that acts
// for itself, too.
func TestTokenForAll(t *testing.T) {
	var asked atomic.Int32
	file := withFakeProvider(t, http.NotFound, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"for all","token_type":"Bearer","expires_in":3600}`)
	})
	add := []string{
		"inbox", "add", "office@firm.example", "--host", "127.0.0.1", "--security", "none",
		"--oauth", "robots", "--no-check",
	}
	if exit, stderr := runOn(t, file, add...); exit != exitOK {
		t.Fatal(stderr)
	}
	a := &app{config: file, err: io.Discard, env: noEnv}
	err := a.with(t.Context(), func(s *services) error {
		in, err := s.inboxes.Get(t.Context(), "office@firm.example")
		if err != nil {
			return err
		}
		in.ID = 0
		for range 2 {
			_, token, err := s.credentials(t.Context(), in)
			if err != nil {
				return err
			}
			if access, err := token(t.Context(), ""); err != nil || access != "for all" {
				t.Errorf("the token is %q (%v), want that of the provider", access, err)
			}
		}
		return nil
	})
	if err != nil || asked.Load() != 1 {
		t.Errorf("the provider was asked %d times (%v), want once", asked.Load(), err)
	}
}

// withFakeProvider is a configuration with three applications of a provider that answers like this.
func withFakeProvider(t *testing.T, device, token http.HandlerFunc) (file string) {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"issuer":%q,"token_endpoint":"%[2]s/token",`+
			`"device_authorization_endpoint":"%[2]s/device","authorization_endpoint":"%[2]s/authorize"}`,
			server.URL, server.URL)
	})
	mux.HandleFunc("/device", device)
	mux.HandleFunc("/token", token)
	dir := t.TempDir()
	file = filepath.Join(dir, "postrider.yaml")
	text := fmt.Sprintf(`
smtp: {host: 127.0.0.1, port: 1, security: none}
forward: {from: forwarder@firm.example}
oauth:
  devices: {issuer: %[1]q, client_id: postrider}
  browsers: {issuer: %[1]q, client_id: postrider, flow: browser}
  robots: {issuer: %[1]q, client_id: postrider, client_secret: sesame, flow: application}
routes: [{name: all, match: {}, to: [intake@firm.example]}]
`, server.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if exit, stderr := runOn(t, file, "migrate"); exit != exitOK {
		t.Fatal(stderr)
	}
	return file
}

// runOn runs a command with that configuration.
func runOn(t *testing.T, file string, args ...string) (exit int, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	a := &app{in: strings.NewReader(""), out: &out, err: &errs, env: noEnv}
	exit = a.run(t.Context(), append([]string{"-c", file}, args...))
	return exit, errs.String()
}
