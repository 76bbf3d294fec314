package smtpsink_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"strings"
	"testing"

	"github.com/wneessen/go-mail/smtp"

	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

var mechanisms = []string{"PLAIN", "LOGIN", "CRAM-MD5", "SCRAM-SHA-1", "SCRAM-SHA-256"}

// authFor lets a client that is not ours log in.
func authFor(mechanism, user, password string) smtp.Auth {
	switch mechanism {
	case "PLAIN":
		return smtp.PlainAuth("", user, password, "127.0.0.1", true)
	case "LOGIN":
		return smtp.LoginAuth(user, password, "127.0.0.1", true)
	case "CRAM-MD5":
		return smtp.CRAMMD5Auth(user, password)
	case "SCRAM-SHA-1":
		return smtp.ScramSHA1Auth(user, password)
	default:
		return smtp.ScramSHA256Auth(user, password)
	}
}

func TestAuth(t *testing.T) {
	s := start(t, smtpsink.Options{Auth: mechanisms, Users: map[string]string{"a=n,n": "pass word"}})
	for _, mechanism := range mechanisms {
		for _, tt := range []struct {
			user, password string
			ok             bool
		}{
			{"a=n,n", "pass word", true},
			{"a=n,n", "wrong", false},
			{"stranger", "pass word", false},
		} {
			t.Run(fmt.Sprintf("%s/%s %s", mechanism, tt.user, tt.password), func(t *testing.T) {
				s.Reset()
				c, err := smtp.Dial(s.Addr())
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = c.Close() }()
				if err := c.Hello("test"); err != nil {
					t.Fatal(err)
				}
				err = c.Auth(authFor(mechanism, tt.user, tt.password))
				if tt.ok != (err == nil) || !tt.ok && !strings.Contains(err.Error(), "535") {
					t.Fatalf("login = %v; want success: %v, or else 535", err, tt.ok)
				}
				if !tt.ok {
					return
				}
				c.SkipSMTPUTF8(true)
				if err := send(c, "<a@x.example>", "<b@x.example>"); err != nil {
					t.Fatal(err)
				}
				if got := s.Messages()[0].User; got != tt.user {
					t.Errorf("the message is from user %q; want %q", got, tt.user)
				}
			})
		}
	}
}

func send(c *smtp.Client, from, to string) error {
	if err := c.Mail(from); err != nil {
		return err
	}
	if err := c.Rcpt(to); err != nil {
		return err
	}
	w, err := c.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write([]byte("Subject: x\r\n\r\nx\r\n")); err != nil {
		return err
	}
	return w.Close()
}

func TestAuthByHand(t *testing.T) {
	tests := []struct {
		name  string
		steps [][2]string
	}{
		{"mail without login", [][2]string{{"MAIL FROM:<a@x>", "530"}}},
		{"unknown mechanism", [][2]string{{"AUTH NTLM", "504"}}},
		{
			"PLAIN after an empty challenge",
			[][2]string{{"AUTH PLAIN", "334"}, {"AGFubgB4", "235"}, {"MAIL FROM:<a@x>", "250"}},
		},
		{"cancelled", [][2]string{{"AUTH PLAIN", "334"}, {"*", "501"}, {"NOOP", "250"}}},
		{"not base64", [][2]string{{"AUTH PLAIN ???", "501"}}},
		{"empty response", [][2]string{{"AUTH PLAIN =", "535"}}},
		{"channel binding that was not offered", [][2]string{{"AUTH SCRAM-SHA-1 cD10bHM=", "535"}}},
		{"twice", [][2]string{{"AUTH PLAIN AGFubgB4", "235"}, {"AUTH PLAIN AGFubgB4", "503"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := dial(t, start(t, smtpsink.Options{Auth: mechanisms, Users: map[string]string{"ann": "x"}}))
			c.talk(hello...)
			c.talk(tt.steps...)
		})
	}
}

func TestAuthEventHasNoSecret(t *testing.T) {
	var seen smtpsink.Event
	reply := func(e smtpsink.Event) smtpsink.Action {
		if e.Stage != "auth" {
			return smtpsink.Action{}
		}
		seen = e
		return smtpsink.Action{Code: 454, Text: "4.7.0 later"}
	}
	s := start(t, smtpsink.Options{Auth: []string{"PLAIN"}, Users: map[string]string{"ann": "x"}, Reply: reply})
	c := dial(t, s)
	c.talk(hello...)
	c.talk([2]string{"AUTH PLAIN AGFubgB4", "454 4.7.0 later"}, [2]string{"MAIL FROM:<a@x>", "530"})
	s.Close()
	if seen.Arg != "PLAIN" {
		t.Errorf("the event's Arg is %q; want the mechanism alone", seen.Arg)
	}
}

func TestTLS(t *testing.T) {
	cert, pool, err := testserver.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	server := &tls.Config{Certificates: []tls.Certificate{cert}}
	trusting := &tls.Config{RootCAs: pool, ServerName: "localhost"}
	t.Run("STARTTLS", func(t *testing.T) {
		s := start(t, smtpsink.Options{TLS: server, Auth: []string{"PLAIN"}, Users: map[string]string{"ann": "x"}})
		raw := dial(t, s)
		raw.talk([2]string{"", "220"}, [2]string{"EHLO t", "250-smtpsink|250 STARTTLS"})
		raw.talk([2]string{"AUTH PLAIN AGFubgB4", "503"})

		c, err := smtp.Dial(s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if err := c.StartTLS(trusting); err != nil {
			t.Fatal(err)
		}
		if offered, _ := c.Extension("STARTTLS"); offered {
			t.Error("STARTTLS is offered again on TLS")
		}
		if err := c.Auth(authFor("PLAIN", "ann", "x")); err != nil {
			t.Fatal(err)
		}
		if err := send(c, "<a@x.example>", "<b@x.example>"); err != nil || !s.Messages()[0].TLS {
			t.Errorf("send = %v; want a message that says TLS", err)
		}
	})
	t.Run("STARTTLS forgets what was said before", func(t *testing.T) {
		raw := dial(t, start(t, smtpsink.Options{TLS: server}))
		raw.talk(hello...)
		raw.talk([2]string{"STARTTLS", "220"})
		conn := tls.Client(raw.conn, trusting)
		secure := &client{t: t, conn: conn, r: bufio.NewReader(conn)}
		secure.talk([2]string{"MAIL FROM:<a@x>", "503"}, [2]string{"STARTTLS", "502"})
		secure.talk([2]string{"EHLO t", "250"}, [2]string{"MAIL FROM:<a@x>", "250"})
	})
	t.Run("implicit", func(t *testing.T) {
		s := start(t, smtpsink.Options{TLS: server, ImplicitTLS: true})
		conn, err := tls.Dial("tcp", s.Addr(), trusting)
		if err != nil {
			t.Fatal(err)
		}
		c, err := smtp.NewClient(conn, "127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if err := send(c, "<a@x.example>", "<b@x.example>"); err != nil || !s.Messages()[0].TLS {
			t.Errorf("send = %v; want a message that says TLS", err)
		}
	})
	t.Run("a certificate that the client does not trust", func(t *testing.T) {
		s := start(t, smtpsink.Options{TLS: server})
		c, err := smtp.Dial(s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if err := c.StartTLS(&tls.Config{ServerName: "localhost"}); err == nil {
			t.Error("STARTTLS succeeds; want it to fail")
		}
	})
	if _, err := smtpsink.Start(smtpsink.Options{ImplicitTLS: true}); err == nil {
		t.Error("Start takes ImplicitTLS without TLS; want an error")
	}
}
