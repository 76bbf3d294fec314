package forward

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
	"postrider/internal/transcript"
)

const (
	user     = "for,ward=er"
	password = "pa ss§wörd"
)

func login(c *Config) { c.Username, c.Password = user, password }

func mechanismOf(auth string) func(*Config) { return func(c *Config) { c.Auth = auth } }

func security(s string, pool *x509.CertPool) func(*Config) {
	return func(c *Config) { c.Security, c.RootCAs = s, pool }
}

func serverTLS(t *testing.T) (*tls.Config, *x509.CertPool) {
	t.Helper()
	cert, pool, err := testserver.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}}, pool
}

func TestLogin(t *testing.T) {
	conf, pool := serverTLS(t)
	tests := []struct {
		name, security string
		offered        []string
		want           string
	}{
		{"PLAIN", "none", []string{"PLAIN"}, "PLAIN"},
		{"LOGIN", "none", []string{"LOGIN"}, "LOGIN"},
		{"CRAM-MD5", "none", []string{"CRAM-MD5"}, "CRAM-MD5"},
		{"SCRAM-SHA-1", "none", []string{"SCRAM-SHA-1"}, "SCRAM-SHA-1"},
		{"SCRAM-SHA-256", "none", []string{"SCRAM-SHA-256"}, "SCRAM-SHA-256"},
		{
			"the strongest", "none",
			[]string{"LOGIN", "PLAIN", "CRAM-MD5", "SCRAM-SHA-1", "SCRAM-SHA-256"},
			"SCRAM-SHA-256",
		},
		{
			"without TLS no channel binding", "none",
			[]string{"SCRAM-SHA-256-PLUS", "SCRAM-SHA-1-PLUS", "LOGIN"},
			"LOGIN",
		},
		{"unknown ones are ignored", "none", []string{"XOAUTH2", "GSSAPI", "PLAIN"}, "PLAIN"},
		{"STARTTLS", "starttls", []string{"PLAIN", "LOGIN"}, "PLAIN"},
		{"TLS", "tls", []string{"SCRAM-SHA-256", "PLAIN"}, "SCRAM-SHA-256"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			opts := smtpsink.Options{Auth: tt.offered, Users: map[string]string{user: password}}
			if tt.security != "none" {
				opts.TLS, opts.ImplicitTLS = conf, tt.security == "tls"
			}
			s := sink(t, opts)
			r := relayOn(t, s.Port(), login, security(tt.security, pool))
			info, err := r.Info(t.Context(), nil)
			if err != nil || info.Login != tt.want || (info.TLS == "TLS 1.3") != (tt.security != "none") {
				t.Errorf("Info = %+v, %v, want a login with %s", info, err, tt.want)
			}
			mustSend(t, r)
			if m := s.Messages()[0]; m.User != user || m.TLS != (tt.security != "none") {
				t.Errorf("the message came from %q, TLS %v, want %q and TLS unless security is none",
					m.User, m.TLS, user)
			}
		})
	}
}

// TestLoginWithOneMechanism: smtp.auth names it.
func TestLoginWithOneMechanism(t *testing.T) {
	for auth, want := range map[string]string{"password": "SCRAM-SHA-256", "plain": "PLAIN", "login": "LOGIN"} {
		s := sink(t, smtpsink.Options{
			Auth:  []string{"SCRAM-SHA-256", "CRAM-MD5", "PLAIN", "LOGIN"},
			Users: map[string]string{user: password},
		})
		info, err := relayOn(t, s.Port(), login, mechanismOf(auth)).Info(t.Context(), nil)
		if err != nil || info.Login != want {
			t.Errorf("%s: Info = %+v, %v, want a login with %s", auth, info, err, want)
		}
	}
}

// TestTLSSessionIsResumed: the second connection does not negotiate TLS from the beginning.
func TestTLSSessionIsResumed(t *testing.T) {
	conf, pool := serverTLS(t)
	var resumed []bool // one connection after the other
	conf.VerifyConnection = func(state tls.ConnectionState) error {
		resumed = append(resumed, state.DidResume)
		return nil
	}
	for _, how := range []string{"starttls", "tls"} {
		s := sink(t, smtpsink.Options{TLS: conf, ImplicitTLS: how == "tls"})
		r := relayOn(t, s.Port(), security(how, pool), func(c *Config) { c.PerConnection = 1 })
		resumed = nil
		mustSend(t, r)
		mustSend(t, r)
		if !slices.Equal(resumed, []bool{false, true}) {
			t.Errorf("%s: sessions were resumed: %v, want the second one", how, resumed)
		}
	}
}

func TestOpenFails(t *testing.T) {
	conf, pool := serverTLS(t)
	users := map[string]string{user: "another"}
	auth := func(mechanisms ...string) smtpsink.Options {
		return smtpsink.Options{Auth: mechanisms, Users: users}
	}
	bare, startTLS := smtpsink.Options{}, smtpsink.Options{TLS: conf}
	overTLS := smtpsink.Options{TLS: conf, ImplicitTLS: true}
	echo := auth("PLAIN")
	echo.Reply = script(answers{
		"auth": say(501, "5.5.2 syntax: AUTH PLAIN AGZvcix3YXJkPWVyAHBhIHNzwqd3w7ZyZA== "+password),
	})
	notNow := smtpsink.Options{TLS: conf, Reply: script(answers{"starttls": say(454, "4.7.0 not now")})}
	with := func(changes ...func(*Config)) []func(*Config) { return changes }
	elsewhere := func(c *Config) { c.Host = "127.0.0.2" }
	tests := []struct {
		name   string
		opts   smtpsink.Options
		change []func(*Config)
		fault  string
		says   string
	}{
		{"wrong password", auth("PLAIN"), with(login), "AUTH 535 permanent", "check smtp.username and smtp.password"},
		{"wrong password, SCRAM", auth("SCRAM-SHA-256"), with(login), "AUTH 535 permanent", "smtp.password"},
		{"wrong password, CRAM-MD5", auth("CRAM-MD5"), with(login), "AUTH 535 permanent", "smtp.password"},
		{
			"CRAM-MD5 before PLAIN", auth("CRAM-MD5", "LOGIN", "PLAIN"), with(login),
			"AUTH 535 permanent", "may be unable to check CRAM-MD5: set smtp.auth to plain",
		},
		{
			"SCRAM before LOGIN", auth("SCRAM-SHA-1", "LOGIN"), with(login),
			"AUTH 535 permanent", "may be unable to check SCRAM-SHA-1: set smtp.auth to login",
		},
		{
			"only PLAIN is wanted", auth("CRAM-MD5", "LOGIN"), with(login, mechanismOf("plain")),
			"AUTH 0 permanent", "offers only CRAM-MD5 LOGIN: remove smtp.auth: plain",
		},
		{"wrong password, LOGIN", auth("LOGIN"), with(login), "AUTH 535 permanent", "smtp.password"},
		{"the relay repeats the password", echo, with(login), "AUTH 501 permanent", "AUTH PLAIN ***"},
		{"no login offered", bare, with(login), "AUTH 0 permanent", "smtp.security"},
		{"no login offered, TLS", overTLS, with(login, security("tls", pool)), "AUTH 0 permanent", "submission"},
		{"no way to log in", auth("GSSAPI"), with(login), "AUTH 0 permanent", "GSSAPI"},
		{"no STARTTLS", bare, with(security("starttls", pool)), "STARTTLS 0 permanent", "smtp.security to tls"},
		{"STARTTLS refused", notNow, with(security("starttls", pool)), "STARTTLS 454 temporary", "not now"},
		{"certificate, TLS", overTLS, with(security("tls", nil)), "TLS 0 permanent", "smtp.ca_file"},
		{"certificate, STARTTLS", startTLS, with(security("starttls", nil)), "TLS 0 permanent", "authority"},
		{
			"another name in the certificate", overTLS, with(security("tls", pool), elsewhere),
			"TLS 0 permanent", "smtp.host",
		},
		{"no TLS at that port", bare, with(security("tls", pool)), "TLS 0 permanent", "starttls"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := sink(t, tt.opts)
			r := relayOn(t, s.Port(), tt.change...)
			if r.cfg.Host == "127.0.0.2" {
				r.addr = s.Addr() // not every system answers there; the name for TLS counts
			}
			res, err := send(t, r, content(t, plain), "a@x.example")
			if briefError(err) != tt.fault || len(res.Outcomes) > 0 {
				t.Fatalf("Send = %q, %v, want no outcome and %q", brief(res), err, tt.fault)
			}
			for _, want := range []string{fmt.Sprintf("relay 127.0.0.1:%d: ", s.Port()), tt.says} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q, want %q in it", err, want)
				}
			}
			if strings.Contains(err.Error(), password) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q, want one line without the password", err)
			}
			if _, err := r.Info(t.Context(), nil); briefError(err) != tt.fault {
				t.Errorf("Info = %v, want %q", err, tt.fault)
			}
		})
	}
}

// TestFailedOpenClosesTheConnection: the library leaves it open when the session fails after the
// greeting.
func TestFailedOpenClosesTheConnection(t *testing.T) {
	port, done := rude(t, 0, nil)
	_, err := relayOn(t, port, security("starttls", nil)).Info(t.Context(), nil)
	if briefError(err) != "STARTTLS 0 permanent" {
		t.Errorf("Info = %v, want STARTTLS not offered", err)
	}
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("the connection is still open, want it closed")
	}
}

func TestNobodyListens(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	_ = ln.Close()
	_, err = send(t, relayOn(t, port), content(t, plain), "a@x.example")
	if got := briefError(err); got != "connect 0 temporary" {
		t.Errorf("error %q (%v), want the relay's", got, err)
	}
	if _, ok := errors.AsType[*net.OpError](err); !ok {
		t.Errorf("error %v, want the system's error in it", err)
	}
}

func TestNewRelay(t *testing.T) {
	good := Config{
		Host: "smtp.example.com", Port: 587, Security: "starttls", Username: "u", Password: "p",
		From: "F <f@example.com>",
	}
	if _, err := NewRelay(good); err != nil {
		t.Fatalf("a good configuration: %v", err)
	}
	tests := []struct {
		name   string
		change func(*Config)
		says   string // empty: it is fine
	}{
		{"no host", func(c *Config) { c.Host = "" }, "smtp.host"},
		{"no port", func(c *Config) { c.Port = 0 }, "smtp.port"},
		{"unknown security", func(c *Config) { c.Security = "ssl" }, "smtp.security"},
		{"plain text over the network", func(c *Config) { c.Security = "none" }, "plain text"},
		{"plain text, as told", func(c *Config) { c.Security, c.AllowPlaintext = "none", true }, ""},
		{"plain text on loopback", func(c *Config) { c.Security, c.Host = "none", "localhost" }, ""},
		{"plain text on loopback, IPv6", func(c *Config) { c.Security, c.Host = "none", "::1" }, ""},
		{"plain text without a login", func(c *Config) { c.Security, c.Username = "none", "" }, ""},
		{"no sender", func(c *Config) { c.From = "" }, "forward.from"},
		{"no sender in keep", func(c *Config) { c.From, c.EnvelopeFrom = "", "keep" }, "forward.from"},
		{"only an envelope sender", func(c *Config) { c.From, c.EnvelopeFrom = "", "f@example.com" }, ""},
		{"srs", func(c *Config) { c.EnvelopeFrom = "srs" }, "forward.envelope_from"},
		{"srs, as it should be", bySRS(t), ""},
		{"no address for what srs cannot rewrite", func(c *Config) { bySRS(t)(c); c.From = "" }, "forward.from"},
		{"bad sender", func(c *Config) { c.From = "F <f@exa mple.com>" }, "forward.from"},
		{"bad name", func(c *Config) { c.LocalName = "a b" }, "EHLO"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := good
			tt.change(&cfg)
			_, err := NewRelay(cfg)
			if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("NewRelay = %v, want an error with %q", err, tt.says)
			}
		})
	}
}

// TestTranscript: the log at its lowest level has the session, encrypted or not, without the
// password and the content.
func TestTranscript(t *testing.T) {
	conf, pool := serverTLS(t)
	for _, how := range []string{"none", "starttls", "tls"} {
		t.Run(how, func(t *testing.T) {
			opts := smtpsink.Options{Auth: []string{"LOGIN"}, Users: map[string]string{user: password}}
			if how != "none" {
				opts.TLS, opts.ImplicitTLS = conf, how == "tls"
			}
			s := sink(t, opts)
			var out strings.Builder
			r := relayOn(t, s.Port(), login, security(how, pool), func(c *Config) {
				c.Logger = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: transcript.Level}))
			})
			mustSend(t, r)
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			log, want := out.String(), []string{
				"C: EHLO ", "C: AUTH LOGIN ***", "S: 235 ***", "C: MAIL FROM:<", "C: DATA",
				"C: (a message of ", "C: QUIT",
			}
			if how == "starttls" {
				want = append(want, "C: STARTTLS", "S: 220 ")
			}
			for _, line := range want {
				times := 1
				if how == "starttls" && line == "C: EHLO " {
					times = 2 // again under TLS
				}
				if strings.Count(log, line) != times {
					t.Errorf("%q occurs %d times, want %d, in:\n%s", line, strings.Count(log, line), times, log)
				}
			}
			for _, secret := range []string{
				password, base64.StdEncoding.EncodeToString([]byte(password)), "Subject",
			} {
				if strings.Contains(log, secret) {
					t.Errorf("the password or the content is in the log:\n%s", log)
				}
			}
		})
	}
}

// TestNoTLSAfterSTARTTLS: the fix does not name what is set already.
func TestNoTLSAfterSTARTTLS(t *testing.T) {
	port := testserver.Listen(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		for _, reply := range []string{"220 here", "250-here\r\n250 STARTTLS", "220 go on"} {
			_, _ = io.WriteString(c, reply+"\r\n")
			_, _ = in.ReadByte() // of the next command, or of TLS
			_, _ = in.Discard(in.Buffered())
		}
		_, _ = io.WriteString(c, "500 what?\r\n")
		_, _ = io.Copy(io.Discard, c)
	})
	_, err := relayOn(t, port, func(c *Config) { c.Security = "starttls" }).Info(t.Context(), nil)
	e, ok := errors.AsType[*Error](err)
	if !ok || briefError(err) != "TLS 0 permanent" ||
		!strings.Contains(e.Fix, "it takes STARTTLS, and then sends no TLS") {
		t.Errorf("Info = %v, want that it sends no TLS after STARTTLS", err)
	}
}
