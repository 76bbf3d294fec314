package cmd

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"postrider/internal/testserver"
)

// TestProviderThroughProxy: the proxy of the environment is where a provider of OAuth2 is reached,
// and SSL_CERT_FILE has its certificate. Both count for a process, so each case is one.
func TestProviderThroughProxy(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"issuer":"https://id.example.com","token_endpoint":"https://id.example.com/token"}`)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprint(w, `{"error":"invalid_client"}`)
	})
	provider, trust := secureServer(t, mux)
	const refused = "oauth.corp.client_id: the provider refuses it (invalid_client); check it, and client_secret"
	for name, tt := range map[string]struct {
		env       string // ADDR is the proxy
		handshake testserver.Handshake
		says      string
	}{
		"HTTP":      {"HTTPS_PROXY=http://bob:p%3Aw@ADDR", testserver.HTTPProxy, refused},
		"SOCKS5":    {"HTTPS_PROXY=socks5://bob:p%3Aw@ADDR", testserver.SOCKSProxy, refused},
		"ALL_PROXY": {"ALL_PROXY=http://bob:p%3Aw@ADDR", testserver.HTTPProxy, refused},
		"wrong password": {
			"HTTPS_PROXY=http://bob:hunter2@ADDR", testserver.HTTPProxy,
			"through the proxy http://ADDR: the proxy refused to connect (HTTP/1.1 407 Proxy Authentication Required)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			config := scriptConfig + "oauth: {corp: {issuer: 'https://id.example.com', client_id: a, " +
				"client_secret: env:SECRET, flow: application}}\n"
			if err := os.WriteFile(filepath.Join(dir, "postrider.yaml"), []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			g := testserver.StartGateway(t, provider, tt.handshake)
			add := exec.CommandContext(t.Context(), "postrider", "inbox", "add", deskUser,
				"--host", "127.0.0.1", "--port", "1", "--security", "none", "--oauth", "corp")
			add.Dir = dir
			add.Env = []string{
				"SECRET=s", "SSL_CERT_FILE=" + trust, "POSTRIDER_SMTP_PORT=1",
				strings.Replace(tt.env, "ADDR", g.Addr, 1),
			}
			out, err := add.CombinedOutput()
			var exit *exec.ExitError
			says := strings.Replace(tt.says, "ADDR", g.Addr, 1)
			if !errors.As(err, &exit) || exit.ExitCode() != exitFailed || !strings.Contains(string(out), says) ||
				strings.Contains(string(out), "hunter2") {
				t.Errorf("%v: %s; want exit code %d, and %q", err, out, exitFailed, says)
			}
			if target := g.LastTarget(); target != "id.example.com:443" {
				t.Errorf("the proxy was asked for %q, want id.example.com:443", target)
			}
		})
	}
}
