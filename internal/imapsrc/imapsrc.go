// Package imapsrc is the source of messages: it connects to one IMAP account, lists UIDs and fetches messages by UID.
//
// A Conn is used by one goroutine at a time. Folders are opened with EXAMINE and bodies fetched with BODY.PEEK[], so
// nothing in the account is ever changed. Every call ends when its context does, and when the server is silent for
// Config.IdleTimeout; both cost the connection, which then fails every later call.
//
// Nothing but a tagged OK counts as an answer. A lost connection is an error and never an empty result;
// a message is Vanished only when it was asked for alone and a tagged OK came without it; one that the server cannot
// hand over is Failed, and those behind it go on. Bodies go straight into the spool: memory does not grow with the size
// of a message, nor with what a hostile server sends.
//
// Every error is an *Error, except those of the caller's own callback. Its text is one line that says what was being done,
// why it failed and the mend, and holds no password. The package knows neither the database, routes nor SMTP.
package imapsrc

import (
	"context"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/emersion/go-imap/v2/imapclient"
)

// logoutTimeout is how long Close waits for the server to say goodbye.
const logoutTimeout = 3 * time.Second

// Conn is a connection that is logged in.
type Conn struct {
	cfg    Config
	host   string // host:port, as errors name it
	wire   *wire
	client *imapclient.Client
	caps   []string
	server string
	folder string // the one that is open

	mu   sync.Mutex
	take func(*imapclient.FetchMessageData) // of the fetch that is running; see fetch
}

// Dial connects, waits for the greeting, logs in and sends ID (RFC 2971). DialTimeout covers everything up to the greeting.
func Dial(ctx context.Context, cfg Config) (*Conn, error) {
	cfg = cfg.withDefaults()
	c := &Conn{cfg: cfg, host: net.JoinHostPort(cfg.Host, strconv.Itoa(cfg.Port))}
	if err := c.open(ctx); err != nil {
		return nil, err
	}
	if err := c.login(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	if err := c.identify(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	c.cfg.Logger.DebugContext(ctx, "logged in", "imap", c.host, "server", c.server)
	return c, nil
}

// Close logs out and closes the connection. It takes three seconds at most, whatever the server does.
func (c *Conn) Close() error {
	timer := time.AfterFunc(min(logoutTimeout, c.cfg.IdleTimeout), c.wire.kill)
	defer timer.Stop()
	select {
	case <-c.client.Closed():
	default:
		_ = c.client.Logout().Wait()
	}
	c.wire.kill()
	<-c.client.Closed()
	return nil
}

// Capabilities are what the server offers after the login, sorted.
func (c *Conn) Capabilities() []string { return slices.Clone(c.caps) }

// ServerName is what the server calls itself in its ID, with the version; empty when it does not say.
func (c *Conn) ServerName() string { return c.server }

// How much a server may send for one command that nobody has asked for by its size, in octets. Bodies do not count.
const (
	smallAnswer = 1 << 20
	largeAnswer = 32 << 20 // SEARCH and LIST: some three million UIDs
)

// do runs f, which talks to the server. When ctx ends, the connection is closed under f, which the library cannot do.
func (c *Conn) do(ctx context.Context, op string, limit int64, f func() error) error {
	if ctx.Err() != nil {
		return c.failure(ctx, op, ctx.Err())
	}
	stop := context.AfterFunc(ctx, c.wire.kill)
	defer stop()
	c.wire.begin(limit)
	defer c.wire.end()
	if err := f(); err != nil {
		return c.failure(ctx, op, err)
	}
	return nil
}
