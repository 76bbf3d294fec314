// Command oidcprovider is the OpenID provider of the tests: the example server of zitadel/oidc,
// with refresh tokens for devices, a provider's answer to a refresh token that it sees twice (all
// tokens are revoked), introspection for IMAP servers, and switches for tests. It is a module of
// its own: postrider does not depend on that library.
//
// usage: oidcprovider PORT USERS.json
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// apps are the clients: a program of a person, one with a secret that serves devices, and the IMAP
// server.
var apps = []string{"native", "device", "imap", "sid1"}

func main() {
	port, users := os.Args[1], os.Args[2]
	issuer := "http://127.0.0.1:" + port + "/"
	storage.RegisterClients(
		storage.NativeClient("native", "http://localhost", "http://127.0.0.1"),
		storage.DeviceClient("device", "secret"),
		storage.WebClient("imap", "secret", "http://localhost"),
	)
	people, err := storage.StoreFromFile(users)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	s := &store{Storage: storage.NewStorage(people), users: people, used: map[string]string{}}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	mux := http.NewServeMux()
	mux.HandleFunc("/test/", s.test)
	mux.Handle("/", s.counted(exampleop.SetupServer(issuer, s, log, false)))
	err = http.ListenAndServe("127.0.0.1:"+port, mux)
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

type store struct {
	*storage.Storage
	users storage.UserStore

	mu      sync.Mutex
	used    map[string]string // refresh tokens that were taken, and whose they were
	reused  int               // how often one was seen again
	renewed int               // how often a token was renewed
	issued  []string          // the ids of access tokens
	down    bool
	hold    chan struct{} // answers to requests for tokens wait until it is closed
	held    chan struct{} // closed when one waits
	stall   bool          // the requests wait themselves, and are then dropped
	delay   bool          // the requests wait themselves, and are then answered
}

// GetClientByClientID lets devices renew their tokens, too.
func (s *store) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := s.Storage.GetClientByClientID(ctx, id)
	if err != nil || id != "device" {
		return c, err
	}
	return deviceClient{c}, nil
}

type deviceClient struct{ op.Client }

func (c deviceClient) GrantTypes() []oidc.GrantType {
	return append(slices.Clone(c.Client.GrantTypes()), oidc.GrantTypeRefreshToken)
}

// TokenRequestByRefreshToken revokes all tokens of a user when it sees a refresh token twice.
func (s *store) TokenRequestByRefreshToken(ctx context.Context, token string) (op.RefreshTokenRequest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if user, again := s.used[token]; again {
		s.reused++
		for _, app := range apps {
			_ = s.TerminateSession(ctx, user, app)
		}
		return nil, errors.New("this refresh token was used before")
	}
	req, err := s.Storage.TokenRequestByRefreshToken(ctx, token)
	if err != nil {
		return nil, err
	}
	s.used[token] = req.GetSubject()
	s.renewed++
	if req.GetClientID() == "" {
		req = ofDevice{req}
	}
	return req, nil
}

// ofDevice has the client that the example's storage does not note for devices.
type ofDevice struct{ op.RefreshTokenRequest }

func (ofDevice) GetClientID() string { return "device" }

// CreateAccessAndRefreshTokens notes what it issues.
func (s *store) CreateAccessAndRefreshTokens(
	ctx context.Context, req op.TokenRequest, current string,
) (string, string, time.Time, error) {
	id, refresh, expires, err := s.Storage.CreateAccessAndRefreshTokens(ctx, req, current)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.issued = append(s.issued, id)
	return id, refresh, expires, err
}

// SetIntrospectionFromToken lets the IMAP server ask about the tokens of all applications.
func (s *store) SetIntrospectionFromToken(
	ctx context.Context, out *oidc.IntrospectionResponse, token, subject, _ string,
) error {
	if subject == "sid1" { // whose tokens are for no client
		info := &oidc.UserInfo{}
		info.Email = s.users.GetUserByID(subject).Email
		out.SetUserInfo(info)
		return nil
	}
	var err error
	for _, app := range apps {
		if err = s.Storage.SetIntrospectionFromToken(ctx, out, token, subject, app); err == nil {
			return nil
		}
	}
	return err
}

// counted has the provider be down, or hold its answers back.
func (s *store) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		down, hold, held, stall, delay := s.down, s.hold, s.held, s.stall, s.delay
		s.mu.Unlock()
		if down && r.URL.Path != "/oauth/introspect" {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		if hold == nil || r.URL.Path != "/oauth/token" {
			next.ServeHTTP(w, r)
			return
		}
		later := &answer{header: http.Header{}, code: http.StatusOK}
		if !stall && !delay {
			next.ServeHTTP(later, r)
		}
		s.mu.Lock()
		select {
		case <-held:
		default:
			close(held)
		}
		s.mu.Unlock()
		<-hold
		if delay {
			next.ServeHTTP(w, r)
			return
		}
		for name, values := range later.header {
			w.Header()[name] = values
		}
		w.WriteHeader(later.code)
		_, _ = w.Write(later.body)
	})
}

// answer is an answer that waits.
type answer struct {
	header http.Header
	code   int
	body   []byte
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(code int) { a.code = code }

func (a *answer) Write(p []byte) (int, error) {
	a.body = append(a.body, p...)
	return len(p), nil
}

// test has the switches.
func (s *store) test(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.URL.Path {
	case "/test/down":
		s.down = true
	case "/test/up":
		s.down = false
	case "/test/revoke": // all tokens of a user
		for _, app := range apps {
			_ = s.TerminateSession(ctx, r.FormValue("user"), app)
		}
	case "/test/forget": // the access tokens, and not the refresh tokens
		for _, id := range s.issued {
			for _, app := range apps {
				_ = s.RevokeToken(ctx, id, "", app)
			}
		}
	case "/test/hold", "/test/stall", "/test/delay":
		s.hold, s.held = make(chan struct{}), make(chan struct{})
		s.stall, s.delay = r.URL.Path == "/test/stall", r.URL.Path == "/test/delay"
	case "/test/held":
		held := s.held
		s.mu.Unlock()
		select {
		case <-held:
		case <-ctx.Done():
		}
		s.mu.Lock()
	case "/test/letgo":
		close(s.hold)
		s.hold = nil
	case "/test/counts":
		_, _ = fmt.Fprintf(w, "%d renewed, %d reused", s.renewed, s.reused)
	default:
		http.NotFound(w, r)
	}
}
