package imapsrc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"

	"postrider/internal/transcript"
)

// open connects and waits for the greeting.
func (c *Conn) open(ctx context.Context) error {
	if err := c.cfg.validate(); err != nil {
		return c.failure(ctx, opConnect, err)
	}
	timeout := fmt.Errorf("no answer within %v: %w", c.cfg.DialTimeout, os.ErrDeadlineExceeded)
	if c.cfg.Security != SecurityTLS { // a TLS server waits silently for the client's handshake
		timeout = fmt.Errorf("%w; port and security may not match (%s)", timeout, usualPorts)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.DialTimeout, timeout)
	defer cancel()
	conn, err := c.connect(ctx)
	if err != nil {
		return c.failure(ctx, opConnect, err)
	}
	if conn, err = c.secure(ctx, conn); err != nil {
		return c.failure(ctx, opConnect, err)
	}
	return c.greet(ctx, conn)
}

// greet waits for the greeting on an open connection. It closes the connection when none comes.
func (c *Conn) greet(ctx context.Context, conn net.Conn) error {
	c.wire = newWire(c.transcript(conn), c.cfg.IdleTimeout)
	if c.cfg.Security == SecurityStartTLS {
		// The server sends one greeting only, and it came before TLS. Its capabilities must not be
		// trusted (RFC 3501 6.2.1), so the library gets a greeting without any.
		c.wire.first = "* OK\r\n"
	}
	c.wire.begin(loginAnswer, c.patience())
	c.employ()
	if err := c.do(ctx, opGreeting, loginAnswer, c.client.WaitGreeting); err != nil {
		c.wire.kill()
		<-c.client.Closed()
		return err
	}
	return nil
}

// employ starts a client of the library, which reads a greeting first.
func (c *Conn) employ() {
	c.client = imapclient.New(c.wire.newReader(), &imapclient.Options{
		UnilateralDataHandler: &imapclient.UnilateralDataHandler{Fetch: c.handle},
	})
}

// library returns the client of the library. After Idle it makes a new one, which reads a greeting
// that we write: PREAUTH, with the capabilities of the connection.
func (c *Conn) library() *imapclient.Client {
	if c.client == nil {
		c.wire.first = "* PREAUTH [" + strings.Join(append([]string{"CAPABILITY"}, c.Capabilities()...), " ") + "]\r\n"
		c.employ()
		_ = c.client.WaitGreeting() // we wrote the greeting ourselves
	}
	return c.client
}

// dismiss ends the library's client. The connection stays.
func (c *Conn) dismiss() {
	if c.client == nil {
		return
	}
	c.wire.reader.stop()
	<-c.client.Closed()
	c.client = nil
}

// transcript logs what is said on a connection, if the log wants that.
func (c *Conn) transcript(conn net.Conn) net.Conn {
	return transcript.IMAP(conn, c.cfg.Logger, c.redact)
}

// secure starts TLS when Config.Security asks for it. It closes the connection when that fails.
func (c *Conn) secure(ctx context.Context, conn net.Conn) (net.Conn, error) {
	if c.cfg.Security == SecurityNone {
		return conn, nil
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if c.cfg.Security == SecurityStartTLS {
		if err := startTLS(c.transcript(conn)); err != nil {
			_ = conn.Close()
			return nil, err
		}
	}
	secured := tls.Client(conn, c.cfg.tls(func() { c.asked = true }))
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, c.serverTLS(err)
	}
	return secured, nil
}

// startTLS reads exactly up to the server's OK (RFC 3501 6.2.1), octet by octet. Plain text that an
// attacker injects after the OK then makes the TLS handshake fail, and is never read as an answer.
func startTLS(conn net.Conn) error {
	line, err := readLine(conn)
	if err != nil {
		return err
	}
	greeting := parseStatus(line)
	switch {
	case greeting == nil:
		return fmt.Errorf("read the greeting: this is not an IMAP server: %q; check host and port", clean(line))
	case greeting.Type == imap.StatusResponseTypePreAuth:
		return &Error{Kind: KindPlaintext, Err: errors.New("the server skips the login (PREAUTH) before TLS; " +
			"use security tls")}
	case greeting.Type != imap.StatusResponseTypeOK:
		return greeting
	}
	if _, err := io.WriteString(conn, "S1 STARTTLS\r\n"); err != nil {
		return err
	}
	for range 100 {
		if line, err = readLine(conn); err != nil {
			return err
		}
		rest, ok := strings.CutPrefix(line, "S1 ")
		if !ok {
			continue
		}
		return startTLSAnswered(parseAnswer(rest), clean(rest))
	}
	return errTooMuch
}

// startTLSAnswered is the error for an answer to STARTTLS other than OK. answer is nil if said is
// not an answer.
func startTLSAnswered(answer *imap.Error, said string) error {
	kind := KindPlaintext
	if answer != nil && answer.Type == imap.StatusResponseTypeNo {
		kind = kindOf(answer, KindPlaintext) // the code may say that it is for now
	}
	switch {
	case answer != nil && answer.Type == imap.StatusResponseTypeOK:
		return nil
	case kind != KindPlaintext:
		err := fmt.Errorf("the server refused STARTTLS (%s)", said)
		return &Error{Kind: kind, Err: err, BackOff: backOff(answer.Text)}
	}
	return &Error{Kind: kind, Err: fmt.Errorf("the server does not offer STARTTLS (%s); "+
		"use security tls, usually on port 993", said)}
}

// readLine reads one line and not an octet more.
func readLine(r io.Reader) (string, error) {
	var line []byte
	var octet [1]byte
	for len(line) < 8<<10 {
		if _, err := io.ReadFull(r, octet[:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = fmt.Errorf("the other side closed the connection: %w", io.ErrUnexpectedEOF)
			}
			return "", err
		}
		if octet[0] == '\n' {
			return strings.TrimSuffix(string(line), "\r"), nil
		}
		line = append(line, octet[0])
	}
	return "", errTooMuch
}
