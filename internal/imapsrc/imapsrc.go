// Package imapsrc connects to one IMAP account, lists UIDs and fetches messages by UID.
//
// A Conn is used by one goroutine at a time; only Interrupt may be called concurrently. Reading
// changes nothing: folders are opened with EXAMINE, and bodies are fetched with BODY.PEEK[]. The
// methods in change.go change messages or folders; those on messages need SelectToChange.
//
// A call closes the connection, so that every later call fails, if its context ends (except in
// Idle), or if the server is silent for Config.IdleTimeout, takes five times that for one command,
// or sends something that is not IMAP or exceeds a limit (see guard and wire).
//
// Only a tagged OK is an answer. A lost connection is an error, never an empty result. A message is
// Vanished only if a FETCH of that message alone got a tagged OK without the message. A message
// that the server cannot deliver is Failed; the messages after it are still fetched. Bodies go
// straight into the spool, so memory grows neither with the size of a message nor with what a
// hostile server sends.
//
// Every error is an *Error, except errors of the caller's callback. Its text is one line: what was
// being done, why it failed and how to fix it. It contains no password. The package does not know
// the database, routes or SMTP.
package imapsrc

import (
	"context"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
)

// logoutTimeout is how long Close tries to send LOGOUT.
const logoutTimeout = 3 * time.Second

// Conn is a connection that is logged in.
type Conn struct {
	cfg    Config
	host   string // host:port
	wire   *wire
	client *imapclient.Client // nil after Idle; see library
	caps   imap.CapSet        // after the login; the library forgets them when the connection is lost
	server string
	folder string // the open folder; empty when none is open

	token        string                 // for the login; empty with a password
	presented    bool                   // a token was sent
	listed       bool                   // the server listed its capabilities when it took the login
	loggedIn     bool                   // Dial is done
	asked        bool                   // the server asked for a certificate
	unidentified bool                   // ID is still to be sent
	idled        int                    // how often IDLE was begun
	waiting      atomic.Pointer[reader] // of Idle; nil before the first one
	messages     uint32                 // in the folder when it was opened
	flags        []imap.Flag            // that the folder keeps
	idles        bool                   // IDLE can be used

	mu   sync.Mutex
	take func(*imapclient.FetchMessageData) // of the running fetch; nil when none runs
}

// Dial connects, waits for the greeting and logs in. ID (RFC 2971) goes out with the first command
// after that. Config.DialTimeout limits everything up to and including the greeting.
func Dial(ctx context.Context, cfg Config) (*Conn, error) {
	c := newConn(cfg)
	if err := c.newToken(ctx, "", nil); err != nil {
		return nil, err
	}
	if err := c.open(ctx); err != nil {
		return nil, err
	}
	if err := c.enter(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

func newConn(cfg Config) *Conn {
	return &Conn{cfg: cfg, host: net.JoinHostPort(cfg.Host, strconv.Itoa(cfg.Port))}
}

// enter logs in.
func (c *Conn) enter(ctx context.Context) error {
	login := c.login
	if c.cfg.Token != nil {
		login = c.bearerLogin
	}
	if err := login(ctx); err != nil {
		return err
	}
	if err := c.capabilities(ctx); err != nil {
		return err
	}
	c.loggedIn = true
	c.cfg.Logger.InfoContext(ctx, "logged in", "server", c.host)
	return nil
}

// Close logs out and closes the connection. It does not wait for the answer to LOGOUT, and takes at
// most three seconds even when the server reads nothing.
func (c *Conn) Close() error {
	timer := time.AfterFunc(min(logoutTimeout, c.cfg.IdleTimeout), c.wire.kill)
	defer timer.Stop()
	if _, lost := c.wire.failure(); lost != nil && c.client == nil {
		c.wire.kill()
		return nil
	}
	client := c.library()
	select {
	case <-client.Closed():
	default:
		client.Logout()
	}
	c.wire.kill()
	<-client.Closed()
	return nil
}

// Capabilities returns the server's capabilities after the login, sorted.
func (c *Conn) Capabilities() (names []string) {
	for name := range c.caps {
		names = append(names, string(name))
	}
	slices.Sort(names)
	return names
}

// ServerName returns the name and version from the server's ID. It is empty before the first
// command after Dial, and when the server sends none.
func (c *Conn) ServerName() string { return c.server }

// Limits in octets for what a server may send in answer to one command. Message bodies do not
// count.
const (
	loginAnswer = 64 << 10 // until the login is done
	smallAnswer = 1 << 20
	largeAnswer = 32 << 20 // for SEARCH: about three million UIDs
	listAnswer  = 8 << 20  // for LIST
)

// patience is how long one command may take. Bodies have more time, see minRate.
func (c *Conn) patience() time.Duration {
	if !c.loggedIn {
		return 2 * c.cfg.IdleTimeout
	}
	return 5 * c.cfg.IdleTimeout
}

// do runs f, which talks to the server. The library knows no contexts: when ctx ends, do closes the
// connection, so that f fails.
func (c *Conn) do(ctx context.Context, op string, limit int64, f func() error) error {
	c.library()
	return c.doAlone(ctx, op, limit, f)
}

// doAlone is do for an f that does not use the library.
func (c *Conn) doAlone(ctx context.Context, op string, limit int64, f func() error) error {
	if ctx.Err() != nil {
		return c.failure(ctx, op, ctx.Err())
	}
	stop := context.AfterFunc(ctx, c.wire.kill)
	defer stop()
	c.wire.begin(limit, c.patience())
	defer c.wire.end()
	answered := c.identify(ctx)
	err := f()
	if lost := answered(); err == nil {
		err = lost
	}
	if line := c.wire.unread(); line != "" {
		c.cfg.Logger.DebugContext(ctx, "folders are left out: their names cannot be read", "imap", c.host, "last", line)
	}
	if err != nil {
		return c.failure(ctx, op, err)
	}
	return nil
}
