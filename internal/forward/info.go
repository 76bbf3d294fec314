package forward

import (
	"context"
	"crypto/tls"
	"fmt"
	"math"
	"time"

	"postrider/internal/address"
)

// maxNamed is how many recipients Info names at most. A relay may slow down or block a client that
// names many unknown recipients.
const maxNamed = 10

// Info is what a relay offers, and what it said to an envelope without content.
type Info struct {
	Relay    string    // host:port
	TLS      string    // the version; empty without TLS
	Login    string    // the mechanism used; empty without a login
	Sender   string    // named in MAIL: the configured one, or what SRS makes of it
	NotNow   *Outcome  // why it defers mail from this sender; nil when it does not
	NoNull   *Outcome  // why it refuses the null reverse-path; nil when it does not
	Accepted []string  // recipients that it accepts from this sender
	Refused  []Outcome // those that it does not accept, or not now
	Untried  int       // recipients that were not named
	MaxSize  int64     // of a message, in octets; 0 when there is no limit, or the relay does not say
	UTF8     bool      // SMTPUTF8
	DSN      bool      // delivery status notifications (RFC 3461)

	ascii string // the last of Accepted that does not need SMTPUTF8
}

// Info connects, logs in, names the sender and up to ten of the recipients, resets the transaction
// (RSET), names the null reverse-path and one accepted recipient, and disconnects. No content is
// sent, so nobody gets anything. Many relays refuse a sender only at RCPT, so without recipients
// such a refusal stays unknown. The error is the context's, or an *Error for what a pass counts as
// a fault of the relay.
func (r *Relay) Info(ctx context.Context, to []string) (Info, error) {
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
	info := Info{Relay: r.addr, Login: c.login, MaxSize: c.maxSize(), UTF8: c.offers("SMTPUTF8"), DSN: c.offers("DSN")}
	if c.tls != nil {
		info.TLS = tls.VersionName(c.tls.ConnectionState().Version)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.raw.Close() })
	defer stop()
	if err = info.envelope(r, c, to); err != nil && ctx.Err() != nil {
		err = fmt.Errorf("name sender and recipients to the relay %s: %w", r.addr, ctx.Err())
	}
	if err == nil && info.NotNow == nil && !c.dead {
		info.null(c)
	}
	return info, err
}

// null names the null reverse-path and a recipient that was accepted, because Postfix refuses a
// sender only at RCPT. Only a permanent reply is a refusal.
func (i *Info) null(c *conn) {
	commands := []string{"MAIL FROM:<>"}
	if i.ascii != "" {
		commands = append(commands, "RCPT TO:<"+i.ascii+">")
	}
	for _, command := range commands {
		rep, err := c.command(command)
		if err != nil {
			c.dead = true
			return
		}
		if rep.hasCode("5") {
			i.NoNull = &Outcome{Status: Refused, Code: rep.code, Enhanced: rep.enhanced, Reply: rep.text}
		}
		if !rep.ok() {
			return
		}
	}
}

// envelope is MAIL, RCPT for each recipient, and RSET.
func (i *Info) envelope(r *Relay, c *conn, to []string) error {
	from := r.probe()
	rcpts := i.parse(to)
	params := ""
	for _, p := range append([]address.Address{from}, rcpts...) {
		if p.UTF8 && i.UTF8 {
			params = " SMTPUTF8"
		}
	}
	if from.UTF8 && !i.UTF8 {
		return r.needsUTF8()
	}
	rep, err := c.command("MAIL FROM:<" + from.Wire + ">" + params)
	switch {
	case err != nil:
		return &Error{Relay: r.addr, Stage: StageMAIL, Err: err}
	case !rep.ok():
		v, fix := r.blame(StageMAIL, rep)
		if v == relayDown || v == relayRefuses {
			return r.replied(StageMAIL, v, rep, fix)
		}
		i.Sender = from.Text
		i.NotNow = &Outcome{Status: Deferred, Code: rep.code, Enhanced: rep.enhanced, Reply: rep.text, Fix: fix}
		return nil
	}
	i.Sender = from.Text
	defer func() { _, _ = c.reset() }() // the connection ends after it in any case
	for _, rcpt := range rcpts {
		if err := i.recipient(r, c, rcpt); err != nil {
			return err
		}
	}
	return nil
}

// probe is a sender like that of most messages.
func (r *Relay) probe() address.Address {
	from := r.sender
	switch {
	case r.cfg.EnvelopeFrom == SRS:
		from, _ = address.Parse(r.rewrite(from)) // it makes only valid addresses
	case r.cfg.Signer != nil:
		from, _ = address.Parse(r.cfg.Signer.ReversePath(math.MaxInt64, time.Time{}, r.sender.Text)) // likewise
	}
	return from
}

// blame is classify for a sender of probe.
func (r *Relay) blame(at Stage, rep reply) (verdict, string) {
	v, fix := classify(at, rep, true)
	if fix == fixSender && r.cfg.Signer != nil {
		fix = fixSigned
	}
	return v, fix
}

// parse returns the recipients to name.
func (i *Info) parse(to []string) (rcpts []address.Address) {
	i.Untried = max(0, len(to)-maxNamed)
	for _, name := range to[:len(to)-i.Untried] {
		rcpt, err := address.Parse(name)
		fix := ""
		if err == nil && rcpt.UTF8 && !i.UTF8 {
			err, fix = errNoUTF8, fixRcpt
		}
		if err != nil {
			o := Outcome{Recipient: name, Status: Refused, Reply: short(err.Error()), Fix: fix}
			i.Refused = append(i.Refused, o)
			continue
		}
		rcpts = append(rcpts, rcpt)
	}
	return rcpts
}

// recipient is one RCPT. Its error is the relay's.
func (i *Info) recipient(r *Relay, c *conn, rcpt address.Address) error {
	rep, err := c.command("RCPT TO:<" + rcpt.Wire + ">")
	if err != nil {
		c.dead = true
		return &Error{Relay: r.addr, Stage: StageRCPT, Err: err}
	}
	if rep.ok() {
		if !rcpt.UTF8 {
			i.ascii = rcpt.Wire
		}
		i.Accepted = append(i.Accepted, rcpt.Text)
		return nil
	}
	v, fix := r.blame(StageRCPT, rep)
	if v == relayDown || v == relayRefuses {
		return r.replied(StageRCPT, v, rep, fix)
	}
	status := Deferred
	if rep.hasCode("5") {
		status = Refused
	}
	i.Refused = append(i.Refused, Outcome{
		Recipient: rcpt.Text, Status: status, Code: rep.code, Enhanced: rep.enhanced, Reply: rep.text, Fix: fix,
	})
	return nil
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
