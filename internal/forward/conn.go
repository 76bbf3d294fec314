package forward

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"strings"
	"time"

	"postrider/internal/address"
	"postrider/internal/proxy"
	"postrider/internal/text"
	"postrider/internal/transcript"

	"github.com/wneessen/go-mail/smtp"
)

// conn is one connection to the relay, ready for a transaction.
type conn struct {
	cfg   *Config
	raw   net.Conn  // below TLS: closing it ends the session at once, with nothing sent
	tls   *tls.Conn // nil without TLS
	in    *lenient
	smtp  *smtp.Client
	w     *bufio.Writer // for what is sent after the login
	login string        // the mechanism used; empty without a login
	token string        // the OAuth2 access token that it is logged in with; empty without one
	dead  bool          // lost, or closed by the relay
	uses  int           // how many messages it was used for
	took  bool          // the relay has accepted a message on it
	idle  *time.Timer   // while it is in the pool
	block []byte        // buffer for the content
}

// dialWith connects, encrypts and logs in, with the token if there is one. Its error is an *Error,
// or the context's.
func (r *Relay) dialWith(ctx context.Context, token string) (*conn, error) {
	raw, err := r.connect(ctx)
	if err != nil {
		return nil, r.openFailed(ctx, &Error{Stage: StageConnect, Err: err, Fix: unreached(err)})
	}
	c := &conn{cfg: &r.cfg, raw: raw, token: token}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	e := c.open()
	if !stop() || e != nil {
		_ = raw.Close() // the library leaks it when EHLO, TLS or AUTH fails
		return nil, r.openFailed(ctx, e)
	}
	r.log.Debug("connected to the relay", "relay", r.addr, "login", c.login)
	return c, nil
}

// connect opens a connection to the relay, through the proxy if there is one.
func (r *Relay) connect(ctx context.Context) (net.Conn, error) {
	timeout := fmt.Errorf("no answer within %s: %w", r.cfg.Timeouts.Dial, os.ErrDeadlineExceeded)
	limited, cancel := context.WithTimeoutCause(ctx, r.cfg.Timeouts.Dial, timeout)
	defer cancel()
	conn, err := proxy.Dialer{Proxy: r.cfg.Proxy, RootCAs: r.cfg.RootCAs}.Dial(limited, r.addr)
	if err != nil && limited.Err() != nil {
		err = proxy.Late(err, context.Cause(limited))
	}
	return conn, err
}

func unreached(err error) string {
	if fix := text.NoFiles(err); fix != "" {
		return fix
	}
	if _, ok := errors.AsType[*proxy.SettingError](err); ok {
		return "correct smtp.proxy, ALL_PROXY or HTTPS_PROXY"
	}
	if _, ok := errors.AsType[*proxy.Error](err); ok {
		return "check the proxy (smtp.proxy, ALL_PROXY or HTTPS_PROXY), smtp.host and smtp.port; " +
			"smtp.proxy: direct uses none"
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return "check smtp.host"
	} else if ok {
		return "check the name servers of this machine, and smtp.host"
	}
	return "check that the relay is up, and smtp.host and smtp.port"
}

func (r *Relay) openFailed(ctx context.Context, e *Error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("connect to the relay %s: %w", r.addr, err)
	}
	e.Relay = r.addr
	return e
}

// open talks to the relay until the login is done. The library reads replies of any length, and
// mistakes a truncated line for a complete one.
func (c *conn) open() *Error {
	in := &bounded{Conn: c.raw, left: maxOpening}
	e := c.converse(in)
	if e != nil && in.left == 0 {
		return &Error{Stage: e.Stage, Err: errOpening}
	}
	in.left = math.MaxInt // readReply has its own limit
	c.w = bufio.NewWriterSize(through{c}, maxWrite)
	return e
}

func (c *conn) converse(in net.Conn) *Error {
	if c.cfg.Security == "tls" {
		if e := c.encrypt(in); e != nil {
			return e
		}
		in = c.tls
	}
	if e := c.hello(newLenient(in)); e != nil {
		return e
	}
	if c.cfg.Security == "starttls" {
		if e := c.startTLS(in); e != nil {
			return e
		}
	}
	e := c.auth()
	c.in.done = true
	return e
}

// encrypt negotiates TLS.
func (c *conn) encrypt(in net.Conn) *Error {
	c.deadline(c.cfg.Timeouts.Command)
	c.tls = tls.Client(in, c.cfg.tls())
	if err := c.tls.Handshake(); err != nil {
		return openError(StageTLS, err)
	}
	return nil
}

// hello reads the greeting and says EHLO.
func (c *conn) hello(in *lenient) *Error {
	c.in = in
	c.deadline(c.cfg.Timeouts.Command)
	var err error
	if c.smtp, err = smtp.NewClient(in, c.cfg.Host); err != nil {
		return openError(StageGreeting, err)
	}
	c.transcript()
	c.deadline(c.cfg.Timeouts.Command)
	if err := c.smtp.Hello(c.localName()); err != nil {
		return openError(StageEHLO, err)
	}
	if in.later != nil { // the library has gone on with HELO, which offers nothing (RFC 5321 3.2: after a 5yz)
		return openError(StageEHLO, in.later)
	}
	return nil
}

// maxOpening is how much the relay may send until the login is done, in octets: the greeting, the
// replies, and the handshake of TLS with its certificates.
const maxOpening = 64 << 10

var errOpening = errors.New("it sent more than 64 KiB before the login was done")

// bounded is a connection that may be read up to a limit.
type bounded struct {
	net.Conn
	left int // octets
}

func (l *bounded) Read(p []byte) (int, error) {
	if l.left == 0 {
		return 0, errOpening
	}
	n, err := l.Conn.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}

// startTLS never goes on without TLS (RFC 3207 4.1). The library's StartTLS itself reads the reply
// to EHLO under TLS, where lenient cannot help it. What was read ahead before TLS is dropped (RFC
// 3207 6).
func (c *conn) startTLS(in net.Conn) *Error {
	if !c.offers("STARTTLS") {
		return &Error{
			Stage: StageSTARTTLS, Permanent: true, Err: errNotOffered,
			Fix: "set smtp.security to tls, if its port speaks TLS from the start (465), or ask its operator",
		}
	}
	c.deadline(c.cfg.Timeouts.Command)
	_, err := c.smtp.Text.Cmd("STARTTLS")
	if err == nil {
		_, _, err = c.smtp.Text.ReadResponse(220)
	}
	if _, replied := replyIn(err); replied {
		return openError(StageSTARTTLS, err)
	}
	if err != nil {
		return openError(StageTLS, err)
	}
	if e := c.encrypt(in); e != nil {
		if _, ok := errors.AsType[tls.RecordHeaderError](e.Err); ok {
			e.Fix = "it takes STARTTLS, and then sends no TLS: ask its operator, " +
				"or set smtp.security to tls, with a port that speaks TLS from the start (465)"
		}
		return e
	}
	secure := newLenient(c.tls)
	secure.rest = []byte("220 \r\n") // there is no second greeting, but the library reads one
	return c.hello(secure)
}

// transcript logs what is said from now on, if the log wants that. The library reads the greeting
// before it can.
func (c *conn) transcript() {
	log := c.cfg.Logger.With("connection", c.raw.LocalAddr().String())
	c.smtp.Text = transcript.SMTP(c.smtp.Text, log, c.hide())
}

// localName is what EHLO says: a domain, or else an address literal (RFC 5321 4.1.4).
func (c *conn) localName() string {
	if c.cfg.LocalName != "" {
		return c.cfg.LocalName
	}
	if name, err := os.Hostname(); err == nil && strings.Contains(name, ".") && address.IsDomain(name) {
		return name
	}
	ip := net.IPv4(127, 0, 0, 1)
	if local, ok := c.raw.LocalAddr().(*net.TCPAddr); ok {
		ip = local.IP
	}
	if ip.To4() != nil {
		return "[" + ip.String() + "]"
	}
	return "[IPv6:" + ip.String() + "]"
}

func (c *conn) offers(extension string) bool {
	ok, _ := c.smtp.Extension(extension)
	return ok
}

// deadline limits how long the next step may take. When it cannot be set, the next step fails.
func (c *conn) deadline(d time.Duration) { _ = c.raw.SetDeadline(time.Now().Add(d)) }

// maxWrite is how much goes out in one write, in octets. It holds a hundred recipients, and a small
// message with its final dot.
const maxWrite = 32 << 10

// through passes each write on at once, bypassing the small buffer of the library.
type through struct{ c *conn }

func (t through) Write(p []byte) (int, error) {
	n, err := t.c.smtp.Text.W.Write(p)
	if err == nil {
		err = t.c.smtp.Text.W.Flush()
	}
	return n, err
}

// command sends one command and reads its reply. An error means that the connection is lost.
func (c *conn) command(line string) (reply, error) {
	if err := c.say(line); err != nil {
		return reply{}, err
	}
	return c.hear()
}

// say sends lines, in one write.
func (c *conn) say(lines ...string) error {
	c.deadline(c.cfg.Timeouts.Command)
	for _, line := range lines {
		_, _ = c.w.WriteString(line) // Flush returns the first error
		_, _ = c.w.WriteString("\r\n")
	}
	return c.w.Flush()
}

// hear reads one reply.
func (c *conn) hear() (reply, error) {
	c.deadline(c.cfg.Timeouts.Command)
	return readReply(c.smtp.Text.R)
}

// ahead reports whether the relay has sent more than the replies that were read. It cannot answer
// what it has not heard.
func (c *conn) ahead() bool { return c.smtp.Text.R.Buffered() > 0 }

// reset ends a transaction before DATA (RFC 5321 4.1.1.5). Once the relay waits for the content,
// only the end of the connection does (4.1.1.10).
func (c *conn) reset() (reply, error) {
	if c.dead {
		return reply{}, nil
	}
	rep, err := c.command("RSET")
	c.dead = err != nil || !rep.ok()
	return rep, err
}

// reused reports whether the connection was already used for an earlier message.
func (c *conn) reused() bool { return c.uses > 1 }

// quit says QUIT (RFC 5321 4.1.1.10) and closes. It does not wait long for a reply.
func (c *conn) quit() error {
	const patience = 2 * time.Second
	c.deadline(patience)
	_, _ = c.w.WriteString("QUIT\r\n")
	if c.w.Flush() == nil {
		_, _ = readReply(c.smtp.Text.R)
	}
	return c.smtp.Text.Close()
}
