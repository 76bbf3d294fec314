//go:build unix

package e2e

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"postrider/internal/oauth"
	"postrider/internal/testserver"
)

// TestServiceAccount: the key file is all that an inbox needs. What it signs names the account, and
// nothing is shown to a person.
func TestServiceAccount(t *testing.T) {
	w, provider := withAccount(t, "sqlite", itself)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, 10)
	google := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		who := signedBy(&key.PublicKey, r.FormValue("assertion"))
		asked <- who
		if who != office {
			rw.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(rw, `{"error":"unauthorized_client"}`)
			return
		}
		resp, err := http.PostForm(provider.Issuer+"oauth/token", url.Values{
			"grant_type": {"client_credentials"}, "scope": {"openid email"},
			"client_id": {"sid1"}, "client_secret": {"verysecret"},
		})
		if err != nil {
			rw.WriteHeader(http.StatusBadGateway)
			return
		}
		defer func() { _ = resp.Body.Close() }()
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(rw, resp.Body)
	}))
	t.Cleanup(google.Close)
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	file, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "robot@project.example", "token_uri": google.URL,
		"private_key_id": "k1", "private_key": string(pem.EncodeToMemory(block)),
	})
	if err == nil {
		err = os.WriteFile(w.path("service-account.json"), file, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.extra = "oauth:\n  corp: {service_account: file:service-account.json}\n"
	w.app = &oauth.App{Name: "corp", Key: &oauth.Key{}}
	w.configure()

	w.must(0, w.addOffice()...)
	w.put(office, "one")
	w.pass(0)
	w.expireToken()
	w.put(office, "two")
	w.pass(0)
	if n := len(w.sink.Messages()); n != 2 {
		t.Errorf("%d messages arrived, want 2", n)
	}
	if n := len(asked); n != 3 {
		t.Errorf("there were %d tokens, want one for inbox add, and one for each pass", n)
	}
	other := []string{
		"inbox", "add", "ann@firm.example", "--host", "127.0.0.1", "--port", fmt.Sprint(w.imapPort),
		"--security", "none", "--oauth", "corp",
	}
	const refused = "inbox ann@firm.example was not added: oauth.corp: the provider refuses it (unauthorized_client)"
	if res := w.must(1, other...); !strings.Contains(res.stderr, refused) {
		t.Errorf("for an account that was not delegated it says %s, want %q", res.stderr, refused)
	}
	res := w.must(2, "inbox", "login", office)
	if !strings.Contains(res.stderr, "oauth.corp gets its tokens by service account") {
		t.Errorf("a login says %s, want that there is none", res.stderr)
	}
}

func TestAddWithApplication(t *testing.T) {
	w, provider := withAccount(t, "sqlite", itself)
	provider.Switch("down")
	if res := w.must(1, w.addOffice()...); !strings.Contains(res.stderr, "inbox office@firm.example was not added: ") {
		t.Errorf("with a provider that is down it says %s", res.stderr)
	}
	provider.Switch("up")
	w.must(0, w.addOffice()...)
	w.put(office, "one")
	w.pass(0)

	// An import logs in to it, too.
	w.must(0, "inbox", "remove", office, "--yes")
	for folder, code := range map[string]int{"IBOX": 1, "INBOX": 0} {
		file := fmt.Sprintf("address,host,port,security,password,folders\n"+
			"%s,127.0.0.1,%d,none,oauth:corp,%s\n", office, w.imapPort, folder)
		if err := os.WriteFile(w.path("inboxes.csv"), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		res := w.must(code, "inbox", "import", w.path("inboxes.csv"), "--check", "--dry-run")
		const missing = `inboxes.csv:2: inbox office@firm.example: folder "IBOX" does not exist`
		if code != 0 && !strings.Contains(res.stderr, missing) {
			t.Errorf("the import says %s, want that there is no such folder", res.stderr)
		}
	}
}

// TestMechanisms: Dovecot takes the tokens with the one mechanism that it offers.
func TestMechanisms(t *testing.T) {
	for _, mechanism := range []string{"xoauth2", "oauthbearer"} {
		t.Run(mechanism, func(t *testing.T) {
			w, provider := withAccount(t, "sqlite", itself)
			w.imap = testserver.DovecotWithTokens(t, provider, mechanism)
			w.imap.AddUser(t, office, password)
			w.imapPort = w.imap.Port
			w.must(0, w.addOffice()...)
			w.put(office, "one")
			w.pass(0)
			if n := len(w.sink.Messages()); n != 1 {
				t.Errorf("%d messages arrived, want 1", n)
			}
		})
	}
}

func TestApplicationLogin(t *testing.T) {
	w, _ := withProvider(t, "sqlite", itself)
	res := w.must(2, "inbox", "login", office)
	if !strings.Contains(res.stderr, "there is no login: oauth.corp gets its tokens by application") {
		t.Errorf("login of an application that acts for itself: %s", res.stderr)
	}
	w.put(office, "one")
	w.pass(0)
}

// signedBy is the account that an assertion names (RFC 7523 3); empty when it is not signed with
// the key, or not for mail.
func signedBy(key *rsa.PublicKey, assertion string) string {
	parts := strings.Split(assertion, ".")
	if len(parts) != 3 {
		return ""
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	signature, _ := base64.RawURLEncoding.DecodeString(parts[2])
	claims, _ := base64.RawURLEncoding.DecodeString(parts[1])
	var c struct{ Sub, Scope string }
	if rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) != nil ||
		json.Unmarshal(claims, &c) != nil || c.Scope != "https://mail.google.com/" {
		return ""
	}
	return c.Sub
}
