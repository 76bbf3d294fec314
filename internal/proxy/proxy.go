// Package proxy opens connections to servers, through a proxy where there is one.
//
// A proxy is a URL (socks5, socks5h, http or https, with user:password), or comes from the
// environment variables ALL_PROXY, HTTPS_PROXY and NO_PROXY, in upper or lower case. A proxy from
// the environment is not used for loopback addresses. IMAP, SMTP and OAuth2 follow the same rules.
// No error has the user or the password of a proxy.
package proxy

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"

	"golang.org/x/net/http/httpproxy"
	socks "golang.org/x/net/proxy"

	"postrider/internal/text"
)

// Dialer opens connections.
type Dialer struct {
	Proxy   string         // a URL, or direct for none; empty for that of the environment
	RootCAs *x509.CertPool // for an https proxy; nil for the system's

	Resolver *net.Resolver // for connections without a proxy; nil for the system's, whose answers are kept

	// Control may refuse an address before a connection without a proxy is opened to it. It gets
	// the address that the name was resolved to. Nil refuses none.
	Control func(network, address string, conn syscall.RawConn) error
}

// Error is a failure of a connection that a proxy had to open.
type Error struct {
	Via string // the proxy, such as socks5://proxy.example.com:1080
	Err error
}

// Error names the proxy.
func (e *Error) Error() string { return "through the proxy " + e.Via + ": " + e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// SettingError is a proxy that is no URL. It does not show it, because it may hold a password.
type SettingError struct{ What string }

// Error says how to write it.
func (e *SettingError) Error() string {
	return e.What + " is not a proxy URL; write it as socks5://, socks5h://, http:// or https:// with host:port, " +
		"and / ? # in a password as %2F %3F %23, or direct"
}

// TLSError is a failure of TLS with an https proxy.
type TLSError struct {
	Host string // of the proxy
	Err  error
}

// Error is what TLS said.
func (e *TLSError) Error() string { return "start TLS with the proxy " + e.Host + ": " + e.Err.Error() }

func (e *TLSError) Unwrap() error { return e.Err }

// ErrEndless is a proxy that answers without end.
var ErrEndless = errors.New("the proxy sends without end")

// Dial opens a connection to host:port. It ends with ctx. The error is a *SettingError, an *Error,
// or that of a connection without a proxy.
func (d Dialer) Dial(ctx context.Context, address string) (net.Conn, error) {
	via, err := d.choose(address)
	if err != nil {
		return nil, err
	}
	if via == nil {
		return (&net.Dialer{Resolver: cmp.Or(d.Resolver, names), Control: d.Control}).DialContext(ctx, "tcp", address)
	}
	conn, err := d.through(ctx, via, address)
	if err != nil {
		return nil, &Error{Via: via.Scheme + "://" + via.Host, Err: err}
	}
	return conn, nil
}

// Late is the error of a Dial that ran out of time, which is cause. It names the proxy or the name
// server that did not answer.
func Late(err, cause error) error {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return err
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return &Error{Via: e.Via, Err: cause}
	}
	return cause
}

// choose returns the proxy's URL, or nil for none.
func (d Dialer) choose(host string) (*url.URL, error) {
	if d.Proxy == "direct" {
		return nil, nil
	}
	if d.Proxy != "" {
		return parse("the proxy setting", d.Proxy)
	}
	env := cmp.Or(os.Getenv("all_proxy"), os.Getenv("ALL_PROXY"), os.Getenv("https_proxy"), os.Getenv("HTTPS_PROXY"))
	if env == "" {
		return nil, nil
	}
	via, err := parse("ALL_PROXY or HTTPS_PROXY in the environment", env)
	if err != nil {
		return nil, err
	}
	rules := httpproxy.Config{HTTPSProxy: via.String(), NoProxy: cmp.Or(os.Getenv("no_proxy"), os.Getenv("NO_PROXY"))}
	return rules.ProxyFunc()(&url.URL{Scheme: "https", Host: host})
}

// parse does not quote the text in its error, because it may hold a password. An unescaped /,
// ? or # in a password ends the host early; then the host would hold a part of the password. So
// nothing may follow the host.
func parse(what, setting string) (*url.URL, error) {
	if !strings.Contains(setting, "://") {
		setting = "http://" + setting
	}
	u, err := url.Parse(setting)
	if err == nil && u.Hostname() != "" && strings.TrimPrefix(u.Path, "/")+u.RawQuery+u.Fragment == "" {
		switch u.Scheme {
		case "socks5", "socks5h", "http", "https":
			return u, nil
		}
	}
	return nil, &SettingError{what}
}

// through opens a connection to target through a proxy.
func (d Dialer) through(ctx context.Context, via *url.URL, target string) (net.Conn, error) {
	port := map[string]string{"http": "80", "https": "443"}[via.Scheme]
	address := net.JoinHostPort(via.Hostname(), cmp.Or(via.Port(), port, "1080"))
	if strings.HasPrefix(via.Scheme, "http") {
		return d.httpConnect(ctx, via, address, target)
	}
	var auth *socks.Auth
	if via.User != nil {
		password, _ := via.User.Password()
		auth = &socks.Auth{User: via.User.Username(), Password: password}
	}
	dialer, err := socks.SOCKS5("tcp", address, auth, new(net.Dialer))
	if err != nil {
		return nil, err
	}
	return dialer.(socks.ContextDialer).DialContext(ctx, "tcp", target)
}

// httpConnect opens a tunnel with the CONNECT method (RFC 9110 9.3.6).
func (d Dialer) httpConnect(ctx context.Context, via *url.URL, address, target string) (net.Conn, error) {
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
			ServerName: via.Hostname(), RootCAs: d.RootCAs, MinVersion: tls.VersionTLS12,
		})
		if err := secured.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, &TLSError{Host: via.Hostname(), Err: err}
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
	var secrets []string
	if user != nil {
		password, _ := user.Password()
		encoded := base64.StdEncoding.EncodeToString([]byte(user.Username() + ":" + password))
		secrets = []string{encoded, user.String(), password, user.Username()}
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
		for _, s := range secrets { // the proxy may repeat them
			if s != "" {
				status = strings.ReplaceAll(status, s, "***")
			}
		}
		return fmt.Errorf("the proxy refused to connect (%s); "+
			"check its address, user and password, and that it allows this port",
			text.Cut(text.Line(strings.ToValidUTF8(status, "?")), 200))
	}
	for range 200 { // skip the header fields
		if line, err := readLine(conn); err != nil || line == "" {
			return err
		}
	}
	return errors.New("the proxy sends too many header fields")
}

// readLine reads one line and not an octet more: what follows is the server's.
func readLine(r io.Reader) (string, error) {
	var line []byte
	var octet [1]byte
	for len(line) < 8<<10 {
		if _, err := io.ReadFull(r, octet[:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = fmt.Errorf("the proxy closed the connection: %w", io.ErrUnexpectedEOF)
			}
			return "", err
		}
		if octet[0] == '\n' {
			return strings.TrimSuffix(string(line), "\r"), nil
		}
		line = append(line, octet[0])
	}
	return "", ErrEndless
}
