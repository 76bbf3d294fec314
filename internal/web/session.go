package web

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"

	"postrider/internal/text"
)

// sessionTime is how long a login is valid. A new password, or the removal of the user, ends it
// earlier.
const sessionTime = 12 * time.Hour

// cookie is the name of the session's cookie. Over TLS the prefix makes browsers refuse one that
// another host of the domain has set.
func (a *Access) cookie() string {
	if a.cert != nil {
		return "__Host-postrider"
	}
	return "postrider"
}

// begin sets the cookie of a session.
func (a *Access) begin(w http.ResponseWriter, name string, hash []byte) {
	until := strconv.FormatInt(a.Now().Add(sessionTime).Unix(), 10)
	value := encode([]byte(name)) + "." + until + "." + encode(a.sign(name, until, hash))
	http.SetCookie(w, a.httpCookie(value, int(sessionTime.Seconds())))
}

// end removes the cookie.
func (a *Access) end(w http.ResponseWriter) { http.SetCookie(w, a.httpCookie("", -1)) }

func (a *Access) httpCookie(value string, maxAge int) *http.Cookie {
	return &http.Cookie{
		Name: a.cookie(), Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, Secure: a.cert != nil, SameSite: http.SameSiteLaxMode,
	}
}

// session is the user of a valid session. A proxy or a browser may send the cookie twice: then none
// of them counts.
func (a *Access) session(r *http.Request) (name string, ok bool) {
	cookies := r.CookiesNamed(a.cookie())
	if len(cookies) != 1 {
		return "", false
	}
	parts := strings.Split(cookies[0].Value, ".")
	if len(parts) != 3 {
		return "", false
	}
	who, err := base64.RawURLEncoding.DecodeString(parts[0])
	signature, bad := base64.RawURLEncoding.DecodeString(parts[2])
	until, wrong := strconv.ParseInt(parts[1], 10, 64)
	if err != nil || bad != nil || wrong != nil || !a.Now().Before(time.Unix(until, 0)) {
		return "", false
	}
	name = string(who)
	hash, err := a.users.hash(name)
	if err != nil || hash == nil || !hmac.Equal(signature, a.sign(name, parts[1], hash)) {
		return "", false
	}
	return name, true
}

// sign binds a session to the user, the time and the password.
func (a *Access) sign(name, until string, hash []byte) []byte {
	mac := hmac.New(sha256.New, a.Key)
	for _, part := range [][]byte{[]byte(name), []byte(until), hash} {
		_ = binary.Write(mac, binary.BigEndian, uint32(len(part))) // a hash takes everything
		_, _ = mac.Write(part)
	}
	return mac.Sum(nil)
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// The answers to a login.
var (
	errWrongLogin = &failure{http.StatusUnauthorized, "The name or the password is wrong."}
	errTooMany    = &failure{http.StatusTooManyRequests, "There were too many attempts. Try again in a few minutes."}
	errNoUsers    = &failure{
		http.StatusServiceUnavailable,
		"Nobody can log in: the file of users cannot be used. The log of postrider says why.",
	}
)

// logIn checks a password, within the limits on attempts, and logs why a login fails. For a user
// that there is not another hash is compared: the answer takes the same time.
func (a *Access) logIn(r *http.Request, name, password string) error {
	hash, err := a.users.hash(name)
	if err != nil {
		a.Log.Error("nobody can log in to the status page", "error", text.Error(err))
		return errNoUsers
	}
	known := hash != nil
	if !known {
		hash = a.users.slowest()
	}
	err = a.attempts.check(network(r.RemoteAddr), name, func() bool {
		return bcrypt.CompareHashAndPassword(hash, []byte(password)) == nil && known
	})
	if err != nil {
		a.Log.Warn("a login to the status page failed",
			"user", text.Line(text.Cut(name, 100)), "from", r.RemoteAddr, "answer", err)
	}
	return err
}

// network is where a request comes from: an address, and of IPv6 the network that a customer has.
func network(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	ip, bad := netip.ParseAddr(host)
	if err != nil || bad != nil {
		return remote
	}
	if ip = ip.Unmap(); ip.Is6() {
		if p, err := ip.WithZone("").Prefix(64); err == nil {
			return p.String()
		}
	}
	return ip.String()
}

// How many failed logins there may be in attemptTime. One who guesses one user's password from many
// networks can keep that user from logging in, but not guess it.
const (
	perNetwork  = 10
	perUser     = 50
	attemptTime = 10 * time.Minute
	maxCounted  = 10_000
)

// attempts counts logins that failed.
type attempts struct {
	now func() time.Time

	mu     sync.Mutex
	since  time.Time
	failed map[string]int
}

// check runs right, which compares a password, unless too many attempts failed. It runs one at a
// time. A comparison takes long and must not delay mail. Parallel attempts count like attempts in
// sequence. With too many to count nobody may log in.
func (t *attempts) check(network, user string, right func() bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.now(); now.Sub(t.since) >= attemptTime {
		t.since, t.failed = now, map[string]int{}
	}
	from, to := "from "+network, "to "+user[:min(len(user), maxName)]
	switch {
	case t.failed[from] >= perNetwork, t.failed[to] >= perUser, len(t.failed) >= maxCounted:
		return errTooMany
	case right():
		return nil
	}
	t.failed[from]++
	t.failed[to]++
	return errWrongLogin
}
