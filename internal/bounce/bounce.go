// Package bounce makes reverse-paths whose bounces name their delivery, and reads the reports that
// come back: delivery status notifications (RFC 3464, 6522 and 6533), complaints (RFC 5965), and
// what servers send that keep to no standard.
//
// A report proves nothing: anybody can write one. What proves that it is about a delivery of ours
// is the token in the reverse-path, which only the owner of the secret can make. So a caller takes
// the delivery from the token, and from the report only what became of it. A report whose token is
// missing or not valid changes no delivery.
//
// Everything in a report is text of strangers. Read bounds it, in number and in length, and each
// text of a Report is one line of UTF-8 without control characters. Its work is linear in the size
// of the message.
//
// The package knows messages and addresses only: no network, no database, no configuration.
package bounce

import (
	"strings"
	"time"

	"postrider/internal/address"
)

// Kind says what a message is.
type Kind int

// The kinds of a message.
const (
	Unreadable Kind = iota // none of the others: a person may have written it, or it cannot be read
	Delivery               // says what became of a delivery, for at least one recipient
	Complaint              // a recipient or a provider reported the message as unwanted (RFC 5965)
	AutoReply              // a program answered: an absence note, a receipt (RFC 3834, RFC 8098)
)

// Report is what one message says.
type Report struct {
	Kind       Kind
	Addresses  []string // where the message came to, and reverse-paths that it quotes; most reliable first
	EnvelopeID string   // of the original (RFC 3461 4.4), decoded; empty when it is not given
	MessageID  string   // of the original, with its angle brackets; empty when it is not given
	Fates      []Fate   // in the order of the report, each recipient and action once, at most 1,000
}

// Fate is what became of one recipient. Code, Status, Reply and Remote are zero when the report
// does not say them.
type Fate struct {
	Recipient string // as the reporting server knows it, such as the target of an alias; empty if hidden
	Original  string // as we wrote it (ORCPT), decoded; empty when the report does not say it
	Action    Action
	Code      int       // of the SMTP reply, such as 550
	Status    string    // the enhanced status code (RFC 3463), such as 5.1.1
	Reply     string    // the remote server's words without the two codes, at most 500 characters
	Remote    string    // the server that said it, by name or address, such as mx.other.example
	At        time.Time // when, in UTC; else the date of the report; zero if it has none
}

// Is reports whether the fate is that of a recipient, in any spelling of the address.
func (f Fate) Is(recipient string) bool {
	want := spelled(recipient)
	return want != "" && (spelled(f.Recipient) == want || spelled(f.Original) == want)
}

// Target is the mailbox that the fate is about, if it is another one than the recipient, such as a
// member of an alias. It is empty if it is the recipient, in any spelling; or the same name in a
// domain within the recipient's or around it, such as ann@mx.firm.example, or in Google's name for
// one of these, such as ann@firm.example.test-google-a.com.
func (f Fate) Target(recipient string) string {
	wantLocal, wantDomain := named(recipient)
	local, domain := named(f.Recipient)
	within := strings.HasSuffix(domain, wantDomain) || strings.HasSuffix(wantDomain, domain)
	if f.Recipient == "" || f.Recipient == recipient || within && strings.EqualFold(local, wantLocal) {
		return ""
	}
	return f.Recipient
}

// named are the parts of an address: ann and .firm.example.
func named(s string) (local, domain string) {
	local, domain, _ = strings.Cut(spelled(s), "@")
	domain = strings.ToLower(strings.TrimSuffix(domain, ".")) // of the DNS root
	return local, "." + strings.TrimSuffix(domain, ".test-google-a.com")
}

// spelled is equal for all spellings of an address.
func spelled(s string) string {
	if a, err := address.Parse(s); err == nil {
		return a.Key()
	}
	return strings.ToLower(s)
}

// Action is what a report says of a recipient (RFC 3464 2.3.3).
type Action int

// The actions. All but Delayed are final, as far as that server is concerned.
const (
	Failed     Action = iota + 1 // it is not delivered, and will not be
	Delayed                      // it is not delivered yet; the server goes on trying
	Delivered                    // it is in the recipient's mailbox
	Relayed                      // it is on its way, at a server that sends no confirmations
	Expanded                     // it went on to the members of a list or alias
	Complained                   // it arrived, and is not wanted
)

// String returns the value of the Action field (RFC 3464 2.3.3), or complained or unknown.
func (a Action) String() string {
	return [...]string{"unknown", "failed", "delayed", "delivered", "relayed", "expanded", "complained"}[a]
}
