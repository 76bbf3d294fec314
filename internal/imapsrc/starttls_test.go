package imapsrc_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/testserver"
	"postrider/internal/testserver/fakeimap"
)

// overTLS continues under TLS with these replies: the first is the greeting, each other one answers
// the client's next line.
func overTLS(cert tls.Certificate, conn net.Conn, replies ...string) {
	secured := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{cert}})
	if secured.Handshake() != nil {
		return
	}
	r := bufio.NewReader(secured)
	tag := ""
	for i, reply := range replies {
		if i > 0 {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			tag, _, _ = strings.Cut(line, " ")
		}
		_, _ = io.WriteString(secured, strings.ReplaceAll(reply, "{tag}", tag))
	}
	_ = secured.Close() // sends close_notify, the regular end of TLS
}

func TestStartTLSRefused(t *testing.T) {
	askedTLS := func(reply string) fakeimap.Step {
		return fakeimap.Step{Expect: "S1 STARTTLS$", Reply: reply, Close: true}
	}
	for name, tc := range map[string]struct {
		steps []fakeimap.Step
		kind  imapsrc.Kind
		says  string
	}{
		"not offered": {
			[]fakeimap.Step{greeting, askedTLS("{tag} BAD unknown\r\n")},
			imapsrc.KindPlaintext, "does not offer STARTTLS (BAD unknown); use security tls",
		},
		"refused for now": {
			[]fakeimap.Step{greeting, askedTLS("{tag} NO [UNAVAILABLE] later\r\n")},
			imapsrc.KindUnavailable, "the server refused STARTTLS (NO [UNAVAILABLE] later)",
		},
		"refused": {
			[]fakeimap.Step{greeting, askedTLS("{tag} NO no\r\n")},
			imapsrc.KindPlaintext, "does not offer STARTTLS (NO no); use security tls",
		},
		"logs in by itself": {[]fakeimap.Step{{Reply: "* PREAUTH hi\r\n"}}, imapsrc.KindPlaintext, "before TLS"},
		"injected answer": {[]fakeimap.Step{
			greeting,
			askedTLS("{tag} OK go\r\n* CAPABILITY IMAP4rev1 AUTH=PLAIN\r\n"),
		}, imapsrc.KindTLS, "the server takes STARTTLS, and then sends no TLS"},
		"untagged lines, then OK": {
			[]fakeimap.Step{greeting, askedTLS("* OK wait\r\n{tag} OK go\r\n")},
			imapsrc.KindNetwork, "start TLS: EOF",
		},
		"lines without end": {
			[]fakeimap.Step{greeting, askedTLS(strings.Repeat("* OK wait\r\n", 200))},
			imapsrc.KindProtocol, "sends without end",
		},
		"a line without end": {
			[]fakeimap.Step{{Reply: strings.Repeat("x", 10000), Close: true}},
			imapsrc.KindProtocol, "sends without end",
		},
		"no IMAP server": {
			[]fakeimap.Step{{Reply: "220 ESMTP\r\n", Close: true}},
			imapsrc.KindNetwork,
			"this is not an IMAP server",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := fake(t, tc.steps...)
			cfg.Security, cfg.DialTimeout = imapsrc.SecurityStartTLS, 5*time.Second
			_, err := imapsrc.Dial(t.Context(), cfg)
			wantError(t, err, tc.kind, tc.says)
		})
	}
}

func TestCapabilitiesFromBeforeTLSAreForgotten(t *testing.T) {
	cert, pool, err := testserver.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	cfg := fakeConfig(t, func(c *fakeimap.Conn) {
		c.Send("* OK [CAPABILITY IMAP4rev1 STARTTLS AUTH=PLAIN SASL-IR] hi\r\n")
		c.ReadLine()
		c.Send("{tag} OK go\r\n")
		overTLS(cert, c.Conn, "",
			"* CAPABILITY IMAP4rev1 LOGINDISABLED AUTH=XOAUTH2\r\n{tag} OK\r\n", "* BYE\r\n{tag} OK\r\n")
	})
	cfg.Security, cfg.RootCAs = imapsrc.SecurityStartTLS, pool
	_, err = imapsrc.Dial(t.Context(), cfg)
	wantError(t, err, imapsrc.KindAuth, "accepts no password (it offers AUTH=XOAUTH2)")
}

func TestTLSEndsCleanlyInALiteral(t *testing.T) {
	cert, pool, err := testserver.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	cfg := fakeConfig(t, func(c *fakeimap.Conn) {
		overTLS(cert, c.Conn, greeting.Reply, loggedIn.Reply, examined.Reply,
			"* 1 FETCH (UID 4 BODY[] {1000}\r\nSubject: half\r\n\r\n")
	})
	cfg.Security, cfg.RootCAs = imapsrc.SecurityTLS, pool
	c := dial(t, cfg)
	selectInbox(t, c)
	got, result, err := collect(t, c, []uint32{4})
	wantError(t, err, imapsrc.KindNetwork, "closed the connection")
	if len(got)+len(result.Vanished)+len(result.Failed) != 0 {
		t.Errorf("Bodies = %v, %+v; want nothing: the message was cut", got, result)
	}
}

// TestNoCommonCipher: Go has no key exchange with RSA any more.
func TestNoCommonCipher(t *testing.T) {
	cert, pool, err := testserver.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	cfg := fakeConfig(t, func(c *fakeimap.Conn) {
		_ = tls.Server(c.Conn, &tls.Config{
			Certificates: []tls.Certificate{cert}, MaxVersion: tls.VersionTLS12,
			CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_GCM_SHA256},
		}).Handshake()
	})
	cfg.Security, cfg.RootCAs = imapsrc.SecurityTLS, pool
	_, err = imapsrc.Dial(t.Context(), cfg)
	wantError(t, err, imapsrc.KindTLS, "no cipher suite in common with postrider; it needs one with ECDHE")
}

func TestOldTLSIsRefused(t *testing.T) {
	cert, pool, err := testserver.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	cfg := fakeConfig(t, func(c *fakeimap.Conn) {
		_ = tls.Server(c.Conn,
			&tls.Config{
				Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS10,
				MaxVersion: tls.VersionTLS11,
			}).Handshake()
	})
	cfg.Security, cfg.RootCAs = imapsrc.SecurityTLS, pool
	_, err = imapsrc.Dial(t.Context(), cfg)
	wantError(t, err, imapsrc.KindTLS, "TLS 1.2 or later")
}
