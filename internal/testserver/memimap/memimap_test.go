package memimap

import (
	"crypto/tls"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"

	"postrider/internal/testserver"
)

func start(t *testing.T, opts Options) *Server {
	t.Helper()
	s, err := Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if err := s.AddUser("ann", "x"); err != nil {
		t.Fatal(err)
	}
	return s
}

func login(t *testing.T, s *Server) *imapclient.Client {
	t.Helper()
	c, err := imapclient.DialInsecure(s.Addr(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.Login("ann", "x").Wait(); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestMessages(t *testing.T) {
	s := start(t, Options{})
	msgs := [][]byte{
		[]byte("Subject: one\r\n\r\n1\r\n"), []byte("Subject: two\r\n\r\n2\r\n"), []byte("Subject: three\r\n\r\n3\r\n"),
	}
	uids, err := s.Append("ann", "INBOX", msgs...)
	if err != nil || !slices.Equal(uids, []uint32{1, 2, 3}) {
		t.Fatalf("Append = %v, %v; want UIDs 1 to 3", uids, err)
	}
	if err := s.Expunge("ann", "INBOX", 1, 3); err != nil {
		t.Fatal(err)
	}
	c := login(t, s)
	selected, err := c.Select("INBOX", nil).Wait()
	if err != nil || selected.NumMessages != 1 || selected.UIDNext != 4 {
		t.Fatalf("Select = %+v, %v; want one message and UIDNEXT 4", selected, err)
	}
	body := &imap.FetchItemBodySection{Peek: true}
	opts := &imap.FetchOptions{UID: true, BodySection: []*imap.FetchItemBodySection{body}}
	got, err := c.Fetch(imap.UIDSetNum(2), opts).Collect()
	if err != nil || len(got) != 1 || string(got[0].FindBodySection(body)) != string(msgs[1]) {
		t.Errorf("fetch UID 2 = %v, %v; want the second message", got, err)
	}
	if s.Connections() != 1 {
		t.Errorf("Connections() = %d; want 1", s.Connections())
	}
}

// TestIdle: IDLE reports what was appended before it, since the last command, and during it.
func TestIdle(t *testing.T) {
	s := start(t, Options{})
	told := make(chan uint32, 10)
	c, err := imapclient.DialInsecure(s.Addr(), &imapclient.Options{
		UnilateralDataHandler: &imapclient.UnilateralDataHandler{
			Mailbox: func(data *imapclient.UnilateralDataMailbox) { told <- *data.NumMessages },
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if err := c.Login("ann", "x").Wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Select("INBOX", nil).Wait(); err != nil {
		t.Fatal(err)
	}
	var idle *imapclient.IdleCommand
	for n := range uint32(3) {
		if _, err := s.Append("ann", "INBOX", []byte("Subject: one\r\n\r\n1\r\n")); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			if idle, err = c.Idle(); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case got := <-told:
			if got != n+1 {
				t.Errorf("the server reported %d messages, want %d", got, n+1)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("the server did not report message %d", n+1)
		}
	}
	if err := errors.Join(idle.Close(), idle.Wait()); err != nil {
		t.Error(err)
	}
}

// validity asks in every way there is.
func validity(t *testing.T, s *Server) uint32 {
	t.Helper()
	c := login(t, s)
	status, err := c.Status("Junk", &imap.StatusOptions{UIDValidity: true}).Wait()
	if err != nil {
		t.Fatal(err)
	}
	selected, err := c.Select("Junk", nil).Wait()
	if err != nil {
		t.Fatal(err)
	}
	cmd := c.Append("Junk", 1, nil)
	_, _ = cmd.Write([]byte("x"))
	_ = cmd.Close()
	appended, err := cmd.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if status.UIDValidity != selected.UIDValidity || status.UIDValidity != appended.UIDValidity {
		t.Errorf("UIDVALIDITY is %d in STATUS, %d in SELECT, %d in APPENDUID",
			status.UIDValidity, selected.UIDValidity, appended.UIDValidity)
	}
	return selected.UIDValidity
}

func TestUIDValidity(t *testing.T) {
	s := start(t, Options{})
	if err := s.CreateFolder("ann", "Junk"); err != nil {
		t.Fatal(err)
	}
	before := validity(t, s)
	if err := s.SetUIDValidity("ann", "Junk", 4711); err != nil {
		t.Fatal(err)
	}
	if got := validity(t, s); got != 4711 {
		t.Errorf("UIDVALIDITY = %d; want the 4711 that was set", got)
	}
	if err := s.DeleteFolder("ann", "Junk"); err != nil {
		t.Fatal(err)
	}
	if err := s.CreateFolder("ann", "Junk"); err != nil {
		t.Fatal(err)
	}
	if got := validity(t, s); got == before || got == 4711 {
		t.Errorf("UIDVALIDITY of the new folder = %d, as it was before", got)
	}
	if err := login(t, s).Delete("Junk").Wait(); err != nil {
		t.Errorf("a client deletes the folder: %v", err)
	}
}

func TestErrors(t *testing.T) {
	s := start(t, Options{})
	for name, err := range map[string]error{
		"CreateFolder, user":   s.CreateFolder("bob", "Junk"),
		"CreateFolder, folder": s.CreateFolder("ann", "INBOX"),
		"DeleteFolder, folder": s.DeleteFolder("ann", "Junk"),
		"Expunge, folder":      s.Expunge("ann", "Junk", 1),
		"SetUIDValidity, user": s.SetUIDValidity("bob", "INBOX", 1),
	} {
		_, what, _ := strings.Cut(name, ", ")
		want := map[string]string{"user": "bob", "folder": "of ann"}[what]
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want an error that names it", name, err)
		}
	}
	if _, err := s.Append("ann", "Junk", []byte("x")); err == nil {
		t.Error("Append to a folder that does not exist succeeds")
	}
	if _, err := Start(Options{ImplicitTLS: true}); err == nil {
		t.Error("Start takes ImplicitTLS without TLS")
	}
}

func TestLogin(t *testing.T) {
	cert, pool, err := testserver.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	server := &tls.Config{Certificates: []tls.Certificate{cert}}
	client := &imapclient.Options{TLSConfig: &tls.Config{RootCAs: pool, ServerName: "localhost"}}
	tests := []struct {
		name           string
		opts           Options
		dial           func(string, *imapclient.Options) (*imapclient.Client, error)
		user, password string
		ok             bool
	}{
		{"plain", Options{}, imapclient.DialInsecure, "ann", "x", true},
		{"wrong password", Options{}, imapclient.DialInsecure, "ann", "y", false},
		{"stranger", Options{}, imapclient.DialInsecure, "bob", "x", false},
		{"starttls", Options{TLS: server}, imapclient.DialStartTLS, "ann", "x", true},
		{"plain where starttls is offered", Options{TLS: server}, imapclient.DialInsecure, "ann", "x", false},
		{"tls", Options{TLS: server, ImplicitTLS: true}, imapclient.DialTLS, "ann", "x", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := tt.dial(start(t, tt.opts).Addr(), client)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			if err := c.Login(tt.user, tt.password).Wait(); tt.ok != (err == nil) {
				t.Errorf("login = %v; want success: %v", err, tt.ok)
			}
		})
	}
}
