// Package bearer logs in with an OAuth2 access token, over SASL: OAUTHBEARER (RFC 7628), and
// XOAUTH2, which Google defined earlier and which is the only one that Microsoft supports.
//
// It is a package of its own because imapsrc and forward both need it and do not know each other.
package bearer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"postrider/internal/text"
)

// The mechanisms, as servers list them.
const (
	OAuthBearer = "OAUTHBEARER"
	XOAuth2     = "XOAUTH2"
)

// Login is one try with one token.
type Login struct {
	Mechanism string
	Username  string
	Host      string
	Port      int
	Token     string

	refusal string // the server's error challenge, decoded; empty without one
}

// Choose returns the mechanism to use of those that a server offers, in upper case; empty when it
// offers none. XOAUTH2 comes first: large providers that list both have it longer.
func Choose(offered []string) string {
	for _, m := range []string{XOAuth2, OAuthBearer} {
		if slices.Contains(offered, m) {
			return m
		}
	}
	return ""
}

// Initial is the client's first message.
func (l *Login) Initial() []byte {
	if l.Mechanism == XOAuth2 {
		return []byte("user=" + l.Username + "\x01auth=Bearer " + l.Token + "\x01\x01")
	}
	name := strings.NewReplacer("=", "=3D", ",", "=2C").Replace(l.Username) // RFC 5801 4
	return []byte("n,a=" + name + ",\x01host=" + l.Host + "\x01port=" + strconv.Itoa(l.Port) +
		"\x01auth=Bearer " + l.Token + "\x01\x01")
}

// Secrets are what a server must not have repeated: the first message of each mechanism, and the
// token.
func (l Login) Secrets() []string {
	if l.Token == "" {
		return nil
	}
	var all []string
	for _, l.Mechanism = range []string{XOAuth2, OAuthBearer} {
		all = append(all, string(l.Initial()))
	}
	return append(all, l.Token)
}

// Answer notes an error challenge of the server, and returns what it waits for before it refuses
// the login (RFC 7628 3.2.3).
func (l *Login) Answer(challenge []byte) []byte {
	var c struct{ Status, Schemes, Scope string }
	if json.Unmarshal(challenge, &c) != nil || c.Status == "" {
		l.refusal = "the server says " + quote(string(challenge))
		return []byte{1}
	}
	l.refusal = "status " + quote(c.Status)
	if c.Scope != "" {
		l.refusal += fmt.Sprintf(", it wants the scope %s", quote(c.Scope))
	}
	return []byte{1}
}

// Refusal is what the server said about the token; empty when it said nothing, or no error.
func (l *Login) Refusal() string { return l.refusal }

func quote(s string) string {
	return strconv.Quote(text.Cut(text.Line(strings.ToValidUTF8(s, "?")), 200))
}
