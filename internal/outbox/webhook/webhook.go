// Package webhook hands events to a web server: a POST for each, signed as the specification
// Standard Webhooks says, with a CloudEvent in structured mode as its body.
//
// A status of 2xx acknowledges an event, whatever the body says. 410 is ErrGone. 429 and 503 with a
// Retry-After are *Later. 413, 415 and 422 are about the message: *Refused. Everything else,
// including 400, 401, 403 and 404, is the destination's fault: somebody has to fix the receiver,
// and its events wait and are tried again.
//
// A redirect with 307 or 308 is followed if it leads to https on the same host and port. No error
// shows the path, the query, the user or the password of the URL: each may be a secret.
package webhook

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"postrider/internal/outbox"
	"postrider/internal/outbox/cloudevent"
)

const (
	atOnce      = 8        // requests at the same time
	maxBody     = 64 << 10 // octets of an answer that are read, to use its connection again
	bodyTimeout = 2 * time.Second
)

// Settings are those of one destination.
type Settings struct {
	URL           string   // https, or http to an address inside
	Secrets       []string // whsec_...; more than one while they are replaced
	AllowInternal bool     // loopback, link-local and private addresses

	Proxy   string         // see proxy.Dialer
	RootCAs *x509.CertPool // nil for the system's
	Agent   string         // the header User-Agent
}

// Publisher posts events. It can be used by several goroutines.
type Publisher struct {
	agent  string
	to     *url.URL
	keys   [][]byte
	client *http.Client
	now    func() time.Time
}

// Open checks the settings. It opens no connection.
func Open(set Settings) (*Publisher, error) {
	to, err := url.Parse(set.URL)
	if err != nil || to.Hostname() == "" || to.Scheme != "https" && to.Scheme != "http" {
		return nil, errors.New("the url of a webhook is not https://HOST/PATH. " +
			"In a password or a name, write all but letters, digits and - . _ ~ as %XX: / as %2F")
	}
	if to.Scheme == "http" && !set.AllowInternal {
		return nil, fmt.Errorf("http://%s is not encrypted: use https, "+
			"or set allow_internal: true if the address is inside the network", to.Host)
	}
	g := guard{allowInside: set.AllowInternal, insideOnly: to.Scheme == "http"}
	if address, err := netip.ParseAddr(to.Hostname()); err == nil { // a proxy would be asked for it
		if err := g.check(address); err != nil {
			return nil, err
		}
	}
	keys, err := parseSecrets(set.Secrets)
	if err != nil {
		return nil, err
	}
	return &Publisher{agent: set.Agent, to: to, keys: keys, client: newClient(set, g), now: time.Now}, nil
}

// Close closes the idle connections.
func (p *Publisher) Close(context.Context) error {
	p.client.CloseIdleConnections()
	return nil
}

// Publish implements outbox.Publisher, except that it does not keep the order: messages go out
// eight at a time. After a failure of the destination no further one is sent: those get the same
// error.
func (p *Publisher) Publish(ctx context.Context, batch []outbox.Message) []error {
	errs := make([]error, len(batch))
	var failure atomic.Pointer[error] // of the destination
	next := make(chan int)
	var posting sync.WaitGroup
	for range min(atOnce, len(batch)) {
		posting.Go(func() {
			for i := range next {
				if err := failure.Load(); err != nil {
					errs[i] = *err
					continue
				}
				errs[i] = p.post(ctx, batch[i])
				if errs[i] != nil && !errors.As(errs[i], new(*outbox.Refused)) {
					failure.Store(&errs[i])
				}
			}
		})
	}
	for i := range batch {
		next <- i
	}
	close(next)
	posting.Wait()
	return errs
}

func (p *Publisher) post(ctx context.Context, m outbox.Message) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.to.String(), bytes.NewReader(m.Body))
	if err != nil {
		return fmt.Errorf("post to %s: %w", p.to.Host, bare(err))
	}
	at := p.now()
	req.Header.Set("Content-Type", cloudevent.ContentType)
	req.Header.Set("User-Agent", p.agent)
	req.Header.Set("Webhook-Id", m.ID)
	req.Header.Set("Webhook-Timestamp", strconv.FormatInt(at.Unix(), 10))
	req.Header.Set("Webhook-Signature", sign(p.keys, m.ID, at, m.Body))
	resp, err := p.client.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return fmt.Errorf("post to %s: %w", p.to.Host, bare(err))
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.ContentLength != 0 {
		drain(resp.Body, cancel)
	}
	return p.judge(resp)
}

// drain reads a short body, so that the connection can be used again. What is in it does not
// matter, nor that it breaks off.
func drain(body io.Reader, cancel func()) {
	late := time.AfterFunc(bodyTimeout, cancel)
	defer late.Stop()
	_, _ = io.CopyN(io.Discard, body, maxBody)
}

// bare takes away the URLs that net/http puts into its errors.
func bare(err error) error {
	for {
		var shown *url.Error
		if !errors.As(err, &shown) {
			return err
		}
		// This error has no type of its own, and quotes an address that the server made up.
		if err = shown.Err; strings.Contains(err.Error(), "parse Location header") {
			return errors.New("it redirects to an address that cannot be read")
		}
	}
}
