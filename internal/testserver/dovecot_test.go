package testserver

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
)

func dialDovecot(t *testing.T, s *IMAP, security, user, password string) (*imapclient.Client, error) {
	t.Helper()
	ca, err := os.ReadFile(s.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	opts := &imapclient.Options{TLSConfig: &tls.Config{RootCAs: pool, ServerName: "localhost"}}
	var c *imapclient.Client
	switch security {
	case "tls":
		c, err = imapclient.DialTLS(net.JoinHostPort(s.Host, strconv.Itoa(s.TLSPort)), opts)
	case "starttls":
		c, err = imapclient.DialStartTLS(net.JoinHostPort(s.Host, strconv.Itoa(s.Port)), opts)
	default:
		c, err = imapclient.DialInsecure(net.JoinHostPort(s.Host, strconv.Itoa(s.Port)), opts)
	}
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, c.Login(user, password).Wait()
}

func TestDovecotLogin(t *testing.T) {
	s := Dovecot(t)
	s.AddUser(t, "ann@example.com", "se:cret {x}")
	for _, security := range []string{"none", "starttls", "tls"} {
		t.Run(security, func(t *testing.T) {
			if _, err := dialDovecot(t, s, security, "ann@example.com", "se:cret {x}"); err != nil {
				t.Errorf("login: %v", err)
			}
		})
	}
	for _, user := range []string{"ann@example.com", "stranger@example.com"} {
		t.Run("wrong password of "+user, func(t *testing.T) {
			_, err := dialDovecot(t, s, "none", user, "wrong")
			var no *imap.Error
			if !errors.As(err, &no) || no.Code != imap.ResponseCodeAuthenticationFailed {
				t.Errorf("login = %v; want AUTHENTICATIONFAILED", err)
			}
		})
	}
	t.Run("SetPassword", func(t *testing.T) {
		s.SetPassword(t, "ann@example.com", "another")
		if _, err := dialDovecot(t, s, "none", "ann@example.com", "another"); err != nil {
			t.Errorf("login with the new password: %v", err)
		}
		if _, err := dialDovecot(t, s, "none", "ann@example.com", "se:cret {x}"); err == nil {
			t.Error("the old password still works")
		}
	})
}

func TestDovecotMessages(t *testing.T) {
	s := Dovecot(t)
	s.AddUser(t, "ann", "x")
	var msgs [][]byte
	for i := range 1000 {
		msgs = append(msgs, Mail("a@example.com", "ann@example.com", fmt.Sprintf("no. %d", i), "text\n.\n"))
	}
	uids := s.Append(t, "ann", "Post/In", msgs...)
	if len(uids) != 1000 || uids[0] != 1 || uids[999] != 1000 {
		t.Fatalf("Append returned %d UIDs, from %v; want 1 to 1000", len(uids), uids[0])
	}
	s.Expunge(t, "ann", "Post/In", 1, 3)
	if uids = s.Append(t, "ann", "Post/In", msgs[0]); !slices.Equal(uids, []uint32{1001}) {
		t.Errorf("Append after that returned %v; want [1001]", uids)
	}

	c, err := dialDovecot(t, s, "none", "ann", "x")
	if err != nil {
		t.Fatal(err)
	}
	selected, err := c.Select("Post/In", nil).Wait()
	if err != nil || selected.NumMessages != 999 {
		t.Fatalf("Select = %+v, %v; want 999 messages left", selected, err)
	}
	body := &imap.FetchItemBodySection{Peek: true}
	opts := &imap.FetchOptions{BodySection: []*imap.FetchItemBodySection{body}}
	fetched, err := c.Fetch(imap.UIDSetNum(2), opts).Collect()
	if err != nil || len(fetched) != 1 {
		t.Fatalf("fetch UID 2 = %d messages, %v; want one", len(fetched), err)
	}
	if got := fetched[0].FindBodySection(body); string(got) != string(msgs[1]) {
		t.Errorf("fetched:\n%q\nwant:\n%q", got, msgs[1])
	}
}

func TestDovecotUIDValidity(t *testing.T) {
	s := Dovecot(t)
	s.AddUser(t, "ann", "x")
	c, err := dialDovecot(t, s, "none", "ann", "x")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[uint32]bool{}
	for i := range 5 {
		s.CreateFolder(t, "ann", "Again")
		uids := s.Append(t, "ann", "Again", Mail("a@x.example", "b@x.example", "s", "b"))
		if !slices.Equal(uids, []uint32{1}) {
			t.Fatalf("UIDs of a new folder = %v; want [1]", uids)
		}
		status, err := c.Status("Again", &imap.StatusOptions{UIDValidity: true}).Wait()
		if err != nil {
			t.Fatal(err)
		}
		if seen[status.UIDValidity] {
			t.Errorf("folder made for the %d. time has the UIDVALIDITY %d of an earlier one", i+1, status.UIDValidity)
		}
		seen[status.UIDValidity] = true
		s.DeleteFolder(t, "ann", "Again")
	}
}

func TestDovecotManyConnections(t *testing.T) {
	s := Dovecot(t)
	s.AddUser(t, "ann", "x")
	for i := range 40 {
		if _, err := dialDovecot(t, s, "tls", "ann", "x"); err != nil {
			t.Fatalf("connection %d: %v", i+1, err)
		}
	}
}
