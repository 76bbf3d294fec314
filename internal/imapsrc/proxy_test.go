package imapsrc_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/testserver"
	"postrider/internal/testserver/fakeimap"
)

func startSecureGateway(t *testing.T, cert tls.Certificate, backend string) *testserver.Gateway {
	t.Helper()
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	if err != nil {
		t.Fatal(err)
	}
	return testserver.ServeGateway(t, ln, backend, testserver.HTTPProxy)
}

func TestProxy(t *testing.T) {
	for _, scheme := range []string{"socks5", "socks5h", "http"} {
		for _, host := range []string{"mail.example.com", "192.0.2.1", "2001:db8::1"} {
			t.Run(scheme+"/"+host, func(t *testing.T) {
				cfg := fake(t, greeting, loggedIn, examined, logout)
				handshake := testserver.SOCKSProxy
				if scheme == "http" {
					handshake = testserver.HTTPProxy
				}
				g := testserver.StartGateway(t, net.JoinHostPort(cfg.Host, fmt.Sprint(cfg.Port)), handshake)
				cfg.Proxy = scheme + "://bob:p%3Aw@" + g.Addr
				cfg.Host, cfg.AllowPlaintext = host, true
				selectInbox(t, dial(t, cfg))
				if want := net.JoinHostPort(host, fmt.Sprint(cfg.Port)); g.LastTarget() != want {
					t.Errorf("the proxy was asked for %q; want %q", g.LastTarget(), want)
				}
			})
		}
	}
}

func TestProxyRefuses(t *testing.T) {
	const noBackend = "127.0.0.1:1"
	for name, tc := range map[string]struct {
		proxy     string // %s is replaced by its address
		handshake testserver.Handshake
		host      string
		kind      imapsrc.Kind
		says      string
	}{
		"http password": {
			"http://bob:sesame@%s", testserver.HTTPProxy, "mail.example.com", imapsrc.KindNetwork,
			"refused to connect (HTTP/1.1 407 Proxy Authentication Required)",
		},
		"http password repeated": {
			"http://bob:sesame@%s", say("HTTP/1.1 407 bob:sesame is not Ym9iOnNlc2FtZQ==\r\n"), "mail.example.com",
			imapsrc.KindNetwork, "refused to connect (HTTP/1.1 407 *** is not ***)",
		},
		"http nonsense": {
			"http://bob:sesame@%s", say("* OK IMAP\r\n"), "mail.example.com", imapsrc.KindNetwork,
			"refused to connect (* OK IMAP)",
		},
		"http hangs up": {
			"http://bob:sesame@%s", say(""), "mail.example.com", imapsrc.KindNetwork,
			"closed the connection",
		},
		"http without end": {
			"http://bob:sesame@%s", say(strings.Repeat("x", 20000)), "mail.example.com",
			imapsrc.KindProtocol, "sends without end",
		},
		"https without TLS": {
			"https://bob:sesame@%s", say("HTTP/1.1 400 Bad Request\r\n"), "mail.example.com",
			imapsrc.KindTLS, "no TLS on this port",
		},
		"socks password": {
			"socks5://bob:sesame@%s", testserver.SOCKSProxy, "mail.example.com", imapsrc.KindNetwork,
			"authentication failed",
		},
		"socks target": {
			"socks5://bob:p%%3Aw@%s", testserver.SOCKSProxy, "refused.example", imapsrc.KindNetwork,
			"connection refused",
		},
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			g := testserver.StartGateway(t, noBackend, tc.handshake)
			cfg := account(t)
			cfg.Host, cfg.Port, cfg.Security = tc.host, 993, imapsrc.SecurityTLS
			cfg.Proxy = fmt.Sprintf(tc.proxy, g.Addr)
			_, err := imapsrc.Dial(t.Context(), cfg)
			wantError(t, err, tc.kind, tc.says)
			for _, secret := range []string{"sesame", "p:w", "p%3Aw", "bob"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("error = %q; want it without the proxy's user and password", err)
				}
			}
		})
	}
}

func TestSecureProxy(t *testing.T) {
	cert, pool, err := testserver.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	cfg := fakeConfig(t, func(c *fakeimap.Conn) {
		overTLS(cert, c.Conn, greeting.Reply, loggedIn.Reply, examined.Reply, logout.Reply)
	})
	g := startSecureGateway(t, cert, net.JoinHostPort(cfg.Host, fmt.Sprint(cfg.Port)))
	cfg.Security, cfg.RootCAs, cfg.Proxy = imapsrc.SecurityTLS, pool, "https://bob:p%3Aw@"+g.Addr
	c := dial(t, cfg) // TLS in TLS
	selectInbox(t, c)
	_ = c.Close()

	cfg.Proxy = "https://bob:sesame@" + g.Addr
	_, err = imapsrc.Dial(t.Context(), cfg)
	wantError(t, err, imapsrc.KindNetwork, "407 Proxy Authentication Required")
	cfg.RootCAs = x509.NewCertPool()
	_, err = imapsrc.Dial(t.Context(), cfg)
	wantError(t, err, imapsrc.KindTLS, "does not trust")
}

// say is a proxy that sends text, whatever it is asked.
func say(text string) testserver.Handshake {
	return func(conn net.Conn) (target, answer string, err error) {
		_, _ = conn.Read(make([]byte, 4096))
		return "", text, io.EOF
	}
}

func TestSilentProxy(t *testing.T) {
	for _, scheme := range []string{"socks5", "http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			noLeaks(t)
			g := testserver.StartGateway(t, "", testserver.SilentProxy)
			_, err := imapsrc.Dial(t.Context(), imapsrc.Config{
				Host: "mail.example.com", Port: 993, Security: imapsrc.SecurityTLS, Proxy: scheme + "://" + g.Addr,
				DialTimeout: 50 * time.Millisecond,
			})
			wantError(t, err, imapsrc.KindNetwork, "through the proxy "+scheme+"://"+g.Addr+": no answer within 50ms")
		})
	}
}

func TestProxyIsNoURL(t *testing.T) {
	for _, proxy := range []string{
		"socks4://bob:sesame@127.0.0.1:1", "http://bob:sesame@:80",
		"http://bob:ses\x00ame@h", "http://bob:sesame@h:port", "://",
	} {
		_, err := imapsrc.Dial(t.Context(),
			imapsrc.Config{Host: "mail.example.com", Port: 993, Security: imapsrc.SecurityTLS, Proxy: proxy})
		wantError(t, err, imapsrc.KindLocal, "the proxy setting is not a proxy URL")
		if strings.Contains(err.Error(), "ses") {
			t.Errorf("error = %q; want it without the password", err)
		}
	}
}

func TestProxyFromEnvironment(t *testing.T) {
	unset := []string{"ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"}
	for name, tc := range map[string]struct {
		env     map[string]string // ADDR is replaced by the proxy's address
		setting string
		proxied bool
	}{
		"all":          {map[string]string{"ALL_PROXY": "http://bob:p%3Aw@ADDR"}, "", true},
		"all, small":   {map[string]string{"all_proxy": "http://bob:p%3Aw@ADDR"}, "", true},
		"https":        {map[string]string{"HTTPS_PROXY": "bob:p%3Aw@ADDR"}, "", true},
		"https, small": {map[string]string{"https_proxy": "http://bob:p%3Aw@ADDR"}, "", true},
		"not for this": {map[string]string{"ALL_PROXY": "http://bob:p%3Aw@ADDR", "NO_PROXY": ".invalid"}, "", false},
		"not for small": {map[string]string{
			"ALL_PROXY": "http://bob:p%3Aw@ADDR",
			"no_proxy":  "mail.example.invalid",
		}, "", false},
		"not for others": {
			map[string]string{"ALL_PROXY": "http://bob:p%3Aw@ADDR", "NO_PROXY": "example.com"},
			"",
			true,
		},
		"direct": {map[string]string{"ALL_PROXY": "http://bob:p%3Aw@ADDR"}, "direct", false},
		"none":   {nil, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			g := testserver.StartGateway(t, "127.0.0.1:1", testserver.HTTPProxy)
			for _, key := range unset {
				t.Setenv(key, "")
			}
			for key, value := range tc.env {
				t.Setenv(key, strings.ReplaceAll(value, "ADDR", g.Addr))
			}
			cfg := account(t)
			cfg.Host, cfg.Port, cfg.Security, cfg.Proxy = "mail.example.invalid", 993, imapsrc.SecurityTLS, tc.setting
			_, err := imapsrc.Dial(t.Context(), cfg)
			wantError(t, err, imapsrc.KindNetwork) // the gateway has no backend
			if got := g.LastTarget() == "mail.example.invalid:993"; got != tc.proxied {
				t.Errorf("the proxy was asked: %v; want %v (%v)", got, tc.proxied, err)
			}
		})
	}
	t.Run("broken", func(t *testing.T) {
		t.Setenv("ALL_PROXY", "http://bob:sesame@:80")
		t.Setenv("all_proxy", "")
		_, err := imapsrc.Dial(t.Context(),
			imapsrc.Config{Host: "mail.example.invalid", Port: 993, Security: imapsrc.SecurityTLS})
		wantError(t, err, imapsrc.KindLocal, "in the environment is not a proxy URL")
	})
}

func TestEnvironmentIsNotForLoopback(t *testing.T) {
	cfg := fake(t, greeting, loggedIn, logout)
	t.Setenv("ALL_PROXY", "http://127.0.0.1:1")
	t.Setenv("all_proxy", "")
	cfg.Proxy = ""
	dial(t, cfg) // nothing listens on the proxy's port
}
