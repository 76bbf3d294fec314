package smtpsink

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
)

var (
	errCancelled = errors.New("cancelled")
	errEncoding  = errors.New("not base64")
)

// offersAuth says whether to offer AUTH now: where TLS can be had, not before it.
func (c *session) offersAuth() bool {
	return len(c.s.opts.Auth) > 0 && (c.s.opts.TLS == nil || c.tls)
}

// auth answers AUTH (RFC 4954).
func (c *session) auth(arg string) error {
	mechanism, initial, _ := strings.Cut(arg, " ")
	mechanism = strings.ToUpper(mechanism)
	if !c.greeted || c.user != "" || c.msg != nil || !c.offersAuth() {
		return c.answer("auth", mechanism, reply{code: 503, text: "5.5.1 not now"})
	}
	if !slices.Contains(c.s.opts.Auth, mechanism) {
		return c.answer("auth", mechanism, reply{code: 504, text: "5.5.4 mechanism not offered"})
	}
	user, ok, err := c.authenticate(mechanism, initial)
	usual := reply{code: 535, text: "5.7.8 wrong user or password"}
	switch {
	case errors.Is(err, errCancelled) || errors.Is(err, errEncoding):
		usual = reply{code: 501, text: "5.5.2 " + err.Error()}
	case err != nil:
		return err
	case ok:
		usual = reply{code: 235, text: "2.7.0 welcome", then: func() { c.user = user }}
	}
	return c.answer("auth", mechanism, usual)
}

func (c *session) authenticate(mechanism, initial string) (user string, ok bool, err error) {
	switch mechanism {
	case "PLAIN":
		return c.authPlain(initial)
	case "LOGIN":
		return c.authLogin(initial)
	case "CRAM-MD5":
		return c.authCRAM()
	case "SCRAM-SHA-1":
		return c.authSCRAM(sha1.New, initial)
	case "SCRAM-SHA-256":
		return c.authSCRAM(sha256.New, initial)
	case "XOAUTH2", "OAUTHBEARER":
		return c.authToken(initial)
	default:
		return "", false, nil
	}
}

// challenge sends a challenge and returns the response to it.
func (c *session) challenge(text string) (string, error) {
	if err := c.write(334, base64.StdEncoding.EncodeToString([]byte(text))); err != nil {
		return "", err
	}
	line, err := c.readLine()
	if err != nil {
		return "", err
	}
	return decode(line)
}

// first is the initial response, or, when it did not come with the command, the response to an
// empty challenge.
func (c *session) first(initial, challenge string) (string, error) {
	switch initial {
	case "":
		return c.challenge(challenge)
	case "=": // RFC 4954 4: there, but empty
		return "", nil
	default:
		return decode(initial)
	}
}

func decode(line string) (string, error) {
	if line == "*" {
		return "", errCancelled
	}
	text, err := base64.StdEncoding.DecodeString(line)
	if err != nil {
		return "", errEncoding
	}
	return string(text), nil
}

func (c *session) authPlain(initial string) (string, bool, error) {
	response, err := c.first(initial, "")
	if err != nil {
		return "", false, err
	}
	parts := strings.Split(response, "\x00") // RFC 4616: authzid, authcid, passwd
	if len(parts) != 3 {
		return "", false, nil
	}
	return parts[1], c.passwordIs(parts[1], parts[2]), nil
}

func (c *session) authLogin(initial string) (string, bool, error) {
	user, err := c.first(initial, "Username:")
	if err != nil {
		return "", false, err
	}
	password, err := c.challenge("Password:")
	return user, err == nil && c.passwordIs(user, password), err
}

func (c *session) authCRAM() (string, bool, error) {
	challenge := "<" + rand.Text() + "@smtpsink>"
	response, err := c.challenge(challenge)
	if err != nil {
		return "", false, err
	}
	user, digest, _ := strings.Cut(response, " ") // RFC 2195
	password, known := c.s.opts.Users[user]
	mac := hmac.New(md5.New, []byte(password))
	mac.Write([]byte(challenge))
	return user, known && digest == hex.EncodeToString(mac.Sum(nil)), nil
}

// authToken takes the password of a user for the access token. A wrong one gets an error challenge
// first (RFC 7628 3.2.2).
func (c *session) authToken(initial string) (string, bool, error) {
	response, err := c.first(initial, "")
	if err != nil {
		return "", false, err
	}
	var user, token string
	for part := range strings.SplitSeq(response, "\x01") {
		if rest, ok := strings.CutPrefix(part, "n,a="); ok { // OAUTHBEARER
			user = strings.NewReplacer("=2C", ",", "=3D", "=").Replace(strings.TrimSuffix(rest, ","))
		}
		if rest, ok := strings.CutPrefix(part, "user="); ok { // XOAUTH2
			user = rest
		}
		if rest, ok := strings.CutPrefix(part, "auth=Bearer "); ok {
			token = rest
		}
	}
	if c.passwordIs(user, token) {
		return user, true, nil
	}
	_, err = c.challenge(`{"status":"invalid_token","scope":"mail"}`)
	if errors.Is(err, errCancelled) {
		err = nil
	}
	return user, false, err
}

func (c *session) passwordIs(user, password string) bool {
	want, known := c.s.opts.Users[user]
	return known && password == want
}
