package imapsrc

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/emersion/go-imap/v2"

	"postrider/internal/text"
)

// Kind says whose fault an error is, and so what can be done.
type Kind string

// The kinds. Nothing but KindAuth, KindExpired, KindPlaintext, KindTLS, KindNoFolder and KindNoCursor needs a person
// at once; the rest may go away by itself.
const (
	KindNetwork     Kind = "network"     // not reached, lost, silent, or the context ended
	KindTLS         Kind = "tls"         // no TLS there, or the certificate does not verify
	KindAuth        Kind = "auth"        // the login is refused
	KindExpired     Kind = "expired"     // the password has expired
	KindUnavailable Kind = "unavailable" // the server cannot just now
	KindLimit       Kind = "limit"       // too many connections, or too much traffic
	KindInUse       Kind = "inuse"       // something else has it locked
	KindNoFolder    Kind = "nofolder"    // the folder does not exist, or may not be opened
	KindNoCursor    Kind = "nocursor"    // the folder's UIDs do not last
	KindPlaintext   Kind = "plaintext"   // refused to send a password in the clear
	KindProtocol    Kind = "protocol"    // the server said what it should not
	KindMessage     Kind = "message"     // the server refuses this one message
	KindLocal       Kind = "local"       // this machine: disk, configuration
)

const (
	opConnect  = "connect"
	opGreeting = "wait for the greeting"
)

// Error is every error of this package. errors.Is finds the context's error in it when that was the cause.
type Error struct {
	Kind   Kind
	Op     string // what was being done
	Host   string // host:port
	Folder string // the open folder, if any
	UID    uint32 // the message that was being read when the connection broke; 0 when it was none
	Err    error
	// BackOff is how long the server wants to be left alone; 0 when it does not say.
	BackOff time.Duration

	brief   string // see Brief
	unclear bool   // a refused FETCH, for the message's sake or for that of all; see refusesMore
}

func (e *Error) Error() string {
	folder := ""
	if e.Folder != "" {
		folder = " " + strconv.Quote(e.Folder)
	}
	return "imap " + e.Host + ": " + e.Op + folder + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Brief is the error for a person who knows which server the inbox has.
func (e *Error) Brief() string {
	if e.brief != "" {
		return e.brief
	}
	return strings.TrimPrefix(e.Error(), "imap "+e.Host+": ")
}

// answer is what the server said, fit to be printed.
type answer string

func (a answer) Error() string { return string(a) }

func (c *Conn) answer(status *imap.Error) error {
	text := string(status.Type)
	if status.Code != "" {
		text += " [" + string(status.Code) + "]"
	}
	return answer(clean(text + " " + c.hide(status.Text)))
}

// hide takes the password out of a server's text, in the forms that it was sent in.
func (c *Conn) hide(text string) string {
	password := c.cfg.Password
	if password == "" {
		return text
	}
	encoded := base64.StdEncoding.EncodeToString([]byte("\x00" + c.cfg.Username + "\x00" + password))
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(password)
	return strings.NewReplacer(encoded, "***", quoted, "***", password, "***").Replace(text)
}

// clean makes one line of at most 200 printable characters.
func clean(s string) string {
	return text.Cut(text.Line(strings.ToValidUTF8(s, "?")), 200)
}

// failure makes an *Error of whatever went wrong. The library's errors say little about a lost connection, so what the
// wire knows goes first.
func (c *Conn) failure(ctx context.Context, op string, err error) error {
	out := &Error{Kind: KindNetwork}
	var no *imap.Error
	var known *Error
	switch {
	case errors.As(err, &known):
		*out = *known
	case ended(ctx, err):
		out.Err = cause(ctx)
	case errors.As(err, &no):
		out.Kind, out.Err, out.BackOff = kindOf(no, KindUnavailable), c.answer(no), backOff(no.Text)
	default:
		c.broken(out, err)
	}
	out.Op, out.Host, out.Folder = op, c.host, c.folder
	return out
}

// broken says why the connection cannot be used any more.
func (c *Conn) broken(out *Error, err error) {
	var bye *imap.Error
	var why error
	if c.wire != nil {
		bye, why = c.wire.why()
	}
	var dns *net.DNSError
	switch {
	case bye != nil:
		out.Kind, out.BackOff = kindOf(bye, KindUnavailable), backOff(bye.Text)
		out.Err = fmt.Errorf("the server ended the connection (%w)", c.answer(bye))
	case errors.Is(why, errTooMuch) || errors.Is(err, errTooMuch):
		out.Kind, out.Err = KindProtocol, errTooMuch
	case why != nil:
		out.Err = why
	case errors.As(err, &dns) && dns.IsNotFound:
		out.Err = fmt.Errorf("there is no host %s; check the spelling (%w)", dns.Name, err)
	case c.wire == nil:
		out.Err = fmt.Errorf("%w; check host, port, firewall and proxy", err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		out.Err = err
	default:
		out.Kind, out.Err = KindProtocol, answer(clean(c.hide(err.Error())))
	}
}

// ended also waits for a context whose deadline was set on the connection, and fired there a moment earlier.
func ended(ctx context.Context, err error) bool {
	var timeout net.Error
	deadline, ok := ctx.Deadline()
	if ok && errors.As(err, &timeout) && timeout.Timeout() && time.Until(deadline) <= 0 {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

// cause is the context's error, or that of the timeout put on it here, which is not the caller's.
func cause(ctx context.Context) error {
	if err := context.Cause(ctx); errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return ctx.Err()
}

// kindOf reads the response code (RFC 5530), and where there is none the words that large providers use.
func kindOf(status *imap.Error, otherwise Kind) Kind {
	switch status.Code {
	case imap.ResponseCodeAuthenticationFailed, imap.ResponseCodeAuthorizationFailed:
		return KindAuth
	case imap.ResponseCodeExpired:
		return KindExpired
	case imap.ResponseCodeUnavailable:
		return KindUnavailable
	case imap.ResponseCodeLimit, imap.ResponseCodeOverQuota:
		return KindLimit
	case imap.ResponseCodeInUse:
		return KindInUse
	case imap.ResponseCodeNonExistent:
		return KindNoFolder
	case imap.ResponseCodePrivacyRequired:
		return KindPlaintext
	}
	text := strings.ToLower(status.Text)
	switch {
	case throttled(status), strings.Contains(text, "too many"), strings.Contains(text, "maximum number of connections"):
		return KindLimit
	case status.Type == imap.StatusResponseTypeBad:
		return KindProtocol
	}
	return otherwise
}

// throttled reports whether the server names a limit on traffic, which is never about one message.
func throttled(status *imap.Error) bool {
	text := strings.ToLower(status.Text)
	return status.Code == "THROTTLED" || backOff(text) > 0 ||
		strings.Contains(text, "throttled") || strings.Contains(text, "rate limit") || strings.Contains(text, "bandwidth")
}

// backOff reads Exchange's hint: "Suggested Backoff Time: 299961 milliseconds".
func backOff(text string) time.Duration {
	_, rest, ok := strings.Cut(strings.ToLower(text), "backoff time: ")
	number, unit, _ := strings.Cut(rest, " ")
	n, err := strconv.ParseUint(number, 10, 32)
	if !ok || err != nil || !strings.HasPrefix(unit, "milliseconds") {
		return 0
	}
	return time.Duration(n) * time.Millisecond
}
