package sink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"postrider/internal/outbox"
	"postrider/internal/outbox/cloudevent"
)

// natsPublisher publishes to a subject that a stream of JetStream takes. The event's ID is the
// Nats-Msg-Id, by which the stream drops repeats within its duplicate window.
type natsPublisher struct {
	set     Settings
	at      address
	tls     bool
	subject string
	conn    *nats.Conn
	closed  chan struct{} // when conn is
	stream  jetstream.JetStream
}

func openNATS(set Settings) (outbox.Publisher, error) {
	at, err := parse(set.URL, "4222", "tls")
	if err != nil {
		return nil, err
	}
	secure, err := at.yes("tls")
	if err != nil {
		return nil, err
	}
	if at.path == "" || strings.ContainsAny(at.path, "*> \t") {
		return nil, fmt.Errorf("the url %s has no subject; write %s/SUBJECT", at.name(), at.name())
	}
	return &natsPublisher{set: set, at: at, tls: secure || set.RootCAs != nil, subject: at.path}, nil
}

func (p *natsPublisher) Publish(ctx context.Context, batch []outbox.Message) []error {
	if err := p.connect(ctx); err != nil {
		return all(len(batch), fmt.Errorf("connect to %s: %w", p.at.name(), because(ctx, err)))
	}
	stop := context.AfterFunc(ctx, p.conn.Close) // ends a write that hangs
	defer stop()
	acks, errs := make([]jetstream.PubAckFuture, len(batch)), make([]error, len(batch))
	for i, m := range batch {
		msg := nats.NewMsg(p.subject)
		msg.Data = m.Body
		msg.Header.Set("Content-Type", cloudevent.ContentType)
		msg.Header.Set(jetstream.MsgIDHeader, m.ID)
		acks[i], errs[i] = p.stream.PublishMsgAsync(msg)
	}
	for i, ack := range acks {
		if errs[i] == nil {
			errs[i] = p.await(ctx, ack)
		}
		errs[i] = p.judge(ctx, errs[i])
	}
	return errs
}

// await returns nil for an acknowledgement.
func (p *natsPublisher) await(ctx context.Context, ack jetstream.PubAckFuture) error {
	select {
	case <-ack.Ok():
		return nil
	case err := <-ack.Err():
		return err
	case <-p.closed: // the library would wait on
		return errors.New("the connection broke before the acknowledgement")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Codes of errors of JetStream about a message: it exceeds the size that the stream allows.
const errMessageTooLarge = jetstream.ErrorCode(10054)

func (p *natsPublisher) judge(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	var api *jetstream.APIError
	err = fmt.Errorf("publish to %s in %s: %w", p.subject, p.at.name(), because(ctx, err))
	switch {
	case errors.Is(err, nats.ErrMaxPayload): // the library knows the limit of the server
		return &outbox.Refused{Err: err, Unsent: true}
	case errors.As(err, &api) && api.ErrorCode == errMessageTooLarge:
		return &outbox.Refused{Err: err}
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("%w; create a stream for the subject: "+
			"nats stream add EVENTS --subjects='%s' --storage=file --defaults", err, p.subject)
	}
	return err
}

// connect opens a connection unless there is one. The library does not reconnect: it would
// wait longer than a batch may take.
func (p *natsPublisher) connect(ctx context.Context) error {
	if p.conn != nil && p.conn.IsConnected() {
		return nil
	}
	if p.conn != nil {
		p.conn.Close()
		p.conn = nil
	}
	closed := make(chan struct{})
	p.closed = closed
	options := []nats.Option{
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // the usual one writes to standard error
		nats.ClosedHandler(func(*nats.Conn) { close(closed) }),
		nats.Name(p.set.Agent), nats.NoReconnect(), nats.Timeout(p.set.Timeout), nats.SetCustomDialer(ctxDialer{ctx}),
	}
	if p.at.user != "" && p.at.password == "" {
		options = append(options, nats.Token(p.at.user))
	} else if p.at.user != "" {
		options = append(options, nats.UserInfo(p.at.user, p.at.password))
	}
	if p.tls {
		options = append(options, nats.Secure(tlsConfig(p.set)))
	}
	conn, err := nats.Connect("nats://"+strings.Join(p.at.hosts, ",nats://"), options...)
	if err != nil {
		return err
	}
	if p.stream, err = jetstream.New(conn); err != nil {
		conn.Close()
		return err
	}
	p.conn = conn
	return nil
}

// ctxDialer is a dialer of a library that has no context.
type ctxDialer struct{ ctx context.Context }

func (d ctxDialer) Dial(network, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(d.ctx, network, address)
}

func (p *natsPublisher) Close(context.Context) error {
	if p.conn != nil {
		p.conn.Close()
	}
	return nil
}
