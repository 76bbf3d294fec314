package testserver_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/wneessen/go-mail/smtp"

	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

// TestPostfix: it takes mail from a user of Dovecot after STARTTLS, hands it on, and comes back
// after Stop and Kill.
func TestPostfix(t *testing.T) {
	sink, err := smtpsink.Start(smtpsink.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sink.Close)
	users := testserver.Dovecot(t)
	users.AddUser(t, "ann", "pass word")
	s := testserver.Postfix(t, testserver.PostfixOptions{AuthPort: users.AuthPort, Next: sink.Port()})
	submit(t, s, "ann")
	s.Kill(t, "smtpd")
	submit(t, s, "ann")
	s.Drain(t)
	s.Stop(t)
	if conn, err := net.DialTimeout("tcp", net.JoinHostPort(s.Host, strconv.Itoa(s.Port)), time.Second); err == nil {
		_ = conn.Close()
		t.Error("it still listens after Stop")
	}
	s.Start(t)
	submit(t, s, "ann")
	s.Drain(t)
	if n := len(sink.Messages()); n != 3 {
		t.Errorf("%d messages were handed on, want 3", n)
	}
}

// submit hands it one message.
func submit(t *testing.T, s *testserver.SMTP, user string) {
	t.Helper()
	pem, err := os.ReadFile(s.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	c, err := smtp.Dial(net.JoinHostPort(s.Host, strconv.Itoa(s.Port)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	steps := []func() error{
		func() error { return c.StartTLS(&tls.Config{ServerName: s.Host, RootCAs: pool}) },
		func() error { return c.Auth(smtp.PlainAuth("", user, "pass word", s.Host, false)) },
		func() error { return c.Mail("ann@firm.example") },
		func() error { return c.Rcpt("someone@elsewhere.example") },
		func() error {
			w, err := c.Data()
			if err != nil {
				return err
			}
			letter := testserver.Mail("ann@firm.example", "someone@elsewhere.example", "hello", "The body.")
			if _, err := w.Write(letter); err != nil {
				return err
			}
			return w.Close()
		},
		c.Quit,
	}
	for i, step := range steps {
		if err := step(); err != nil {
			t.Fatalf("submit a message, step %d: %v", i+1, err)
		}
	}
}
