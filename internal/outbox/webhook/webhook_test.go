package webhook

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"postrider/internal/outbox"
	"postrider/internal/testserver"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

var now = time.Unix(1614265330, 0)

var one = outbox.Message{
	ID: "msg_p5jXN8AQM9LWM0D4loKWxJek", Kind: outbox.Forwarded, Key: "7", Body: []byte(`{"test": 2432232314}`),
}

// serve starts a server with TLS, and returns its URL and who trusts it.
func serve(t *testing.T, handler http.HandlerFunc) (string, *x509.CertPool) {
	t.Helper()
	cert, roots, err := testserver.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(handler)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL, roots
}

func open(t *testing.T, set Settings) *Publisher {
	t.Helper()
	set.AllowInternal, set.Proxy, set.Agent = true, cmp.Or(set.Proxy, "direct"), "postrider"
	if set.Secrets == nil {
		set.Secrets = []string{secret}
	}
	p, err := Open(set)
	if err != nil {
		t.Fatal(err)
	}
	p.now = func() time.Time { return now }
	t.Cleanup(func() { _ = p.Close(context.Background()) })
	return p
}

// TestSignature checks a message on the wire against a signature that others computed.
func TestSignature(t *testing.T) {
	var got http.Header
	var body []byte
	url, roots := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		got = r.Header
		body, _ = io.ReadAll(r.Body)
	})
	second := "whsec_" + strings.Repeat("QUJD", 10)
	p := open(t, Settings{URL: url, RootCAs: roots, Secrets: []string{secret, second}})
	if err := p.Publish(t.Context(), []outbox.Message{one})[0]; err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"Webhook-Id": one.ID, "Webhook-Timestamp": "1614265330", "User-Agent": "postrider",
		"Content-Type": "application/cloudevents+json",
	} {
		if got.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, got.Get(name), want)
		}
	}
	signatures := strings.Split(got.Get("Webhook-Signature"), " ")
	if len(signatures) != 2 || signatures[0] != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" ||
		signatures[1] == signatures[0] {
		t.Errorf("the signatures are %q, want that of the specification and another one", signatures)
	}
	if string(body) != string(one.Body) {
		t.Errorf("the body is %s, want %s", body, one.Body)
	}
}

// TestAnswers checks what each answer means.
func TestAnswers(t *testing.T) {
	for _, tt := range []struct {
		status int
		after  string
		want   string
	}{
		{200, "", "done"},
		{204, "", "done"},
		{202, "5", "done"},
		{410, "", "gone"},
		{400, "", "fault"},
		{413, "", "refused"},
		{415, "", "refused"},
		{422, "", "refused"},
		{429, "120", "later 2m0s"},
		{503, "1", "later 1s"},
		{503, now.Add(90 * time.Second).UTC().Format(http.TimeFormat), "later 1m30s"},
		{429, "999999999999999", "later 24h0m0s"},
		{503, now.AddDate(9, 0, 0).UTC().Format(http.TimeFormat), "later 24h0m0s"},
		{503, "", "fault"},
		{429, "0", "fault"},
		{429, "-1", "fault"},
		{429, "soon", "fault"},
		{429, "99999999999999999999999999", "fault"},
		{503, now.Add(-time.Hour).UTC().Format(http.TimeFormat), "fault"},
		{500, "5", "fault"},
		{401, "", "fault"},
		{403, "", "fault"},
		{404, "", "fault"},
		{405, "", "fault"},
		{304, "", "fault"},
	} {
		t.Run(fmt.Sprint(tt.status, " ", tt.after), func(t *testing.T) {
			url, roots := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", tt.after)
				w.WriteHeader(tt.status)
			})
			p := open(t, Settings{URL: url + "/hook-secret?token=hunter2", RootCAs: roots})
			err := p.Publish(t.Context(), []outbox.Message{one})[0]
			if got := meaning(err); got != tt.want {
				t.Errorf("%d means %s (%v), want %s", tt.status, got, err, tt.want)
			}
			wantNoSecret(t, err)
		})
	}
}

// TestRetryAfterDate: a date is rounded up to seconds, as an error shows the pause. One that is far
// away pauses as long as any other can.
func TestRetryAfterDate(t *testing.T) {
	for at, want := range map[string]time.Duration{
		now.Add(90 * time.Second).UTC().Format(http.TimeFormat): 90 * time.Second,
		"Fri, 31 Dec 9999 23:59:59 GMT":                         LongestLater,
	} {
		if got, ok := retryAfter(at, now.Add(300*time.Millisecond)); !ok || got != want {
			t.Errorf("the pause until %s is %s, %t; want %s", at, got, ok, want)
		}
	}
}

// meaning is how the outbox will take an error.
func meaning(err error) string {
	var later *outbox.Later
	var refused *outbox.Refused
	switch {
	case err == nil:
		return "done"
	case errors.Is(err, outbox.ErrGone):
		return "gone"
	case errors.As(err, &later):
		return "later " + later.After.String()
	case errors.As(err, &refused):
		return "refused"
	}
	return "fault"
}

func wantNoSecret(t *testing.T, err error) {
	t.Helper()
	for _, part := range []string{"hunter2", "token", "hook-secret", "whsec_", secret[6:]} {
		if err != nil && strings.Contains(err.Error(), part) {
			t.Errorf("the error %q has %q, want no secret in it", err, part)
		}
	}
}

// TestAfterFailure checks that nothing is sent after the destination has failed, and that a refused
// message stops no other.
func TestAfterFailure(t *testing.T) {
	for _, tt := range []struct {
		status     int
		want, last string
	}{{500, "fault", "fault"}, {410, "gone", "gone"}, {422, "refused", "done"}} {
		t.Run(fmt.Sprint(tt.status), func(t *testing.T) {
			var mu sync.Mutex
			seen := map[string]int{}
			url, roots := serve(t, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				id := r.Header.Get("Webhook-Id")
				seen[id]++
				if id == "0" || tt.last != "done" {
					w.WriteHeader(tt.status)
				}
			})
			p := open(t, Settings{URL: url, RootCAs: roots})
			var batch []outbox.Message
			for i := range 100 {
				batch = append(batch, outbox.Message{ID: fmt.Sprint(i), Key: fmt.Sprint(i), Body: []byte("{}")})
			}
			errs := p.Publish(t.Context(), batch)
			if meaning(errs[0]) != tt.want || meaning(errs[99]) != tt.last {
				t.Errorf("the first is %v, the last is %v, want %s and %s", errs[0], errs[99], tt.want, tt.last)
			}
			for i, err := range errs {
				if err == nil && seen[fmt.Sprint(i)] != 1 {
					t.Errorf("message %d counts as arrived, and arrived %d times", i, seen[fmt.Sprint(i)])
				}
			}
			if tt.last != "done" && len(seen) > atOnce {
				t.Errorf("%d were sent and failed, want at most the %d that are sent at once", len(seen), atOnce)
			}
		})
	}
}

// TestOpen checks what is refused before anything is sent.
func TestOpen(t *testing.T) {
	for _, tt := range []struct {
		url, secret string
		internal    bool
		want        string
	}{
		{"https://example.com/hook", secret, false, ""},
		{"https://[2606:4700::1111]/hook", secret, false, ""},
		{"http://127.0.0.1/hook", secret, true, ""},
		{"http://intranet.example/hook", secret, true, ""},
		{"http://example.com/hook", secret, false, "use https"},
		{"http://8.8.8.8/hook", secret, true, "use https"},
		{"https://127.0.0.1/hook", secret, false, "allow_internal"},
		{"https://[::ffff:10.0.0.1]/", secret, false, "allow_internal"},
		{"https://169.254.169.254/latest", secret, false, "allow_internal"},
		{"https:///hook", secret, false, "https://HOST/PATH"},
		{"https://user:hunter2@exa mple/hook", secret, false, "https://HOST/PATH"},
		{"ftp://example.com/hook", secret, false, "https://HOST/PATH"},
		{"https://example.com/hook", "", false, "has no secret"},
		{"https://example.com/hook", "whsec_hunter2", false, "not whsec_"},
		{"https://example.com/hook", secret[6:], false, "not whsec_"},
		{"https://example.com/hook", "whsec_QUJD", false, "not whsec_"},
	} {
		t.Run(tt.url+" "+tt.secret, func(t *testing.T) {
			set := Settings{URL: tt.url, AllowInternal: tt.internal}
			if tt.secret != "" {
				set.Secrets = []string{tt.secret}
			}
			_, err := Open(set)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("the error is %v, want one with %q", err, tt.want)
			}
			if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), secret[6:])) {
				t.Errorf("the error %q has a secret", err)
			}
		})
	}
}
