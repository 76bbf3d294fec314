package smtpsink

import (
	"crypto/sha256"
	"crypto/tls"
)

// Options is how the server behaves. The zero value is a plain RFC 5321 server without extensions
// that keeps no bodies.
type Options struct {
	// Extensions are offered in the answer to EHLO as they stand here, such as "SIZE 1000000",
	// "8BITMIME", "SMTPUTF8", "DSN" or "PIPELINING". A SIZE is enforced. STARTTLS and AUTH are not
	// listed here.
	Extensions []string

	TLS         *tls.Config // when set, STARTTLS is offered
	ImplicitTLS bool        // TLS from the first octet instead

	// Auth are the mechanisms that are offered (with TLS set, only on an encrypted connection):
	// PLAIN, LOGIN, CRAM-MD5, SCRAM-SHA-1, SCRAM-SHA-256, XOAUTH2, OAUTHBEARER. Users has the
	// password of each user, or the access token.
	Auth  []string
	Users map[string]string

	KeepData bool // keep whole messages; otherwise only their header, size and hash

	// Reply, when set, is asked before each answer, from several goroutines at once.
	Reply func(Event) Action
}

// Event is something that the server is about to answer.
type Event struct {
	// Stage is "connect", "dot" (the end of a message), or the command in lower case: "ehlo" (HELO,
	// too), "starttls", "auth", "mail", "rcpt", "data", "rset", "noop", "quit".
	Stage   string
	Arg     string   // mail and rcpt: the address, without brackets; auth: the mechanism
	Message *Message // rcpt and data: what is known so far; dot: all of it
	Conn    int      // the number of the connection, from 1
	N       int      // how many events of this stage there were with this one
}

// Action is what to do instead of the usual. The zero value is the usual.
type Action struct {
	Block         <-chan struct{} // first wait until this is closed
	Drop          bool            // close the connection without an answer
	AcceptAndDrop bool            // at dot: record the message, and close without an answer
	Code          int             // the reply; from 400 the command fails, 421 closes
	Text          string          // with Code; more lines are separated by \n
}

// Message is one message that was accepted.
type Message struct {
	From   string   // the reverse-path without brackets; empty for <>
	Params []string // the parameters of MAIL, such as "BODY=8BITMIME"
	To     []string // the recipients that were accepted
	// ToParams are the parameters of RCPT, such as "NOTIFY=NEVER", for each of To.
	ToParams [][]string
	Data     []byte // exactly as sent, dots unstuffed; nil without KeepData
	Header   []byte // up to and with the empty line
	Size     int64
	SHA256   [sha256.Size]byte // of the data
	TLS      bool              // it came over an encrypted connection
	User     string            // who had logged in
	Conn     int               // the number of the connection
}
