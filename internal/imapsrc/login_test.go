package imapsrc_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/testserver"
	"postrider/internal/testserver/fakeimap"
)

// TestExpired: the error for an inbox that is being added says what to do, too.
func TestExpired(t *testing.T) {
	refused := fakeimap.Step{Expect: "LOGIN", Reply: "{tag} NO [EXPIRED] old\r\n"}
	cfg := fake(t, greeting, refused, logout)
	cfg.Unstored = true
	_, err := imapsrc.Dial(t.Context(), cfg)
	wantError(t, err, imapsrc.KindExpired,
		"; change it at the provider, then try again with the right one; nothing was stored")
}

func TestLoginRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		reply string
		kind  imapsrc.Kind
		says  string
	}{
		"no code": {
			"{tag} NO login failed", imapsrc.KindAuth,
			"the server refused the password (NO login failed); set it with `postrider inbox set ann --password-stdin`",
		},
		"failed": {
			"{tag} NO [AUTHENTICATIONFAILED] bad", imapsrc.KindAuth,
			"(NO [AUTHENTICATIONFAILED] bad)",
		},
		"expired":     {"{tag} NO [EXPIRED] old", imapsrc.KindExpired, "the password has expired"},
		"unavailable": {"{tag} NO [UNAVAILABLE] later", imapsrc.KindUnavailable, "later"},
		"Exchange":    {"{tag} NO Server Unavailable. 15", imapsrc.KindUnavailable, ": NO Server Unavailable. 15"},
		"server bug":  {"{tag} NO [SERVERBUG] oops", imapsrc.KindUnavailable, "oops"},
		"limit":       {"{tag} NO [LIMIT] enough", imapsrc.KindLimit, "enough"},
		"limit in words": {
			"{tag} NO [ALERT] Too many simultaneous connections. (Failure)", imapsrc.KindLimit,
			"simultaneous",
		},
		"in use": {"{tag} NO [INUSE] locked", imapsrc.KindInUse, "locked"},
		"privacy": {
			"{tag} NO [PRIVACYREQUIRED] use TLS", imapsrc.KindPlaintext,
			"use security tls or starttls",
		},
		"a code without end": {"{tag} NO [Invalid password", imapsrc.KindAuth, "NO [INVALID]"},
		"bad":                {"{tag} BAD what", imapsrc.KindProtocol, "BAD what"},
		"goodbye": {
			"* BYE [LIMIT] enough of you", imapsrc.KindLimit,
			"the server ended the connection (BYE [LIMIT] enough of you)",
		},
		"hangs up":           {"", imapsrc.KindNetwork, "the server closed the connection"},
		"echoes":             {"{tag} NO ann with sesame?", imapsrc.KindAuth, "(NO ann with ***?)"},
		"control characters": {"{tag} NO \x1b[31mred\x00\tand \xff", imapsrc.KindAuth, "(NO [31mred and ?)"},
		"long": {
			"{tag} NO " + strings.Repeat("x", 500), imapsrc.KindAuth,
			strings.Repeat("x", 196) + "…)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			step := fakeimap.Step{
				Expect: "LOGIN", Reply: tc.reply + "\r\n",
				Close: strings.HasPrefix(tc.reply, "*") || tc.reply == "",
			}
			if tc.reply == "" {
				step.Reply = ""
			}
			_, err := imapsrc.Dial(t.Context(), fake(t, greeting, step, logout))
			wantError(t, err, tc.kind, ": log in as ann: ", tc.says)
			if strings.Contains(err.Error(), "sesame") {
				t.Errorf("error = %q; want it without the password", err)
			}
		})
	}
}

func TestLoginBackOff(t *testing.T) {
	for asked, want := range map[string]time.Duration{"299961": 299961 * time.Millisecond, "4294967295": time.Hour} {
		t.Run(asked, func(t *testing.T) {
			_, err := imapsrc.Dial(t.Context(), fake(t, greeting,
				fakeimap.Step{
					Expect: "LOGIN",
					Reply:  "{tag} NO Request is throttled. Suggested Backoff Time: " + asked + " milliseconds\r\n",
				}, logout))
			wantError(t, err, imapsrc.KindLimit, "throttled")
			if got := imapsrc.BackOffOf(err); got != want {
				t.Errorf("BackOff = %v; want %v", got, want)
			}
		})
	}
}

func TestLoginMechanisms(t *testing.T) {
	plain := "AHVzZXIAcA==" // NUL user NUL p
	for name, tc := range map[string]struct {
		caps, auth, expect string
	}{
		"plain is preferred":      {"AUTH=PLAIN SASL-IR", "auto", "AUTHENTICATE PLAIN " + plain + "$"},
		"login when asked for":    {"AUTH=PLAIN SASL-IR", "login", `LOGIN "user" "p"$`},
		"login when nothing else": {"AUTH=XOAUTH2", "", `LOGIN "user" "p"$`},
		"plain when asked for":    {"AUTH=PLAIN SASL-IR", "plain", "AUTHENTICATE PLAIN " + plain + "$"},
		"plain though no LOGIN":   {"AUTH=PLAIN LOGINDISABLED SASL-IR", "auto", "AUTHENTICATE PLAIN " + plain + "$"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := fake(t, fakeimap.Step{Reply: "* OK [CAPABILITY IMAP4rev1 " + tc.caps + "] hi\r\n"},
				fakeimap.Step{Expect: tc.expect, Reply: "{tag} OK [CAPABILITY IMAP4rev1] in\r\n"}, logout)
			cfg.Username, cfg.Password, cfg.Auth = "user", "p", tc.auth
			dial(t, cfg)
		})
	}
}

func TestLoginWithoutSASLIR(t *testing.T) {
	dial(t, fake(t, fakeimap.Step{Reply: "* OK [CAPABILITY IMAP4rev1 AUTH=PLAIN] hi\r\n"},
		fakeimap.Step{Expect: "AUTHENTICATE PLAIN$", Reply: "+ \r\n"},
		fakeimap.Step{Expect: "AGFubgBzZXNhbWU=", Reply: "T1 OK [CAPABILITY IMAP4rev1] in\r\n"}, logout))
}

func TestLoginNotPossible(t *testing.T) {
	cfg := fake(t, fakeimap.Step{Reply: "* OK [CAPABILITY IMAP4rev1 LOGINDISABLED AUTH=XOAUTH2] hi\r\n"}, logout)
	_, err := imapsrc.Dial(t.Context(), cfg)
	wantError(t, err, imapsrc.KindPlaintext, "accepts no password on an unencrypted connection")
}

func TestLoginNotPossibleOverTLS(t *testing.T) {
	cert, pool, err := testserver.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	cfg := fakeConfig(t, func(c *fakeimap.Conn) {
		overTLS(cert, c.Conn, "* OK [CAPABILITY IMAP4rev1 LOGINDISABLED AUTH=XOAUTH2] hi\r\n", logout.Reply)
	})
	cfg.Security, cfg.RootCAs = imapsrc.SecurityTLS, pool
	_, err = imapsrc.Dial(t.Context(), cfg)
	wantError(t, err, imapsrc.KindAuth, "accepts no password (it offers AUTH=XOAUTH2)")
}

func TestPreAuth(t *testing.T) {
	c := dial(t, fake(t, fakeimap.Step{Reply: "* PREAUTH [CAPABILITY IMAP4rev1] hi ann\r\n"}, offers, examined, logout))
	selectInbox(t, c)
}

// TestCapabilitiesAfterLogin: they change with the login, and are asked for unless the tagged OK
// lists them. The library, too, asks when it does not find them there.
func TestCapabilitiesAfterLogin(t *testing.T) {
	more := strings.Repeat(" X-MORE", 100)
	for name, tc := range map[string]struct {
		reply string
		want  string
	}{
		"listed":            {"{tag} OK [CAPABILITY IMAP4rev1 X-LISTED] in\r\n", "X-LISTED"},
		"listed, long":      {"{tag} ok [CAPABILITY IMAP4rev1 X-LISTED" + more + "] in\r\n", "X-LISTED"},
		"not listed":        {"{tag} OK in\r\n", "X-ASKED"},
		"another code":      {"{tag} OK [CAPABILITYS IMAP4rev1 X-LISTED] in\r\n", "X-ASKED"},
		"in lower case":     {"{tag} OK [capability IMAP4rev1 X-LISTED] in\r\n", "X-LISTED"},
		"in the text":       {"{tag} OK in [CAPABILITY IMAP4rev1 X-LISTED]\r\n", "X-ASKED"},
		"untagged":          {"* CAPABILITY IMAP4rev1 X-LISTED\r\n{tag} OK in\r\n", "X-ASKED"},
		"in an untagged OK": {"* OK [CAPABILITY IMAP4rev1 X-LISTED] x\r\n{tag} OK in\r\n", "X-ASKED"},
	} {
		t.Run(name, func(t *testing.T) {
			replies := map[string]string{"LOGIN": tc.reply, "CAPABILITY": "* CAPABILITY IMAP4rev1 X-ASKED\r\n" + tagOK}
			c := dial(t, fakeConfig(t, func(c *fakeimap.Conn) {
				c.Send(greeting.Reply)
				for line, ok := c.ReadLine(); ok; line, ok = c.ReadLine() {
					c.Send(replies[strings.Fields(line)[1]])
				}
			}))
			if !slices.Contains(c.Capabilities(), tc.want) {
				t.Errorf("Capabilities() = %q; want %s among them", c.Capabilities(), tc.want)
			}
		})
	}
}

// TestCloseDoesNotWait: the server reads LOGOUT and does not answer it.
func TestCloseDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		said := make(chan string, 1)
		go func() {
			_, _ = io.WriteString(theirs, greeting.Reply)
			for lines := bufio.NewScanner(theirs); lines.Scan(); {
				tag, command, _ := strings.Cut(lines.Text(), " ")
				if command == "LOGOUT" {
					said <- command
					continue
				}
				_, _ = io.WriteString(theirs, strings.ReplaceAll(loggedIn.Reply, "{tag}", tag))
			}
			close(said)
		}()
		c, err := imapsrc.DialOver(t.Context(), ours, account(t))
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_ = c.Close()
		if waited := time.Since(start); waited != 0 {
			t.Errorf("Close waited for %v; want it not to wait for the answer to LOGOUT", waited)
		}
		if command := <-said; command != "LOGOUT" {
			t.Errorf("the server heard %q before the end of the connection; want LOGOUT", command)
		}
	})
}

func TestPlaintextIsRefusedBeforeDialling(t *testing.T) {
	_, err := imapsrc.Dial(t.Context(),
		imapsrc.Config{Host: "mail.example.invalid", Port: 143, Security: imapsrc.SecurityNone, Password: "sesame"})
	wantError(t, err, imapsrc.KindPlaintext,
		"imap mail.example.invalid:143: connect: will not send the password unencrypted", "--allow-plaintext")
}

func TestGreeting(t *testing.T) {
	for name, tc := range map[string]struct {
		step fakeimap.Step
		kind imapsrc.Kind
		says string
	}{
		"goodbye": {
			fakeimap.Step{Reply: "* BYE Too many connections\r\n", Close: true},
			imapsrc.KindLimit,
			"Too many connections",
		},
		"down": {
			fakeimap.Step{Reply: "* BYE [UNAVAILABLE] down\r\n", Close: true},
			imapsrc.KindUnavailable,
			"down",
		},
		"hangs up": {fakeimap.Step{Close: true}, imapsrc.KindNetwork, "closed the connection"},
		"silent": {
			fakeimap.Step{},
			imapsrc.KindNetwork,
			"no answer within 50ms: i/o timeout; port and security may not match",
		},
		"SMTP": {fakeimap.Step{Reply: "220 mail ESMTP\r\n", Close: true}, imapsrc.KindNetwork, "closed"},
	} {
		for _, security := range []string{imapsrc.SecurityNone, imapsrc.SecurityStartTLS} {
			t.Run(name+"/"+string(security), func(t *testing.T) {
				cfg := fake(t, tc.step)
				cfg.Security = security
				if name == "silent" {
					cfg.DialTimeout = 50 * time.Millisecond
				}
				_, err := imapsrc.Dial(t.Context(), cfg)
				if name == "SMTP" {
					if err == nil {
						t.Error("Dial = nil on an SMTP server; want an error")
					}
					return
				}
				wantError(t, err, tc.kind, tc.says)
				if errors.Is(err, context.DeadlineExceeded) {
					t.Error("the error is context.DeadlineExceeded; want that for the caller's deadline only")
				}
			})
		}
	}
}

func TestDialEndsWithTheContext(t *testing.T) {
	for _, security := range []string{imapsrc.SecurityNone, imapsrc.SecurityTLS, imapsrc.SecurityStartTLS} {
		t.Run(string(security), func(t *testing.T) {
			accepted := make(chan struct{})
			cfg := fakeConfig(t, func(c *fakeimap.Conn) {
				close(accepted)
				_, _ = io.Copy(io.Discard, c)
			})
			cfg.Security = security
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-accepted
				cancel()
			}()
			_, err := imapsrc.Dial(ctx, cfg)
			if !isCanceled(err) {
				t.Errorf("Dial = %v; want context.Canceled", err)
			}
			wantError(t, err, imapsrc.KindNetwork)
		})
	}
}

// TestNotAnIMAPServer: on the port of another protocol the error says what to check.
func TestNotAnIMAPServer(t *testing.T) {
	cfg := fake(t, fakeimap.Step{Reply: "220 mail.example ESMTP\r\n"})
	_, err := imapsrc.Dial(t.Context(), cfg)
	wantError(t, err, imapsrc.KindProtocol, "check that host and port are those of an IMAP server")
}

func TestNoSuchHostAndNothingListening(t *testing.T) {
	cfg := fake(t)
	cfg.Host, cfg.Security = "no-such-host.invalid", imapsrc.SecurityTLS
	_, err := imapsrc.Dial(t.Context(), cfg)
	wantError(t, err, imapsrc.KindNetwork, "no-such-host.invalid", "check")
	cfg.Host, cfg.Port = "127.0.0.1", 1
	_, err = imapsrc.Dial(t.Context(), cfg)
	wantError(t, err, imapsrc.KindNetwork, "refused", "check host, port, firewall and proxy")
}

func TestNothingSecretIsLogged(t *testing.T) {
	var log strings.Builder
	cfg := fake(t, greeting, loggedIn, examined,
		fakeimap.Step{
			Expect: "FETCH",
			Reply:  "* 1 FETCH (UID 1 RFC822.SIZE 3 BODY[] {17}\r\nSubject: x\r\n\r\ny\r\n)\r\n{tag} OK\r\n",
		}, logout)
	cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c := dial(t, cfg)
	selectInbox(t, c)
	if _, _, err := collect(t, c, []uint32{1}); err != nil {
		t.Fatal(err)
	}
	if text := log.String(); !strings.Contains(text, "announced=3 received=17") ||
		strings.Contains(text, "sesame") || strings.Contains(text, "Subject") {
		t.Errorf("log = %s; want the size that differs, no password, no message", text)
	}
}
