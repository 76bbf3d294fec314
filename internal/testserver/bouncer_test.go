package testserver_test

import (
	"context"
	"io"
	"net/smtp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"

	"postrider/internal/testserver"
)

// TestNextHop: it refuses the right recipients, and a message with a null reverse-path is in the
// mailbox when it is accepted.
func TestNextHop(t *testing.T) {
	imapServer := testserver.Dovecot(t)
	imapServer.AddUser(t, "bounces", "pass word")
	refuse := func(to string) (int, string) {
		if to == "unknown@other.example" {
			return 550, "5.1.1 nobody has that name here"
		}
		return 0, ""
	}
	next := testserver.NextHop(t, testserver.NextHopOptions{Inbox: imapServer, User: "bounces", Refuse: refuse})
	c, err := smtp.Dial(next.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	for _, from := range []string{"alice@author.example", ""} {
		if err := c.Mail(from); err != nil {
			t.Fatal(err)
		}
		err := c.Rcpt("unknown@other.example")
		if err == nil || !strings.Contains(err.Error(), "nobody has that name") {
			t.Errorf("RCPT to unknown@ = %v, want it refused", err)
		}
		if err := c.Rcpt("bounces+token@firm.example"); err != nil {
			t.Fatal(err)
		}
		w, err := c.Data()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, "Subject: from <"+from+">\r\n\r\nHello.\r\n"); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	want := "Return-Path: <>\r\nDelivered-To: bounces+token@firm.example\r\nSubject: from <>\r\n\r\nHello.\r\n"
	if got := inboxOf(t, imapServer, "bounces"); len(got) != 1 || got[0] != want {
		t.Errorf("the mailbox has %q, want the message with the null reverse-path alone: %q", got, want)
	}
	if n := len(next.Messages()); n != 2 {
		t.Errorf("%d messages were kept, want both", n)
	}
}

// inboxOf are the messages in a user's INBOX.
func inboxOf(t *testing.T, s *testserver.IMAP, user string) (messages []string) {
	t.Helper()
	c, err := imapclient.DialInsecure(s.Host+":"+strconv.Itoa(s.Port), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if err := c.Login(user, "pass word").Wait(); err != nil {
		t.Fatal(err)
	}
	box, err := c.Select("INBOX", nil).Wait()
	if err != nil || box.NumMessages == 0 {
		return nil
	}
	var all imap.SeqSet
	all.AddRange(1, box.NumMessages)
	whole := &imap.FetchItemBodySection{Peek: true}
	fetched, err := c.Fetch(all, &imap.FetchOptions{BodySection: []*imap.FetchItemBodySection{whole}}).Collect()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range fetched {
		messages = append(messages, string(m.FindBodySection(whole)))
	}
	return messages
}

// TestBouncers: each of them takes mail from anybody, and hands it on.
func TestBouncers(t *testing.T) {
	for name, start := range map[string]func(testing.TB, int) *testserver.Bouncer{
		"Postfix":   testserver.BouncingPostfix,
		"Exim":      testserver.BouncingExim,
		"OpenSMTPD": testserver.BouncingOpenSMTPD,
	} {
		t.Run(name, func(t *testing.T) {
			next := testserver.NextHop(t, testserver.NextHopOptions{})
			b := start(t, next.Port())
			server, to := b.Host+":"+strconv.Itoa(b.Port), []string{"someone@other.example"}
			letter := []byte("Subject: hello\r\n\r\nHello.\r\n")
			if err := smtp.SendMail(server, nil, "alice@author.example", to, letter); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := next.Wait(ctx, 1); err != nil {
				t.Error(err)
			}
		})
	}
}
