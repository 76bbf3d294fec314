package forward

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"postrider/internal/proxy"
	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

// TestProxyOfTheEnvironment checks that the relay is reached as IMAP servers are: through
// ALL_PROXY, unless NO_PROXY names it or it is on loopback.
func TestProxyOfTheEnvironment(t *testing.T) {
	for _, tt := range []struct {
		name, variable, scheme, noProxy, setting string
		handshake                                testserver.Handshake
		proxied                                  bool
	}{
		{"SOCKS5", "ALL_PROXY", "socks5", "", "", testserver.SOCKSProxy, true},
		{"SOCKS5, which resolves the name", "all_proxy", "socks5h", "", "", testserver.SOCKSProxy, true},
		{"HTTP", "HTTPS_PROXY", "http", "", "", testserver.HTTPProxy, true},
		{"NO_PROXY names others", "ALL_PROXY", "socks5", "example.com", "", testserver.SOCKSProxy, true},
		{"NO_PROXY", "ALL_PROXY", "socks5", "relay.invalid", "", testserver.SOCKSProxy, false},
		{"smtp.proxy: direct", "ALL_PROXY", "socks5", "", "direct", testserver.SOCKSProxy, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, name := range []string{"ALL_PROXY", "HTTPS_PROXY", "NO_PROXY"} {
				t.Setenv(name, "")
				t.Setenv(strings.ToLower(name), "")
			}
			s := sink(t, smtpsink.Options{})
			g := testserver.StartGateway(t, net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port())), tt.handshake)
			t.Setenv(tt.variable, tt.scheme+"://bob:p%3Aw@"+g.Addr)
			t.Setenv("NO_PROXY", tt.noProxy)
			r := relayOn(t, s.Port(), func(c *Config) { c.Host, c.Proxy = "relay.invalid", tt.setting })
			_, err := r.Info(t.Context(), nil)
			want := "relay.invalid:" + strconv.Itoa(s.Port())
			got := g.LastTarget()
			if tt.proxied && (err != nil || got != want) || !tt.proxied && (err == nil || got != "") {
				t.Errorf("Info: %v, and the proxy was asked for %q; want it asked for %q: %v",
					err, got, want, tt.proxied)
			}
		})
	}
	t.Run("loopback", func(t *testing.T) {
		t.Setenv("ALL_PROXY", "socks5://127.0.0.1:1")
		mustSend(t, relayOn(t, sink(t, smtpsink.Options{}).Port()))
	})
}

// TestProxyFails checks that the error names the proxy and the keys, and no password.
func TestProxyFails(t *testing.T) {
	for _, tt := range []struct {
		name, proxy string // %s is its address
		handshake   testserver.Handshake
		host        string
		want        []string
	}{
		{
			"down", "socks5://bob:sesame@127.0.0.1:1", nil, "relay.invalid",
			[]string{"connect", "through the proxy socks5://127.0.0.1:1", "smtp.proxy", "HTTPS_PROXY"},
		},
		{
			"refuses the login", "http://bob:sesame@%s", testserver.HTTPProxy, "relay.invalid",
			[]string{"407 Proxy Authentication Required"},
		},
		{
			"refuses the relay", "socks5://bob:p%%3Aw@%s", testserver.SOCKSProxy, "refused.example",
			[]string{"connection refused", "smtp.proxy"},
		},
		{
			"silent", "http://bob:sesame@%s", testserver.SilentProxy, "relay.invalid",
			[]string{"through the proxy http://127.0.0.1:", "no answer within 200ms", "smtp.proxy"},
		},
		{"no URL", "socks4://bob:sesame@h", nil, "relay.invalid", []string{"is not a proxy URL"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			proxy := tt.proxy
			if tt.handshake != nil {
				g := testserver.StartGateway(t, "127.0.0.1:1", tt.handshake)
				proxy = strings.ReplaceAll(strings.Replace(proxy, "%s", g.Addr, 1), "%%", "%")
			}
			r := relayOn(t, 25, func(c *Config) {
				c.Host, c.Proxy, c.Timeouts.Dial = tt.host, proxy, 200*time.Millisecond
			})
			_, err := r.Info(t.Context(), nil)
			if err == nil {
				t.Fatal("Info = nil, want an error")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error is %q, want %q in it", err, want)
				}
			}
			for _, secret := range []string{"sesame", "p:w", "p%3Aw", "bob"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("the error is %q, want it without user and password", err)
				}
			}
		})
	}
}

// TestUnreached: what to check depends on who could not be reached.
func TestUnreached(t *testing.T) {
	cause := fmt.Errorf("no answer within 30s: %w", os.ErrDeadlineExceeded)
	lookup := &net.OpError{Op: "dial", Err: &net.DNSError{Err: "i/o timeout", Name: "smtp.x", IsTimeout: true}}
	for _, tt := range []struct {
		err       error
		says, fix string
	}{
		{lookup, "lookup smtp.x: i/o timeout", "check the name servers of this machine"},
		{
			&proxy.Error{Via: "http://p:80", Err: os.ErrDeadlineExceeded},
			"through the proxy http://p:80: no answer", "smtp.proxy",
		},
		{
			&proxy.Error{Via: "http://p:80", Err: lookup},
			"through the proxy http://p:80: dial: lookup smtp.x: i/o timeout", "smtp.proxy",
		},
		{os.ErrDeadlineExceeded, "no answer within 30s", "check that the relay is up"},
	} {
		err := proxy.Late(tt.err, cause)
		if fix := unreached(err); !strings.Contains(err.Error(), tt.says) || !strings.Contains(fix, tt.fix) {
			t.Errorf("the error is %q, and the fix %q; want %q and %q", err, fix, tt.says, tt.fix)
		}
	}
	if fix := unreached(&net.OpError{Op: "dial", Err: syscall.EMFILE}); !strings.Contains(fix, "limit of open files") {
		t.Errorf("the fix is %q; want the limit of open files", fix)
	}
}
