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
			"grant_type": {"client_credentials"}, "client_id": {"sid1"}, "client_secret": {"verysecret"}, "scope": {"openid email"},
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
	file, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "robot@project.example", "private_key_id": "k1", "token_uri": google.URL,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})),
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
	other := []string{"inbox", "add", "ann@firm.example", "--host", "127.0.0.1", "--port", fmt.Sprint(w.imapPort), "--security", "none", "--oauth", "corp"}
	const refused = "inbox ann@firm.example was not added: oauth.corp: the provider refuses it (unauthorized_client)"
	if res := w.must(1, other...); !strings.Contains(res.stderr, refused) {
		t.Errorf("for an account that was not delegated it says %s, want %q", res.stderr, refused)
	}
	if res := w.must(2, "inbox", "login", office); !strings.Contains(res.stderr, "oauth.corp gets its tokens by service account") {
		t.Errorf("a login says %s, want that there is none", res.stderr)
	}
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
	if rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) != nil || json.Unmarshal(claims, &c) != nil || c.Scope != "https://mail.google.com/" {
		return ""
	}
	return c.Sub
}
