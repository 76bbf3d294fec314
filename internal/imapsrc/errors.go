package imapsrc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/emersion/go-imap/v2"

	"postrider/internal/certs"
	"postrider/internal/proxy"
	"postrider/internal/text"
	"postrider/internal/transcript"
)

// Kind says what caused an error, and so who can fix it.
type Kind string

// The kinds. An administrator has to fix KindAuth, KindExpired, KindPlaintext, KindTLS,
// KindNoFolder, KindNoCursor and KindLogin, and KindToken if its cause says so. The others may go
// away by themselves.
const (
	KindNetwork     Kind = "network"     // no connection, or lost, silent, or the context ended
	KindTLS         Kind = "tls"         // no TLS on this port, or the certificate is not valid
	KindAuth        Kind = "auth"        // the server refused the login
	KindExpired     Kind = "expired"     // the password has expired
	KindToken       Kind = "token"       // there is no OAuth2 access token
	KindLogin       Kind = "login"       // there is none before a person logs in
	KindUnavailable Kind = "unavailable" // the server is temporarily unavailable
	KindLimit       Kind = "limit"       // too many connections, or too much traffic
	KindInUse       Kind = "inuse"       // another client has the folder locked
	KindNoFolder    Kind = "nofolder"    // the folder does not exist, or access is denied
	KindNoCursor    Kind = "nocursor"    // the folder's UIDs are not persistent
	KindPlaintext   Kind = "plaintext"   // the password would be sent unencrypted
	KindProtocol    Kind = "protocol"    // the server violates the protocol or a limit of ours
	KindMessage     Kind = "message"     // the server refuses this one message
	KindLocal       Kind = "local"       // this machine: disk, configuration
)

const (
	opConnect  = "connect"
	opGreeting = "wait for the greeting"
	opToken    = "get an access token"
)

// Error is the type of every error of this package. It wraps the context's error when that was the
// cause.
type Error struct {
	Kind   Kind
	Op     string // what was being done
	Host   string // host:port
	Folder string // the open folder, if any
	UID    uint32 // the message that was being read when the connection broke; 0 for none
	Err    error
	// BackOff is how long the server asks the client to wait, at most LongestBackOff; 0 when it
	// does not say.
	BackOff time.Duration
	// Unlisted says that the server refused to open a folder (KindNoFolder), and lists other
	// folders but not that one. The refusal has no code, or says that there is no such folder
	// (NONEXISTENT, RFC 5530 3).
	Unlisted bool
	// Ended says that the server ended the connection (BYE, RFC 3501 7.1.5), whatever the kind.
	Ended bool

	brief     string // see Brief
	refused   bool   // a listing was refused with NO or BAD
	ambiguous bool   // the FETCH was refused, because of this message or of all; see folderRefusal
}

func (e *Error) Error() string {
	folder := ""
	if e.Folder != "" {
		folder = " " + strconv.Quote(e.Folder)
	}
	return "imap " + e.Host + ": " + e.Op + folder + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Brief is a shorter text, for a person who knows which server the inbox has.
func (e *Error) Brief() string {
	if e.brief != "" {
		return e.brief
	}
	return strings.TrimPrefix(e.Error(), "imap "+e.Host+": ")
}

// KindOf is the Kind of an error; "" when err is nil or no *Error.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return ""
}

// BackOffOf is the BackOff of an error; 0 when err is nil or no *Error.
func BackOffOf(err error) time.Duration {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.BackOff
	}
	return 0
}

// answer is a server's status response, cleaned for printing.
type answer string

func (a answer) Error() string { return string(a) }

func (c *Conn) answer(status *imap.Error) error {
	text := string(status.Type)
	if status.Code != "" {
		text += " [" + string(status.Code) + "]"
	}
	text = clean(text + " " + c.redact(status.Text))
	if strings.Contains(text, "authenticated but not connected") { // Exchange
		text += "; check that IMAP is allowed for the mailbox of " + c.cfg.Username +
			", and that the account that logged in may open it"
	}
	return answer(text)
}

// redact removes what was sent to log in from a server's text, in every encoding.
func (c *Conn) redact(text string) string {
	hide := transcript.Hide(c.cfg.Username, c.cfg.Password)
	if c.cfg.Token != nil {
		hide = transcript.HideTexts(c.bearer().Secrets()...)
	}
	return hide(text)
}

// clean makes one line of at most 200 printable characters.
func clean(s string) string {
	return text.Cut(text.Line(strings.ToValidUTF8(s, "?")), 200)
}

// failure turns any error into an *Error. The library says little about a lost connection, so an
// error that the wire recorded is preferred.
func (c *Conn) failure(ctx context.Context, op string, err error) error {
	out := &Error{Kind: KindNetwork}
	var no *imap.Error
	var known *Error
	switch {
	case errors.As(err, &known):
		*out = *known
	case ended(ctx, err):
		if out.Err = cause(ctx); errors.Is(out.Err, os.ErrDeadlineExceeded) {
			out.Err = unnamed(proxy.Late(err, out.Err))
		}
	case errors.As(err, &no):
		out.Kind, out.Err, out.BackOff = kindOf(no, KindUnavailable), c.answer(no), backOff(no.Text)
	default:
		c.explainLost(out, err)
	}
	if op == opGreeting && out.Kind == KindProtocol {
		out.Err = fmt.Errorf("%w; check that host and port are those of an IMAP server", out.Err)
	}
	out.Op, out.Host, out.Folder = op, c.host, c.folder
	return out
}

// explainLost sets why the connection is lost.
func (c *Conn) explainLost(out *Error, err error) {
	var bye *imap.Error
	var wireErr error
	if c.wire != nil {
		bye, wireErr = c.wire.failure()
	}
	var dns *net.DNSError
	var broken violation
	switch {
	case bye != nil:
		out.Ended, out.Kind, out.BackOff = true, kindOf(bye, KindUnavailable), backOff(bye.Text)
		out.Err = fmt.Errorf("the server ended the connection (%w)", c.answer(bye))
	case errors.As(wireErr, &broken), errors.As(err, &broken):
		out.Kind, out.Err = KindProtocol, broken
	case !c.loggedIn && certs.Refused(wireErr):
		out.Kind, out.Err = KindTLS, c.refusedUs(wireErr)
	case wireErr != nil:
		out.Err = wireErr
	case c.wire == nil && text.NoFiles(err) != "":
		out.Err = fmt.Errorf("%w; %s", err, text.NoFiles(err))
	case errors.As(err, &dns) && dns.IsNotFound:
		out.Err = fmt.Errorf("there is no host %s; check the spelling (%w)", dns.Name, err)
	case dns != nil:
		out.Err = unnamed(err)
	case c.wire == nil:
		out.Err = fmt.Errorf("%w; check host, port, firewall and proxy", err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		out.Err = err
	default:
		out.Kind, out.Err = KindProtocol, answer(clean(c.redact(err.Error())))
	}
}

// unnamed says what to check when the address of a name could not be found out.
func unnamed(err error) error {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return fmt.Errorf("%w; check the name servers of this machine, and the host", err)
	}
	return err
}

// ended reports whether ctx ended. The deadline of ctx is also set on the connection and can fire
// there first; then ended waits for ctx.
func ended(ctx context.Context, err error) bool {
	var timeout net.Error
	deadline, ok := ctx.Deadline()
	if ok && errors.As(err, &timeout) && timeout.Timeout() && time.Until(deadline) <= 0 {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

// cause is the error of the caller's context, or of the dial timeout that open added to it.
func cause(ctx context.Context) error {
	if err := context.Cause(ctx); errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return ctx.Err()
}

// kindOf reads the response code (RFC 5530). Without one it looks for words that large providers
// use.
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
	case otherwise == KindAuth && strings.HasPrefix(text, "server unavailable"): // Exchange, to LOGIN
		return KindUnavailable
	case status.Type == imap.StatusResponseTypeBad:
		return KindProtocol
	}
	return otherwise
}

// throttled reports whether the server names a limit on traffic. Such a limit never concerns one
// message only.
func throttled(status *imap.Error) bool {
	text := strings.ToLower(status.Text)
	return status.Code == "THROTTLED" || backOff(text) > 0 || strings.Contains(text, "throttled") ||
		strings.Contains(text, "rate limit") || strings.Contains(text, "bandwidth")
}

// LongestBackOff is the longest pause that a server gets, even if it asks for a longer one.
const LongestBackOff = time.Hour

// backOff reads Exchange's hint: "Suggested Backoff Time: 299961 milliseconds".
func backOff(text string) time.Duration {
	_, rest, ok := strings.Cut(strings.ToLower(text), "backoff time: ")
	number, unit, _ := strings.Cut(rest, " ")
	n, err := strconv.ParseUint(number, 10, 32)
	if !ok || err != nil || !strings.HasPrefix(unit, "milliseconds") {
		return 0
	}
	return min(time.Duration(n)*time.Millisecond, LongestBackOff)
}
