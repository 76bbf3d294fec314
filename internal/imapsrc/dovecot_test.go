package imapsrc_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/message"
	"postrider/internal/testserver"
)

// dovecotConfig returns the configuration of a new account on a real server.
func dovecotConfig(t *testing.T) (*testserver.IMAP, imapsrc.Config) {
	t.Helper()
	noLeaks(t)
	s := testserver.Dovecot(t)
	s.AddUser(t, "ann", "pass word")
	pem, err := os.ReadFile(s.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	cfg := account(t)
	cfg.Host, cfg.Port, cfg.Password, cfg.RootCAs = s.Host, s.Port, "pass word", pool
	cfg.ClientName, cfg.ClientVersion = "postrider", "test"
	return s, cfg
}

func dial(t *testing.T, cfg imapsrc.Config) *imapsrc.Conn {
	t.Helper()
	c, err := imapsrc.Dial(t.Context(), cfg)
	if err != nil {
		t.Fatalf("Dial: %v; want a connection", err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func mail(n int) []byte {
	return fmt.Appendf(nil,
		"From: a@example.com\r\nSubject: message %d\r\nMessage-ID: <%d@example.com>\r\n\r\nbody %d\r\n", n, n, n)
}

// collect fetches bodies and returns their subjects by UID.
func collect(t *testing.T, c *imapsrc.Conn, uids []uint32) (map[uint32]string, imapsrc.Result, error) {
	t.Helper()
	got := map[uint32]string{}
	result, err := c.Bodies(t.Context(), uids, func(uid uint32, m *message.Message) error {
		if _, twice := got[uid]; twice {
			t.Errorf("each is called twice for UID %d", uid)
		}
		got[uid] = m.Subject()
		return m.Close()
	})
	return got, result, err
}

func TestDovecotSecurity(t *testing.T) {
	s, cfg := dovecotConfig(t)
	for _, tc := range []struct {
		security string
		host     string
		port     int
		auth     string
	}{
		{imapsrc.SecurityTLS, "localhost", s.TLSPort, "auto"},
		{imapsrc.SecurityTLS, s.Host, s.TLSPort, "login"},
		{imapsrc.SecurityStartTLS, s.Host, s.Port, "plain"},
		{imapsrc.SecurityNone, s.Host, s.Port, ""},
	} {
		t.Run(string(tc.security)+"/"+tc.auth, func(t *testing.T) {
			cfg := cfg
			cfg.Security, cfg.Host, cfg.Port, cfg.Auth = tc.security, tc.host, tc.port, tc.auth
			c := dial(t, cfg)
			if !slices.Contains(c.Capabilities(), "UIDPLUS") {
				t.Errorf("Capabilities() = %q; want those of after the login, with UIDPLUS", c.Capabilities())
			}
			f, err := c.Select(t.Context(), "inbox")
			if err != nil || f.Name != "INBOX" || f.UIDNext != 1 || f.UIDValidity == 0 {
				t.Errorf("Select = %+v, %v; want the empty INBOX with UIDNEXT 1", f, err)
			}
			if c.ServerName() != "Dovecot" {
				t.Errorf("ServerName() = %q; want Dovecot", c.ServerName())
			}
		})
	}
}

func TestDovecotPages(t *testing.T) {
	s, cfg := dovecotConfig(t)
	const total = 1000
	var msgs [][]byte
	for n := range total {
		msgs = append(msgs, mail(n+1))
	}
	uids := s.Append(t, "ann", "INBOX", msgs...)
	s.Expunge(t, "ann", "INBOX", uids[4], uids[500])
	c := dial(t, cfg)
	f, err := c.Select(t.Context(), "INBOX")
	if err != nil || f.Messages != total-2 || f.UIDNext != total+1 {
		t.Fatalf("Select = %+v, %v; want %d messages and UIDNEXT %d", f, err, total-2, total+1)
	}
	seen := 0
	for from := uint32(1); from < f.UIDNext; from += 100 {
		page, err := c.UIDs(t.Context(), from, from+99)
		if err != nil {
			t.Fatal(err)
		}
		metas, err := c.Metadata(t.Context(), page)
		if err != nil || len(metas) != len(page) {
			t.Fatalf("Metadata = %d, %v; want %d", len(metas), err, len(page))
		}
		for i, m := range metas {
			if m.UID != page[i] || m.Size != int64(len(msgs[m.UID-1])) || time.Since(m.Received).Abs() > time.Hour {
				t.Fatalf("Metadata[%d] = %+v; want UID %d, size %d, received just now",
					i, m, page[i], len(msgs[page[i]-1]))
			}
		}
		got, result, err := collect(t, c, page)
		if err != nil || len(got) != len(page) || len(result.Vanished)+len(result.Failed) > 0 {
			t.Fatalf("Bodies(%d..) = %d messages, %+v, %v; want all %d", from, len(got), result, err, len(page))
		}
		seen += len(got)
	}
	if seen != total-2 {
		t.Errorf("%d messages in all pages; want %d", seen, total-2)
	}
	got, result, err := collect(t, c, []uint32{4, 5, 6})
	if err != nil || len(got) != 2 || !slices.Equal(result.Vanished, []uint32{5}) {
		t.Errorf("Bodies(4,5,6) = %v, %+v, %v; want 4 and 6, and 5 vanished", got, result, err)
	}
	metas, err := c.Metadata(t.Context(), []uint32{6, 5, 4})
	if err != nil || len(metas) != 2 || metas[0].UID != 4 || metas[1].UID != 6 {
		t.Errorf("Metadata(6,5,4) = %+v, %v; want those of 4 and 6", metas, err)
	}
	if uid, err := c.HighestUID(t.Context()); err != nil || uid != total {
		t.Errorf("HighestUID() = %d, %v; want %d", uid, err, total)
	}
	if uids, err := c.UIDs(t.Context(), total+1, total+100); err != nil || len(uids) != 0 {
		t.Errorf("UIDs past the end = %v, %v; want none", uids, err)
	}
	today, errToday := c.Since(t.Context(), 1, 10, time.Now().AddDate(0, 0, -1))
	later, errLater := c.Since(t.Context(), 1, 10, time.Now().AddDate(0, 0, 2))
	if errToday != nil || errLater != nil || len(today) != 9 || len(later) != 0 {
		t.Errorf("Since(yesterday) = %v, %v, Since(day after tomorrow) = %v, %v; want nine and none",
			today, errToday, later, errLater)
	}
	if flagged, err := c.UIDs(t.Context(), 1, 10); err != nil || len(flagged) != 9 {
		t.Errorf("UIDs(1, 10) = %v, %v; want nine", flagged, err)
	}
}

func TestDovecotFolders(t *testing.T) {
	s, cfg := dovecotConfig(t)
	s.CreateFolder(t, "ann", "Entwürfe & 草稿")
	s.CreateFolder(t, "ann", "Archive/2024")
	c := dial(t, cfg)
	names, err := c.Folders(t.Context())
	want := []string{"Archive/2024", "Entwürfe & 草稿", "INBOX"}
	if err != nil || !slices.Equal(names, want) {
		t.Fatalf("Folders() = %q, %v; want %q, without the parent that cannot be opened", names, err, want)
	}
	if _, err := c.Select(t.Context(), "Entwürfe & 草稿"); err != nil {
		t.Errorf("Select a name that is not ASCII: %v", err)
	}
	_, err = c.Select(t.Context(), "archive/2042")
	wantError(t, err, imapsrc.KindNoFolder, `open folder "archive/2042"`, "; did you mean Archive/2024?")
	if e := new(imapsrc.Error); !errors.As(err, &e) || !e.Unlisted {
		t.Errorf("Select a folder that is not there: %+v; want it to be unlisted", e)
	}
	if _, err := c.Select(t.Context(), "INBOX"); err != nil {
		t.Errorf("Select after a failure: %v; want the connection to work", err)
	}
}

func TestDovecotBigBodyStreams(t *testing.T) {
	s, cfg := dovecotConfig(t)
	line := strings.Repeat("x", 76) + "\r\n"
	big := append(mail(1), bytes.Repeat([]byte(line), 25<<20/len(line))...)
	s.Append(t, "ann", "INBOX", big, mail(2))
	c := dial(t, cfg)
	if _, err := c.Select(t.Context(), "INBOX"); err != nil {
		t.Fatal(err)
	}
	size := int64(len(big))
	peak := watchHeap(t)
	var sizes []int64
	_, err := c.Bodies(t.Context(), []uint32{1, 2}, func(_ uint32, m *message.Message) error {
		sizes = append(sizes, m.Body.Size())
		return m.Close()
	})
	if err != nil || len(sizes) != 2 || sizes[0] != size {
		t.Fatalf("Bodies = sizes %v, %v; want the first to be %d", sizes, err, size)
	}
	if grown := peak(); grown > 8<<20 {
		t.Errorf("the heap grew by %d octets; want at most 8 MiB for a body of 25 MiB", grown)
	}
}

func TestDovecotWrongPassword(t *testing.T) {
	_, cfg := dovecotConfig(t)
	cfg.Password = "sesame"
	_, err := imapsrc.Dial(t.Context(), cfg)
	wantError(t, err, imapsrc.KindAuth, "log in as ann: the server refused the password", "AUTHENTICATIONFAILED",
		"`postrider inbox set ann --password-stdin`")
}

func TestDovecotCertificate(t *testing.T) {
	s, cfg := dovecotConfig(t)
	for _, security := range []string{imapsrc.SecurityTLS, imapsrc.SecurityStartTLS} {
		cfg.Security, cfg.Port = security, s.TLSPort
		if security == imapsrc.SecurityStartTLS {
			cfg.Port = s.Port
		}
		untrusted := cfg
		untrusted.RootCAs = x509.NewCertPool()
		_, err := imapsrc.Dial(t.Context(), untrusted)
		wantError(t, err, imapsrc.KindTLS, `was issued by "CN=localhost", which this machine does not trust`)
		wrong := cfg
		wrong.Host = "127.0.0.2"
		_, err = imapsrc.Dial(t.Context(), wrong)
		if err != nil && strings.Contains(err.Error(), "refused") {
			continue // the server listens on 127.0.0.1 only
		}
		wantError(t, err, imapsrc.KindTLS, "the certificate is for localhost, 127.0.0.1, not for 127.0.0.2")
	}
	cfg.Security, cfg.Port = imapsrc.SecurityTLS, s.Port
	_, err := imapsrc.Dial(t.Context(), cfg)
	wantError(t, err, imapsrc.KindTLS, "port and security do not match")
}

func TestDovecotCancelInLiteral(t *testing.T) {
	s, cfg := dovecotConfig(t)
	s.Append(t, "ann", "INBOX", append(mail(1), bytes.Repeat([]byte("x\r\n"), 2<<20)...), mail(2))
	c := dial(t, cfg)
	if _, err := c.Select(t.Context(), "INBOX"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := c.Bodies(ctx, []uint32{2}, func(_ uint32, m *message.Message) error {
		cancel()
		return m.Close()
	})
	if err != nil && !isCanceled(err) {
		t.Errorf("Bodies = %v; want nil or context.Canceled", err)
	}
	_, err = c.Bodies(ctx, []uint32{1}, func(uint32, *message.Message) error { return nil })
	if !isCanceled(err) {
		t.Errorf("Bodies = %v; want context.Canceled", err)
	}
}
