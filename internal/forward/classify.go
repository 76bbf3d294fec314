package forward

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"slices"
	"strings"
)

// verdict is who is to blame for a reply, and whether it will stay so.
type verdict int

const (
	deferred     verdict = iota // of the recipient at RCPT, else of all recipients of the message: try again
	refused                     // the same, for good
	tooMany                     // of the transaction: this recipient and those after it go into another one
	relayDown                   // of the relay: it passes
	relayRefuses                // of the relay, or of how it is configured here: a person has to do something
)

// rule matches a reply when all that it names matches.
type rule struct {
	at       []Stage  // any of these; all when empty
	codes    []string // any of these, or the first digits of them
	enhanced []string // any of these (RFC 3463, without the class) ...
	says     []string // ... or any of these words in the text
	own      bool     // the sender is the configured one, not the message's
	then     verdict
	mend     string
}

var (
	opening     = []Stage{StageGreeting, StageEHLO, StageSTARTTLS, StageTLS, StageAUTH}
	beforeData  = []Stage{StageMAIL, StageRCPT, StageDATA}
	rcptOnly    = []Stage{StageRCPT}
	anySender   = []Stage{StageMAIL, StageRCPT, StageDATA, StageDot}
	notLoggedIn = []string{"530", "534", "535", "538"} // RFC 4954 6
)

const (
	mendParameter = "the relay refuses what it offered in EHLO; tell who runs it"

	mendBusy   = "it takes no more connections now; lower smtp.connections if that happens often"
	mendLogin  = "check smtp.username and smtp.password"
	mendTLS    = "set smtp.security to starttls or tls"
	mendSender = "set forward.envelope_from and forward.from to an address that this login may send as"
	mendName   = "set smtp.local_name to this host's name in DNS"
	mendQuota  = "the relay limits how much it takes from this login; raise the limit, or wait"
)

// rules: the first that matches decides. What none matches is temporary.
var rules = []rule{
	// RFC 5321 3.8: the relay closes the connection, whatever it was asked.
	{at: []Stage{StageGreeting}, codes: []string{"421"}, then: relayDown, mend: mendBusy},
	{codes: []string{"421"}, then: relayDown},

	// Before the first MAIL nothing is about a message. RFC 4954 6 has the replies to AUTH.
	{at: []Stage{StageAUTH}, codes: []string{"432"}, then: relayRefuses, mend: "set a new password there, and in smtp.password"},
	{at: []Stage{StageAUTH}, codes: []string{"538"}, then: relayRefuses, mend: mendTLS},
	{at: []Stage{StageAUTH}, codes: []string{"534"}, then: relayRefuses, mend: "it wants another way to log in: perhaps an app password"},
	{at: []Stage{StageAUTH}, codes: []string{"5"}, then: relayRefuses, mend: mendLogin},
	{at: opening, codes: []string{"5"}, then: relayRefuses, mend: "ask who runs it whether it serves this host"},
	{at: opening, then: relayDown},
	{at: beforeData, codes: []string{"530"}, enhanced: []string{"7.10", "7.11"}, says: []string{"starttls"}, then: relayRefuses, mend: mendTLS},
	{at: beforeData, codes: notLoggedIn, then: relayRefuses, mend: mendLogin},

	// 503: the relay and this end disagree about where they are (RFC 5321 4.3.2). A new connection starts over.
	{at: []Stage{StageMAIL}, codes: []string{"503"}, then: relayDown, mend: mendLogin},

	// RFC 1870 6.1 and 6.2, RFC 3463 3.4: too large.
	{at: []Stage{StageMAIL}, codes: []string{"5"}, enhanced: []string{"3.4", "2.3"}, then: refused},
	{at: []Stage{StageMAIL}, codes: []string{"552"}, then: refused},

	// A parameter that the relay offered and does not take (RFC 5321 4.1.1.11): neither the sender's fault nor the
	// message's.
	{at: []Stage{StageMAIL}, codes: []string{"501"}, enhanced: []string{"5.4"}, then: deferred, mend: mendParameter},
	{at: []Stage{StageMAIL}, codes: []string{"500", "504", "555"}, then: deferred, mend: mendParameter},

	// A permanent reply about the relay's own state (RFC 3463 3.4: 3.1, 3.2; 3.5: 4.5), as large providers give when
	// a day's quota is used up.
	{at: anySender, codes: []string{"5"}, enhanced: []string{"3.1", "3.2", "4.5"}, then: deferred, mend: mendQuota},

	// The sender: the configured one is a fault of the configuration, and so the relay's; a message's own is the
	// message's. Where it is about what the login may send as, a person can mend it, and no message is given up for
	// it. At RCPT (Postfix speaks there of what it has against MAIL) only words that are the same for all recipients
	// stop the pass: others may be about a sender that this very recipient does not take.
	{at: []Stage{StageMAIL}, codes: []string{"5"}, own: true, then: relayRefuses, mend: mendSender},
	{at: rcptOnly, codes: []string{"5"}, says: []string{"sender address rejected: not logged in"}, own: true, then: relayRefuses, mend: mendLogin},
	{at: rcptOnly, codes: []string{"5"}, says: []string{"not owned by user"}, own: true, then: relayRefuses, mend: mendSender},
	{at: anySender, codes: []string{"5"}, enhanced: []string{"7.57", "7.60", "7.64"}, says: notOurSender, then: deferred, mend: mendSender},
	{at: rcptOnly, codes: []string{"5"}, enhanced: []string{"1.7", "1.8"}, says: badSender, own: true, then: deferred, mend: mendSender},
	{at: rcptOnly, codes: []string{"5"}, says: noRelaying, then: deferred, mend: mendLogin},
	{at: rcptOnly, codes: []string{"5"}, says: []string{"helo command rejected"}, then: deferred, mend: mendName},

	// RFC 5321 4.5.3.1.10: too many recipients, once some were taken; 552 is what old servers say for it.
	{at: rcptOnly, codes: []string{"452", "552"}, enhanced: []string{"", "5.3"}, then: tooMany},

	{at: []Stage{StageMAIL, StageRCPT, StageDATA, StageContent, StageDot}, codes: []string{"5"}, then: refused},
}

// The words of common relays: for a sender that the login may not use, for a bad sender, and for mail from somebody
// who is not logged in, or from a host that they do not serve.
var (
	notOurSender = []string{
		"not owned by user", "not permitted to send as", "sendasdenied", "permissions to send as this sender",
		"sender address rejected: access denied", "not allowed to send as", "sender address is not allowed",
	}
	badSender  = []string{"sender address rejected"}
	noRelaying = []string{"relay access denied", "relaying denied", "relay not permitted", "unable to relay", "client host rejected", "client host ["}
)

// classify finds the first rule for a reply that is not positive. own: the sender is the configured one.
func classify(at Stage, rep reply, own bool) (verdict, string) {
	for _, r := range rules {
		if r.matches(at, rep, own) {
			return r.then, r.mend
		}
	}
	return deferred, ""
}

func (r rule) matches(at Stage, rep reply, own bool) bool {
	if len(r.at) > 0 && !slices.Contains(r.at, at) || r.own && !own {
		return false
	}
	if len(r.codes) > 0 && !slices.ContainsFunc(r.codes, rep.hasCode) {
		return false
	}
	if len(r.enhanced) == 0 && len(r.says) == 0 {
		return true
	}
	_, detail, _ := strings.Cut(rep.enhanced, ".")
	return slices.Contains(r.enhanced, detail) || slices.ContainsFunc(r.says, rep.says)
}

// openError is why a connection could not be opened: always the relay's fault.
func openError(at Stage, err error) *Error {
	e := &Error{Stage: at, Err: err}
	if rep, ok := replyIn(err); ok {
		v, mend := classify(at, rep, false)
		e.Code, e.Reply, e.Err, e.Mend, e.Permanent = rep.code, rep.line(), nil, mend, v == relayRefuses
		return e
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		e.Permanent = true
		e.Mend = "set smtp.host to a name that its certificate holds, or name a file with the certificate to trust in smtp.ca_file"
		if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
			e.Mend = "name a file with the certificate of its issuer in smtp.ca_file"
		}
		return e
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		e.Permanent, e.Mend = true, "its port does not speak TLS from the start: set smtp.security to starttls, or smtp.port to 465"
		return e
	}
	if errors.Is(err, io.EOF) {
		e.Err = errHungUp
	}
	if at == StageGreeting {
		e.Mend = "see whether smtp.host and smtp.port are those of the relay; if its port speaks TLS from the start (465), set smtp.security to tls"
	}
	return e
}
