package forward

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"slices"
	"strings"

	"postrider/internal/certs"
)

// verdict says whose fault a reply is, and whether it is permanent.
type verdict int

const (
	// The recipient at RCPT, else all recipients of the message: temporary, or final.
	deferred verdict = iota
	refused
	// The transaction: this recipient and those after it need another one.
	tooMany
	// The relay: temporary, or until its configuration, here or there, is changed.
	relayDown
	relayRefuses
)

// rule matches a reply when everything that it names matches.
type rule struct {
	at       []Stage  // any of these; all when empty
	codes    []string // any of these, or the first digits of them
	enhanced []string // any of these (RFC 3463, without the class) ...
	says     []string // ... or any of these words in the text
	own      bool     // the sender is the configured one, not the message's
	then     verdict
	fix      string
}

var (
	opening     = []Stage{StageGreeting, StageEHLO, StageSTARTTLS, StageTLS, StageAUTH}
	beforeData  = []Stage{StageMAIL, StageRCPT, StageDATA}
	authOnly    = []Stage{StageAUTH}
	rcptOnly    = []Stage{StageRCPT}
	anySender   = []Stage{StageMAIL, StageRCPT, StageDATA, StageDot}
	notLoggedIn = []string{"530", "534", "535", "538"} // RFC 4954 6
)

const (
	fixParameter = "the relay refuses a parameter that it offered in EHLO; report it to its operator"

	fixBusy        = "it accepts no more connections now; lower smtp.connections if that happens often"
	fixLogin       = "check smtp.username and smtp.password"
	fixOldPassword = "set a new password there, and in smtp.password"
	fixOtherLogin  = "it requires another way to log in, perhaps an app password"
	fixTLS         = "set smtp.security to starttls or tls"
	fixSender      = "set forward.envelope_from and forward.from to an address that this login may send as; " +
		"if it is the author in From that is refused, set forward.mode: rewrite"
	fixKept   = "it is the sender of the message that is refused; set forward.envelope_from to an address or srs"
	fixSigned = "let this login send as every address that bounces.address makes, or remove that key: " +
		"then all mail goes out as forward.envelope_from"
	fixDMARC = "it fails DMARC in mode redirect; set forward.mode to rewrite, then `postrider task retry ID`"
	fixName  = "set smtp.local_name to this host's name in DNS"
	fixQuota = "the relay limits or blocks what this login sends; raise the limit, ask its operator, or wait"
	fixFull  = "the mailbox of this login is full; make room in it"
)

// rules: the first that matches decides. Without a match the reply is temporary.
var rules = []rule{
	// RFC 5321 3.8: the relay closes the connection, whatever the command was.
	{at: []Stage{StageGreeting}, codes: []string{"421"}, then: relayDown, fix: fixBusy},
	{codes: []string{"421"}, then: relayDown},

	// Before the first MAIL nothing is about a message. The replies to AUTH are in RFC 4954 6.
	{at: authOnly, codes: []string{"432"}, then: relayRefuses, fix: fixOldPassword},
	{at: authOnly, codes: []string{"530", "538"}, then: relayRefuses, fix: fixTLS}, // RFC 3207 4: 530
	{at: authOnly, codes: []string{"534"}, then: relayRefuses, fix: fixOtherLogin},
	{at: authOnly, codes: []string{"5"}, then: relayRefuses, fix: fixLogin},
	{at: []Stage{StageEHLO}, codes: []string{"501", "504"}, then: relayRefuses, fix: fixName}, // of its argument
	{at: []Stage{StageEHLO}, says: badName, then: relayRefuses, fix: fixName},
	{at: opening, codes: []string{"5"}, then: relayRefuses, fix: "ask its operator whether it serves this host"},
	{at: opening, then: relayDown},
	{
		at: beforeData, codes: []string{"530"}, enhanced: []string{"7.10", "7.11"}, says: []string{"starttls"},
		then: relayRefuses, fix: fixTLS,
	},
	{at: beforeData, codes: notLoggedIn, then: relayRefuses, fix: fixLogin},

	// 503: relay and client disagree about the state of the session (RFC 5321 4.3.2). A new
	// connection starts again.
	{at: []Stage{StageMAIL}, codes: []string{"503"}, then: relayDown, fix: fixLogin},

	// RFC 1870 6.1 and 6.2, RFC 3463 3.4: too large.
	{at: []Stage{StageMAIL}, codes: []string{"5"}, enhanced: []string{"3.4", "2.3"}, then: refused},
	{at: []Stage{StageMAIL}, codes: []string{"552"}, then: refused},

	// A parameter that the relay offered and does not accept (RFC 5321 4.1.1.11): neither the
	// sender nor the message is at fault.
	{at: []Stage{StageMAIL}, codes: []string{"501"}, enhanced: []string{"5.4"}, then: deferred, fix: fixParameter},
	{at: []Stage{StageMAIL}, codes: []string{"500", "504", "555"}, then: deferred, fix: fixParameter},

	// A permanent reply about the relay's own state (RFC 3463 3.4: 3.1, 3.2; 3.5: 4.5). Large
	// providers send it when a quota of the day is used up.
	{
		at: anySender, codes: []string{"5"}, enhanced: []string{"3.1", "3.2", "4.5"}, says: throttled,
		then: deferred, fix: fixQuota,
	},
	{at: anySender, codes: []string{"5"}, says: mailboxFull, then: deferred, fix: fixFull},

	// The sender. If the configured sender is refused, the configuration is wrong, which counts as
	// a fault of the relay. If a message's own sender is refused, it is the message's fault. The
	// operator can fix what the login may send as, so such a reply is temporary. At RCPT, where
	// Postfix reports why it refuses MAIL, only texts that are the same for all recipients stop the
	// pass; with other texts it may be only this recipient that refuses the sender.
	{at: []Stage{StageMAIL}, codes: []string{"5"}, own: true, then: relayRefuses, fix: fixSender},
	{at: rcptOnly, codes: []string{"5"}, says: senderNeedsLogin, own: true, then: relayRefuses, fix: fixLogin},
	{at: rcptOnly, codes: []string{"5"}, says: senderNotOwned, own: true, then: relayRefuses, fix: fixSender},
	{
		at: anySender, codes: []string{"5"}, enhanced: []string{"7.57", "7.60", "7.64"}, says: notOurSender,
		then: deferred, fix: fixSender,
	},
	{
		at: rcptOnly, codes: []string{"5"}, enhanced: []string{"1.7", "1.8"}, says: badSender, own: true,
		then: deferred, fix: fixSender,
	},
	{at: rcptOnly, codes: []string{"5"}, says: noRelaying, then: deferred, fix: fixLogin},
	{at: rcptOnly, says: badName, then: deferred, fix: fixName},

	// RFC 5321 4.5.3.1.10: too many recipients, after some were accepted. Old servers say 552 for
	// it, OpenSMTPD 451 4.5.3.
	{at: rcptOnly, codes: []string{"452", "552"}, enhanced: []string{""}, then: tooMany},
	{at: rcptOnly, enhanced: []string{"5.3"}, then: tooMany},

	{at: []Stage{StageMAIL}, codes: []string{"5"}, then: refused, fix: fixKept},
	// 7.26: several checks failed (RFC 7372 3). A redirect passes DMARC only by the signature of
	// the author.
	{
		at: []Stage{StageDot}, codes: []string{"5"}, enhanced: []string{"7.26"}, says: []string{"dmarc"},
		then: refused, fix: fixDMARC,
	},
	{at: []Stage{StageRCPT, StageDATA, StageContent, StageDot}, codes: []string{"5"}, then: refused},
}

// The words of common relays about a login that may not send more now, is blocked, or has a full
// mailbox; a sender that needs a login, or that the login may not use; a bad sender; a bad name in
// EHLO; and a client that is not logged in, or that they do not serve.
var (
	throttled = []string{
		"storedrv.submission.exception:submissionquotaexceeded", "sender throttled due to", "bad outbound sender",
		"sending suspended for this account", "sending paused for this account", "unusual sending activity",
		"email outgoing blocked",
	}
	mailboxFull      = []string{"storedrv.submission.exception:quotaexceeded"}
	senderNeedsLogin = []string{"sender address rejected: not logged in"}
	senderNotOwned   = []string{"not owned by user"}
	notOurSender     = []string{
		"not owned by user", "not permitted to send as", "sendasdenied", "permissions to send as this sender",
		"sender address rejected: access denied", "not allowed to send as", "sender address is not allowed",
		"email address is not verified", "verified sender identity", "not authorised to send from",
		"not owned by auth user", "relaying disallowed as", "is not authorized to perform",
		"from address is not one of your addresses", "mail relay denied", "invalid credentials for relay",
	}
	badSender  = []string{"sender address rejected"}
	badName    = []string{"helo command rejected"}
	noRelaying = []string{
		"relay access denied", "relaying denied", "relay not permitted", "not permitted to relay", "unable to relay",
		"allowed rcpthosts", "turn on smtp authentication", "client host rejected", "client host [",
	}
)

// classify finds the first rule for a reply that is not positive. own: the sender is the configured
// one.
func classify(at Stage, rep reply, own bool) (verdict, string) {
	for _, r := range rules {
		if r.matches(at, rep, own) {
			return r.then, r.fix
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

// openError says why a connection could not be opened, which is always the relay's fault.
func openError(at Stage, err error) *Error {
	e := &Error{Stage: at, Err: err}
	if rep, ok := replyIn(err); ok {
		v, fix := classify(at, rep, false)
		e.Code, e.Reply, e.Err, e.Fix, e.Permanent = rep.code, rep.line(), nil, fix, v == relayRefuses
		return e
	}
	if other, ok := errors.AsType[*certs.MismatchError](err); ok {
		e.Permanent = true
		e.Fix = "if the relay really has a new certificate with that fingerprint, " +
			"set smtp.tls_fingerprint to " + string(other.Got)
		return e
	}
	if refused, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		e.Permanent = true
		e.Fix = certificateFix(err)
		if len(refused.UnverifiedCertificates) > 0 {
			e.Fix += "; or, if its certificate has this fingerprint, set smtp.tls_fingerprint to " +
				string(certs.Of(refused.UnverifiedCertificates[0]))
		}
		return e
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		e.Permanent = true
		e.Fix = "its port does not speak TLS from the start: set smtp.security to starttls, or smtp.port to 465"
		return e
	}
	if certs.TooOld(err) {
		e.Fix = "have its operator enable TLS 1.2 or later"
		return e
	}
	if certs.Refused(err) {
		e.Fix = "if it wants a certificate of its clients, check smtp.client_cert"
		if certs.NoCipher(err) {
			e.Fix += "; or perhaps it has no cipher suite in common with postrider: it needs one with ECDHE"
		}
		return e
	}
	if errors.Is(err, io.EOF) {
		e.Err = errHungUp
	}
	if at == StageGreeting {
		e.Fix = "check that smtp.host and smtp.port are those of the relay; " +
			"if its port speaks TLS from the start (465), set smtp.security to tls"
	}
	return e
}

// certificateFix is what to do about a certificate that is not valid.
func certificateFix(err error) string {
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "set smtp.host to a name that its certificate holds"
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return "set this machine's clock if it is wrong, or have its operator renew the certificate"
	} else if ok {
		return "have its operator replace the certificate"
	}
	return "name a file with the certificate of its issuer in smtp.ca_file"
}
