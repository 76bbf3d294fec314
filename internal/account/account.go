// Package account knows how to log in to a mailbox.
//
// Presets is what is known about large providers: their servers, which logins work, and what a user
// has to create instead of using the account's password. Finder finds the IMAP server of any other
// domain, in the DNS (MX, SRV) and in the configuration that the domain publishes over HTTPS. It
// sends the domain and nothing else, and changes nothing. What it finds is a suggestion: a server
// gets a password only after somebody has confirmed the server.
//
// Answers are limited in size and time, so a domain with hostile servers costs ten seconds at most.
// A *NotFoundError says what was asked and what the answers were. The package does not connect to
// an IMAP or SMTP server, and does not know the database.
package account

import (
	"net"
	"strconv"
)

// Server is where a service is.
type Server struct {
	Host     string
	Port     int
	Security string // tls or starttls; never unencrypted
}

func (s Server) String() string {
	return net.JoinHostPort(s.Host, strconv.Itoa(s.Port)) + " " + s.Security
}
