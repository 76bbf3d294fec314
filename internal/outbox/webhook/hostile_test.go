package webhook

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"postrider/internal/outbox"
	"postrider/internal/testserver"
)

// TestGuard checks which addresses are inside.
func TestGuard(t *testing.T) {
	for text, want := range map[string]bool{
		"127.0.0.1": true, "127.255.0.1": true, "::1": true, "10.1.2.3": true, "172.16.0.1": true, "192.168.1.1": true,
		"169.254.169.254": true, "fe80::1": true, "fe80::1%eth0": true, "fc00::1": true, "fd12::1": true,
		"0.0.0.0": true, "::": true, "0.1.2.3": true, "100.64.0.1": true, "198.18.0.1": true, "224.0.0.1": true,
		"ff02::1": true, "255.255.255.255": true, "::ffff:127.0.0.1": true, "::ffff:192.168.0.1": true,
		"64:ff9b::7f00:1": true, "2002:7f00:1::": true, "fec0::1": true,
		"8.8.8.8": false, "172.15.0.1": false, "172.32.0.1": false, "100.63.0.1": false, "2606:4700::1111": false,
		"::ffff:8.8.8.8": false,
	} {
		if got := isInside(netip.MustParseAddr(text)); got != want {
			t.Errorf("isInside(%s) is %v, want %v", text, got, want)
		}
	}
}

// TestInside checks the address that a name turns out to have: nothing is sent to it.
func TestInside(t *testing.T) {
	var hits atomic.Int32
	url, roots := serve(t, func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	_, port, _ := strings.Cut(strings.TrimPrefix(url, "https://"), ":")
	p, err := Open(Settings{
		URL: "https://localhost:" + port, RootCAs: roots, Secrets: []string{secret}, Proxy: "direct",
	})
	if err != nil {
		t.Fatal(err)
	}
	err = p.Publish(t.Context(), []outbox.Message{one})[0]
	if err == nil || !strings.Contains(err.Error(), "is inside the network") || hits.Load() != 0 {
		t.Errorf("the error is %v after %d requests, want one about the address and none", err, hits.Load())
	}
}

// TestInsideNotThroughProxy checks that a redirect cannot make a proxy connect to an address
// inside.
func TestInsideNotThroughProxy(t *testing.T) {
	port := testserver.Listen(t, func(net.Conn) { t.Error("the proxy was asked, want it left alone") })
	proxy := fmt.Sprintf("http://127.0.0.1:%d", port)
	p, err := Open(Settings{URL: "https://example.com/", Secrets: []string{secret}, Proxy: proxy})
	if err != nil {
		t.Fatal(err)
	}
	transport := p.client.Transport.(*http.Transport)
	_, err = transport.DialContext(t.Context(), "tcp", "169.254.169.254:443")
	if err == nil || !strings.Contains(err.Error(), "is inside the network") {
		t.Errorf("the error is %v, want one about the address", err)
	}
}

// TestThroughProxy: https goes through a proxy, which sees the address alone; http never does.
func TestThroughProxy(t *testing.T) {
	came := make(chan string, 10)
	port := testserver.Listen(t, func(c net.Conn) {
		defer func() { _ = c.Close() }()
		in := bufio.NewReader(c)
		req, err := http.ReadRequest(in)
		if err != nil || req.Method != http.MethodConnect {
			t.Errorf("the proxy is asked %+v, %v; want CONNECT", req, err)
			return
		}
		came <- req.Host
		to, err := net.Dial("tcp", req.Host)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = to.Close() }()
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(to, in) }()
		_, _ = io.Copy(c, to)
	})
	proxy := fmt.Sprintf("http://127.0.0.1:%d", port)
	var hits atomic.Int32
	url, roots := serve(t, func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	p := open(t, Settings{URL: url + "/hook", RootCAs: roots, Proxy: proxy})
	err := p.Publish(t.Context(), []outbox.Message{one})[0]
	if err != nil || hits.Load() != 1 || len(came) != 1 || "https://"+<-came != url {
		t.Errorf("publishing through a proxy: %v after %d requests; want one, and that the proxy was asked for %s",
			err, hits.Load(), url)
	}
	plain := testserver.Listen(t, func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		}
	})
	p = open(t, Settings{URL: fmt.Sprintf("http://127.0.0.1:%d/", plain), Proxy: proxy})
	if err := p.Publish(t.Context(), []outbox.Message{one})[0]; err != nil || len(came) != 0 {
		t.Errorf("publishing without TLS: %v, and the proxy was asked %d times; want it left alone", err, len(came))
	}
}

// TestRedirects checks that only what keeps the event and its encryption is followed.
func TestRedirects(t *testing.T) {
	var other atomic.Int32
	elsewhere, _ := serve(t, func(http.ResponseWriter, *http.Request) { other.Add(1) })
	for _, tt := range []struct {
		name   string
		status int
		to     func(self string) string
		want   string
	}{
		{"same host 307", 307, func(self string) string { return self + "/end" }, "done"},
		{"same host 308", 308, func(string) string { return "/end" }, "done"},
		{"becomes a GET 301", 301, func(string) string { return "/end" }, "drops the event"},
		{"becomes a GET 302", 302, func(string) string { return "/end" }, "drops the event"},
		{"becomes a GET 303", 303, func(string) string { return "/end" }, "drops the event"},
		{
			"other host", 307, func(string) string { return elsewhere + "/end?token=hunter2" },
			"only https on the same host",
		},
		{
			"http", 307, func(self string) string { return "http" + strings.TrimPrefix(self, "https") + "/end" },
			"only https on the same host",
		},
		{"loop", 307, func(string) string { return "/again?token=hunter2" }, "more than 3 times"},
		{"nowhere", 307, func(string) string { return "" }, "fault"},
		{"nonsense", 307, func(string) string { return "https://%zz?token=hunter2" }, "fault"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var arrived atomic.Int32
			var self string
			self, roots := serve(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if r.URL.Path == "/end" && r.Method == http.MethodPost && string(body) == string(one.Body) {
					arrived.Add(1)
					return
				}
				w.Header().Set("Location", tt.to("https://"+r.Host))
				w.WriteHeader(tt.status)
			})
			p := open(t, Settings{URL: self + "/hook-secret?token=hunter2", RootCAs: roots})
			err := p.Publish(t.Context(), []outbox.Message{one})[0]
			if (tt.want == "done") != (err == nil) || (err == nil) != (arrived.Load() == 1) {
				t.Errorf("the error is %v and it arrived %d times, want %s", err, arrived.Load(), tt.want)
			}
			if err != nil && tt.want != "fault" && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("the error is %v, want %s", err, tt.want)
			}
			if meaning(err) != "done" && meaning(err) != "fault" {
				t.Errorf("it means %s, want fault", meaning(err))
			}
			wantNoSecret(t, err)
		})
	}
	if other.Load() != 0 {
		t.Error("the other host was asked")
	}
}

var errLate = errors.New("no answer in time")

// TestHostile checks servers that do not answer as they should. http is allowed to loopback.
func TestHostile(t *testing.T) {
	for _, tt := range []struct {
		name  string
		serve func(net.Conn)
		want  string // of the error, empty for none
	}{
		{"says nothing", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, errLate.Error()},
		{"hangs up", func(net.Conn) {}, "EOF"},
		{"slow octet by octet", func(c net.Conn) {
			slowly(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}, errLate.Error()},
		{"breaks off in headers", says("HTTP/1.1 200 OK\r\nContent-Le"), "connection broken"},
		{"breaks off in the body of a success", says("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"), ""},
		{"slow body of a success", func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n")
			slowly(c, strings.Repeat("a", 60000))
		}, ""},
		{
			"breaks off in the body of a failure",
			says("HTTP/1.1 500 Oops\r\nContent-Length: 100\r\n\r\nabc"), "answered 500",
		},
		{"endless headers", func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			for err := error(nil); err == nil; {
				_, err = io.WriteString(c, "A: "+strings.Repeat("b", 1000)+"\r\n")
			}
		}, "server response headers exceeded"},
		{"100 MB", func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 104857600\r\n\r\n")
			if n, err := io.Copy(c, io.LimitReader(zeros{}, 100<<20)); err == nil {
				t.Errorf("%d octets of a body were read, want few", n)
			}
		}, ""},
		{"no HTTP", says("220 mail.example ESMTP\r\n"), "malformed HTTP"},
		{"control characters", says("HTTP/1.1 500 \x1b[31mred\r\n\r\n"), "answered 500 Internal Server Error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			port := testserver.Listen(t, func(c net.Conn) {
				if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					tt.serve(c)
				}
			})
			ctx := t.Context()
			if tt.want == errLate.Error() {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeoutCause(ctx, 300*time.Millisecond, errLate)
				defer cancel()
			}
			p := open(t, Settings{URL: fmt.Sprintf("http://127.0.0.1:%d/hook-secret?token=hunter2", port)})
			err := p.Publish(ctx, []outbox.Message{one})[0]
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("the error is %v, want one with %q", err, tt.want)
			}
			if err != nil && meaning(err) != "fault" {
				t.Errorf("it means %s, want fault", meaning(err))
			}
			wantNoSecret(t, err)
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func says(text string) func(net.Conn) {
	return func(c net.Conn) { _, _ = io.WriteString(c, text) }
}

// slowly writes an octet every 20 ms until the other side has had enough.
func slowly(c net.Conn, text string) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for i := range len(text) {
		<-tick.C
		if _, err := c.Write([]byte{text[i]}); err != nil {
			return
		}
	}
}

// TestOtherCertificate checks that a server that is not trusted gets nothing.
func TestOtherCertificate(t *testing.T) {
	var hits atomic.Int32
	url, _ := serve(t, func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	_, roots := serve(t, func(http.ResponseWriter, *http.Request) {})
	p := open(t, Settings{URL: url, RootCAs: roots})
	if err := p.Publish(t.Context(), []outbox.Message{one})[0]; meaning(err) != "fault" || hits.Load() != 0 {
		t.Errorf("the error is %v after %d requests, want one of TLS and none", err, hits.Load())
	}
}

// TestDeadConnection: after a request without an answer, the next one goes over another connection.
// A server that is restarted behind a balancer may leave one that looks alive.
func TestDeadConnection(t *testing.T) {
	var first atomic.Value // the connection that is dead after its first request
	var dead func()        // it has got another one
	cert, roots, err := testserver.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if !first.CompareAndSwap(nil, r.RemoteAddr) && first.Load() == r.RemoteAddr {
			dead()
			<-r.Context().Done()
		}
	}))
	s.TLS, s.EnableHTTP2 = &tls.Config{Certificates: []tls.Certificate{cert}}, true
	s.StartTLS()
	t.Cleanup(s.Close)
	p := open(t, Settings{URL: s.URL, RootCAs: roots})
	publish := func(ctx context.Context) error { return p.Publish(ctx, []outbox.Message{one})[0] }
	if err := publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, late := context.WithCancelCause(t.Context())
	dead = func() { late(errLate) }
	if err := publish(ctx); !errors.Is(err, errLate) {
		t.Fatalf("over the dead connection the error is %v, want %v", err, errLate)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := publish(ctx); err != nil {
		t.Errorf("the next one has the error %v, want it to take another connection", err)
	}
}
