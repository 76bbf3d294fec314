package sink

import (
	"bufio"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"postrider/internal/outbox"
	"postrider/internal/testserver"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// TestOpen checks which URLs are taken, and that no error has the password.
func TestOpen(t *testing.T) {
	for url, want := range map[string]string{
		"https://example.com/hook?a=hunter2": "",
		"gopher://u:hunter2@a/":              "does not begin with one of amqp://, amqps://, awssns://",
		"hunter2":                            "does not begin with one of",
		"":                                   "does not begin with one of",
		"http://example.com/hunter2":         "use https",

		"nats://user:hunter2@a,b:4223,[::1]:4224/events.mail": "",
		"nats://a/events?tls=true":                            "",
		"nats://user:hunter2@a":                               "has no subject",
		"nats://user:hunter2@a/events.>":                      "has no subject",
		"nats://user:hunter2@a/e?tls=maybe":                   "tls=maybe; it must be true or false",
		"nats://user:hunter2@a/e?durable=1":                   `has the unknown parameter "durable"; use one of: tls`,
		"nats://user:hunt/er2@a/e":                            "cannot be read",
		"nats://user:hunter2@a:port/e":                        "cannot be read",
		"nats://user:12/hunter2@a/e":                          "cannot be read",
		"nats://user:%zzhunter2@a/e":                          "cannot be read",
		"nats://user:hunter2@a,,b/e":                          "cannot be read",
		"nats:///events":                                      "has no host",

		"amqp://user:hunter2@a/%2Fvhost?queue=events": "",
		"amqps://a/?exchange=events":                  "",
		"amqps://a?exchange=events&key=mail":          "",
		"amqp://user:12?hunter2@a/v?queue=q":          "cannot be read",
		"amqp://user:12/hunter2@a/v?queue=q":          "cannot be read",
		"amqp://a/?exchange=e&key=mail%40work":        "",
		"amqp://user:hunter2@a/":                      "either ?queue=NAME or ?exchange=NAME",
		"amqp://user:hunter2@a/?queue=a&exchange=b":   "either ?queue=NAME or ?exchange=NAME",
		"amqp://user:hunter2@a/?queue=a&key=b":        "either ?queue=NAME or ?exchange=NAME",
		"amqp://user:hunter2@a,b/?queue=a":            "one host",

		"redis://:hunter2@a:6380/3?stream=events&maxlen=10":          "",
		"rediss://a?stream=events":                                   "",
		"redis-cluster://u:hunter2@a,b?stream=e&streams=4":           "",
		"redis://user:12/hunter2@a/0?stream=s":                       "cannot be read",
		"redis://user:12#hunter2@a/0?stream=s":                       "cannot be read",
		"redis://:hunter2@a?stream=a+b":                              "In a password or a name, write all but letters",
		"redis://:hunter2@a?stream=a%2Bb":                            "",
		"redis://user:hunter2@a":                                     "has no stream",
		"redis://user:hunter2@a/x?stream=e":                          `the database "x"`,
		"redis://user:hunter2@a,b?stream=e":                          "redis-cluster://",
		"redis-cluster://user:hunter2@a,b/1?stream=e":                "a cluster has none",
		"redis://user:hunter2@a?stream=e&streams=0":                  "streams=0; it must be a number from 1 to 1024",
		"redis://user:hunter2@a?stream=e&maxlen=1e3":                 "maxlen=1e3; it must be a number from 1 to",
		"redis-cluster://user:hunter2@a?stream=e&replicas=-1":        "replicas=-1; it must be a number from 0 to 100",
		"redis-cluster://user:hunter2@a?stream=e&replicas=0":         "",
		"redis://user:hunter2@a:99999999999999999999/?stream=events": "",
	} {
		t.Run(url, func(t *testing.T) {
			p, err := Open(Settings{URL: url, Secrets: []string{secret}})
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("the error is %v, want one with %q", err, want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error %q has the password", err)
			}
			if p != nil {
				_ = p.Close(t.Context())
			}
		})
	}
}

// TestUntrusted: a certificate of an unknown issuer is refused, and the error names the fix.
func TestUntrusted(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	at := server.Listener.Addr().String()
	for _, url := range []string{
		"https://" + at, "amqps://" + at + "/?queue=q", "rediss://" + at + "?stream=s",
	} {
		err := publish(t, url)
		if err == nil || !strings.Contains(err.Error(), "unknown authority; name a file") {
			t.Errorf("%s: the error is %v, want one that names ca_file", url, err)
		}
	}
}

// publish is the error of a message to a destination.
func publish(t *testing.T, url string) error {
	t.Helper()
	set := Settings{URL: url, Timeout: 5 * time.Second}
	if strings.HasPrefix(url, "https") {
		set.Secrets, set.AllowInternal = []string{secret}, true
	}
	p, err := Open(set)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close(t.Context()) }()
	return p.Publish(t.Context(), messages(1))[0]
}

// TestNoTLS: the error of a port without TLS says what to correct.
func TestNoTLS(t *testing.T) {
	plain := httptest.NewServer(nil)
	t.Cleanup(plain.Close)
	garbage := testserver.Listen(t, func(c net.Conn) {
		_, _ = io.WriteString(c, "220 mail.example ESMTP\r\n")
		_, _ = io.Copy(io.Discard, c)
	})
	at := plain.Listener.Addr().String()
	for _, url := range []string{
		"https://" + at, fmt.Sprintf("https://127.0.0.1:%d", garbage), "amqps://" + at + "/?queue=q",
		"rediss://" + at + "?stream=s",
	} {
		err := publish(t, url)
		if err == nil || !strings.Contains(err.Error(), "; there is no TLS on this port: correct the port in url") {
			t.Errorf("%s: the error is %v, want one that names the port", url, err)
		}
	}
}

// TestUnreachable checks that a destination that is down makes no event arrive, none refused, and
// does not tell the password.
func TestUnreachable(t *testing.T) {
	for _, url := range []string{
		"nats://user:hunter2@127.0.0.1:1/events", "amqp://user:hunter2@127.0.0.1:1/?queue=events",
		"redis://user:hunter2@127.0.0.1:1?stream=events", "redis-cluster://user:hunter2@127.0.0.1:1?stream=events",
	} {
		t.Run(url, func(t *testing.T) {
			for _, err := range openAt(t, url, 5*time.Second).Publish(t.Context(), messages(25)) {
				if err == nil || refused(err) || strings.Contains(err.Error(), "hunter2") ||
					!strings.Contains(err.Error(), "127.0.0.1:1") {
					t.Fatalf("the error is %v, want one of the destination, with its address and without the password",
						err)
				}
			}
		})
	}
}

// TestCertificatesEncrypt checks that a broker whose certificates are given gets no password
// without TLS.
func TestCertificatesEncrypt(t *testing.T) {
	came := make(chan string, 1)
	port := testserver.Listen(t, func(c net.Conn) {
		_, _ = io.WriteString(c, `INFO {"server_id":"x","version":"2.10.0","max_payload":1048576}`+"\r\n")
		said, _ := bufio.NewReader(c).ReadString('\n')
		came <- said
	})
	url := fmt.Sprintf("nats://user:hunter2@127.0.0.1:%d/events", port)
	p, err := Open(Settings{URL: url, RootCAs: x509.NewCertPool()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	t.Cleanup(func() { _ = p.Close(context.Background()) })
	err = p.Publish(ctx, messages(1))[0]
	if err == nil || !strings.Contains(err.Error(), "secure connection not available") {
		t.Errorf("the error is %v, want one that says that the server has no TLS", err)
	}
	if said := <-came; said != "" {
		t.Errorf("the server got %q, want nothing", said)
	}
}

// recorder is a publisher that takes what fails does not refuse.
type recorder struct {
	fails  map[string]error
	rounds []string // the IDs of each
}

func (r *recorder) Publish(_ context.Context, batch []outbox.Message) []error {
	var ids []string
	var errs []error
	for _, m := range batch {
		ids, errs = append(ids, m.ID), append(errs, r.fails[m.ID])
	}
	r.rounds = append(r.rounds, strings.Join(ids, " "))
	return errs
}

func (r *recorder) Close(context.Context) error { return nil }

// TestOrdered checks that no round has a key twice, and what a failure does to the rounds after it.
func TestOrdered(t *testing.T) {
	batch := []outbox.Message{
		{ID: "a1", Key: "a"}, {ID: "b1", Key: "b"}, {ID: "a2", Key: "a"}, {ID: "c1", Key: "c"}, {ID: "a3", Key: "a"},
	}
	down := errors.New("down")
	for name, tt := range map[string]struct {
		fails  map[string]error
		rounds string
		failed int
	}{
		"well":    {nil, "a1 b1|a2 c1|a3", 0},
		"down":    {map[string]error{"b1": down}, "a1 b1", 4},
		"gone":    {map[string]error{"c1": outbox.ErrGone}, "a1 b1|a2 c1", 2},
		"later":   {map[string]error{"a1": &outbox.Later{Err: down}}, "a1 b1", 4},
		"refused": {map[string]error{"a1": &outbox.Refused{Err: down}}, "a1 b1|a2 c1|a3", 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorder{fails: tt.fails}
			errs := newOrdered(r).Publish(t.Context(), batch)
			failed := 0
			for _, err := range errs {
				if err != nil {
					failed++
				}
			}
			if got := strings.Join(r.rounds, "|"); got != tt.rounds || failed != tt.failed || len(errs) != len(batch) {
				t.Errorf("the rounds are %s and %d failed (%v), want %s and %d",
					got, failed, errs, tt.rounds, tt.failed)
			}
			if last := errs[4]; tt.failed > 1 && meaningOf(last) != meaningOf(firstOf(errs)) {
				t.Errorf("the last is %v, want what the first failure %v means", last, firstOf(errs))
			}
		})
	}
}

func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func meaningOf(err error) string {
	var later *outbox.Later
	switch {
	case errors.Is(err, outbox.ErrGone):
		return "gone"
	case errors.As(err, &later):
		return "later"
	}
	return "fault"
}

// TestOneAtATime checks that Publish waits for the one before it no longer than its context lets
// it.
func TestOneAtATime(t *testing.T) {
	o := newOrdered(&recorder{})
	o.turn <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if errs := o.Publish(ctx, messages(2)); !errors.Is(errs[1], context.Canceled) {
		t.Errorf("the errors are %v, want context.Canceled", errs)
	}
}
