package forward

import (
	"context"
	"crypto/tls"
	"fmt"
)

// Info is what a relay offers.
type Info struct {
	Relay    string // host:port
	TLS      string // the version; empty without TLS
	Login    string // the mechanism used; empty without a login
	Sender   string // whom it takes as the sender: the configured one, or with SRS what that is rewritten to
	MaxSize  int64  // of a message, in octets; 0 when there is no limit, or none is said
	EightBit bool   // 8BITMIME
	UTF8     bool   // SMTPUTF8
}

// Info connects, logs in, names the sender and leaves again. No recipient is named, since nothing is to be sent: what a
// relay has against a sender and says at RCPT alone, as many do, is not known afterwards. Its error is an *Error, or the
// context's.
func (r *Relay) Info(ctx context.Context) (Info, error) {
	if err := r.acquire(ctx); err != nil {
		return Info{}, err
	}
	defer r.release()
	c, err := r.take()
	if err != nil {
		return Info{}, err
	}
	if c != nil {
		_ = c.quit()
	}
	if c, err = r.dial(ctx); err != nil {
		return Info{}, err
	}
	defer func() { _ = c.quit() }()
	info := Info{Relay: r.addr, Login: c.login, MaxSize: c.maxSize(), EightBit: c.offers("8BITMIME"), UTF8: c.offers("SMTPUTF8")}
	if state, ok := c.smtp.TLSConnectionState(); ok {
		info.TLS = tls.VersionName(state.Version)
	}
	info.Sender, err = r.nameSender(ctx, c)
	return info, err
}

// nameSender is MAIL, taken back. It returns the address that the relay takes.
func (r *Relay) nameSender(ctx context.Context, c *conn) (string, error) {
	from, params := r.sender, ""
	if r.cfg.EnvelopeFrom == SRS {
		from, _ = parsePath(r.rewrite(from)) // which makes no others
	}
	if from.utf8 {
		if !c.offers("SMTPUTF8") {
			return "", r.cannotName()
		}
		params = " SMTPUTF8"
	}
	stop := context.AfterFunc(ctx, func() { _ = c.raw.Close() })
	defer stop()
	rep, err := c.command("MAIL FROM:<%s>%s", from.wire, params)
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("name the sender to the relay %s: %w", r.addr, ctx.Err())
	case err != nil:
		return "", &Error{Relay: r.addr, Stage: StageMAIL, Err: err}
	case !rep.ok():
		v, mend := classify(StageMAIL, rep, true)
		return "", r.replied(StageMAIL, v, rep, mend)
	}
	c.reset()
	return from.name, nil
}

// cannotName: the configured sender is internationalized, and the relay takes no such address (RFC 6531 3.2).
func (r *Relay) cannotName() *Error {
	return &Error{Relay: r.addr, Stage: StageMAIL, Permanent: true, Err: errNoUTF8, Mend: mendASCII}
}

// replied is a reply for which the relay is to blame.
func (r *Relay) replied(at Stage, v verdict, rep reply, mend string) *Error {
	return &Error{Relay: r.addr, Stage: at, Permanent: v == relayRefuses, Code: rep.code, Reply: rep.line(), Mend: mend}
}
