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
	Sender   string // that it accepts: the configured one, or what SRS makes of it
	MaxSize  int64  // of a message, in octets; 0 when there is no limit, or the relay does not say
	EightBit bool   // 8BITMIME
	UTF8     bool   // SMTPUTF8
}

// Info connects, logs in, names the sender and disconnects. It names no recipient, since nothing is
// to be sent: what a relay has against a sender and says only at RCPT, as many do, stays unknown.
// Its error is an *Error, or the context's.
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
	info.Sender, err = r.checkSender(ctx, c)
	return info, err
}

// checkSender is MAIL, and RSET after it. It returns the address that the relay accepts.
func (r *Relay) checkSender(ctx context.Context, c *conn) (string, error) {
	from, params := r.sender, ""
	if r.cfg.EnvelopeFrom == SRS {
		from, _ = parsePath(r.rewrite(from)) // which makes no others
	}
	if from.utf8 {
		if !c.offers("SMTPUTF8") {
			return "", r.needsUTF8()
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
		v, fix := classify(StageMAIL, rep, true)
		return "", r.replied(StageMAIL, v, rep, fix)
	}
	c.reset()
	return from.name, nil
}

// needsUTF8: the configured sender is internationalized, and the relay does not offer SMTPUTF8 (RFC
// 6531 3.2).
func (r *Relay) needsUTF8() *Error {
	return &Error{Relay: r.addr, Stage: StageMAIL, Permanent: true, Err: errNoUTF8, Fix: fixASCII}
}

// replied is a reply that blames the relay.
func (r *Relay) replied(at Stage, v verdict, rep reply, fix string) *Error {
	return &Error{Relay: r.addr, Stage: at, Permanent: v == relayRefuses, Code: rep.code, Reply: rep.line(), Fix: fix}
}
