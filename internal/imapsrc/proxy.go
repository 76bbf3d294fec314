package imapsrc

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"

	"golang.org/x/net/http/httpproxy"
	"golang.org/x/net/proxy"
)

// connect opens a connection to the server, through the proxy if there is one.
func (c *Conn) connect(ctx context.Context) (net.Conn, error) {
	via, err := c.cfg.proxy(c.host)
	if err != nil {
		return nil, err
	}
	var dialer net.Dialer
	if via == nil {
		return dialer.DialContext(ctx, "tcp", c.host)
	}
	conn, err := throughProxy(ctx, via, c.host, c.cfg)
	if err != nil {
		return nil, fmt.Errorf("through the proxy %s://%s: %w", via.Scheme, via.Host, err)
	}
	return conn, nil
}

// proxy returns the proxy's URL, or nil for none. A proxy from the environment is not used for
// loopback addresses.
func (cfg Config) proxy(host string) (*url.URL, error) {
	if cfg.Proxy == "direct" {
		return nil, nil
	}
	if cfg.Proxy != "" {
		return parseProxy("the proxy setting", cfg.Proxy)
	}
	env := cmp.Or(os.Getenv("all_proxy"), os.Getenv("ALL_PROXY"), os.Getenv("https_proxy"), os.Getenv("HTTPS_PROXY"))
	if env == "" {
		return nil, nil
	}
	via, err := parseProxy("ALL_PROXY or HTTPS_PROXY in the environment", env)
	if err != nil {
		return nil, err
	}
	rules := httpproxy.Config{HTTPSProxy: via.String(), NoProxy: cmp.Or(os.Getenv("no_proxy"), os.Getenv("NO_PROXY"))}
	return rules.ProxyFunc()(&url.URL{Scheme: "https", Host: host})
}

// parseProxy does not quote the text in its error, because it may hold a password. An unescaped /,
// ? or # in a password ends the host early; then the host would hold a part of the password. So
// nothing may follow the host.
func parseProxy(what, text string) (*url.URL, error) {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err == nil && u.Hostname() != "" && strings.TrimPrefix(u.Path, "/")+u.RawQuery+u.Fragment == "" {
		switch u.Scheme {
		case "socks5", "socks5h", "http", "https":
			return u, nil
		}
	}
	return nil, &Error{Kind: KindLocal, Err: fmt.Errorf("%s is not a proxy URL; write it as socks5://, socks5h://, "+
		"http:// or https:// with host:port, and / ? # in a password as %%2F %%3F %%23, or direct", what)}
}

func throughProxy(ctx context.Context, via *url.URL, target string, cfg Config) (net.Conn, error) {
	port := map[string]string{"http": "80", "https": "443"}[via.Scheme]
	address := net.JoinHostPort(via.Hostname(), cmp.Or(via.Port(), port, "1080"))
	if strings.HasPrefix(via.Scheme, "http") {
		return httpConnect(ctx, via, address, target, cfg)
	}
	var auth *proxy.Auth
	if via.User != nil {
		password, _ := via.User.Password()
		auth = &proxy.Auth{User: via.User.Username(), Password: password}
	}
	dialer, err := proxy.SOCKS5("tcp", address, auth, new(net.Dialer))
	if err != nil {
		return nil, err
	}
	return dialer.(proxy.ContextDialer).DialContext(ctx, "tcp", target)
}

// httpConnect opens a tunnel with the CONNECT method (RFC 9110 9.3.6).
func httpConnect(ctx context.Context, via *url.URL, address, target string, cfg Config) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	tunnel := conn
	if via.Scheme == "https" {
		secured := tls.Client(conn, &tls.Config{
			ServerName: via.Hostname(), RootCAs: cfg.RootCAs, MinVersion: tls.VersionTLS12,
		})
		if err := secured.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, tlsFailure(err, via.Hostname())
		}
		tunnel = secured
	}
	if err := askConnect(tunnel, via.User, target); err != nil {
		_ = tunnel.Close()
		return nil, err
	}
	return tunnel, nil
}

func askConnect(conn net.Conn, user *url.Userinfo, target string) error {
	request := "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n"
	if user != nil {
		password, _ := user.Password()
		encoded := base64.StdEncoding.EncodeToString([]byte(user.Username() + ":" + password))
		request += "Proxy-Authorization: Basic " + encoded + "\r\n"
	}
	if _, err := io.WriteString(conn, request+"\r\n"); err != nil {
		return err
	}
	status, err := readLine(conn)
	if err != nil {
		return err
	}
	version, code, _ := strings.Cut(status, " ")
	if !strings.HasPrefix(version, "HTTP/1.") || !strings.HasPrefix(code, "2") {
		return fmt.Errorf("the proxy refused to connect (%s); "+
			"check its address, user and password, and that it allows this port", clean(status))
	}
	for range 200 { // skip the header fields
		if line, err := readLine(conn); err != nil || line == "" {
			return err
		}
	}
	return errors.New("the proxy sends too many header fields")
}
