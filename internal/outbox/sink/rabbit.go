package sink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"postrider/internal/outbox"
	"postrider/internal/outbox/cloudevent"
)

// rabbitBatch is how many messages wait for their confirms. Returned messages are buffered: the
// library stops reading when nobody takes them.
const rabbitBatch = 256

// rabbit publishes persistent messages over AMQP 0-9-1 with confirms. They are mandatory: one that
// reaches no queue comes back, and counts as not arrived.
type rabbit struct {
	set      Settings
	at       address
	url      string // with user and password, without parameters
	exchange string
	key      string // empty: the event's type

	raw     net.Conn
	conn    *amqp.Connection
	channel *amqp.Channel
	returns chan amqp.Return
	closes  chan *amqp.Error // has why channel was closed, before the confirms that it waits for end
	broken  error            // what was in closes
}

func openRabbit(set Settings) (outbox.Publisher, error) {
	port := map[string]string{"amqp": "5672", "amqps": "5671"}
	scheme, _, _ := strings.Cut(set.URL, "://")
	at, err := parse(set.URL, port[scheme], "exchange", "key", "queue")
	if err != nil {
		return nil, err
	}
	p := &rabbit{set: set, at: at, exchange: at.query.Get("exchange"), key: at.query.Get("key")}
	queue := at.query.Get("queue")
	if (queue == "") == (p.exchange == "") || queue != "" && p.key != "" || len(at.hosts) != 1 {
		return nil, fmt.Errorf("the url %s needs one host and either ?queue=NAME or ?exchange=NAME, "+
			"optionally with &key=KEY", at.name())
	}
	if queue != "" { // the default exchange has each queue under its name
		p.key = queue
	}
	u, err := url.Parse(set.URL)
	if err != nil {
		return nil, fmt.Errorf("the url %s cannot be read", at.name())
	}
	u.RawQuery = ""
	p.url = u.String()
	if _, err := amqp.ParseURI(p.url); err != nil {
		return nil, fmt.Errorf("the url %s cannot be read: %w", at.name(), bareURL(err))
	}
	return p, nil
}

func (p *rabbit) Publish(ctx context.Context, batch []outbox.Message) []error {
	var errs []error
	for len(errs) < len(batch) {
		some := batch[len(errs):min(len(batch), len(errs)+rabbitBatch)]
		if err := p.connect(ctx); err != nil {
			err = fmt.Errorf("connect to %s: %w", p.at.name(), because(ctx, err))
			return append(errs, all(len(batch)-len(errs), err)...)
		}
		errs = append(errs, p.confirmed(ctx, some)...)
	}
	return errs
}

func (p *rabbit) confirmed(ctx context.Context, batch []outbox.Message) []error {
	raw := p.raw                                               // may be another one when it is closed
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() }) // ends a write that hangs
	defer stop()
	confirms, errs := make([]*amqp.DeferredConfirmation, len(batch)), make([]error, len(batch))
	for i, m := range batch {
		key := p.key
		if key == "" {
			key = cloudevent.Type(m.Kind)
		}
		confirms[i], errs[i] = p.channel.PublishWithDeferredConfirmWithContext(ctx, p.exchange, key, true, false,
			amqp.Publishing{
				DeliveryMode: amqp.Persistent, MessageId: m.ID, Type: cloudevent.Type(m.Kind), AppId: p.set.Agent,
				ContentType: cloudevent.ContentType, Body: m.Body,
			})
	}
	for i, confirm := range confirms {
		if errs[i] == nil {
			errs[i] = p.wait(ctx, confirm)
		}
		if errs[i] != nil {
			errs[i] = fmt.Errorf("publish to %s: %w", p.at.name(), because(ctx, errs[i]))
		}
	}
	return p.returned(batch, errs)
}

func (p *rabbit) wait(ctx context.Context, confirm *amqp.DeferredConfirmation) error {
	acked, err := confirm.WaitContext(ctx)
	switch {
	case err != nil:
		return err
	case acked:
		return nil
	case p.channel.IsClosed():
		return p.why()
	}
	return errors.New("the broker did not take it (nack)")
}

// why is why the channel was closed: the connection broke, or the exchange is missing.
func (p *rabbit) why() error {
	select {
	case why := <-p.closes:
		if why != nil {
			p.broken = fmt.Errorf("closed before the confirm: %w", why)
		}
	default:
	}
	return p.broken
}

// returned replaces the success of messages that came back. A message comes back before it is
// confirmed.
func (p *rabbit) returned(batch []outbox.Message, errs []error) []error {
	for {
		select {
		case back, ok := <-p.returns:
			if !ok {
				return errs // the connection is closed: all that came back is read
			}
			fix := fmt.Sprintf("bind a queue to the exchange %q for %q", back.Exchange, back.RoutingKey)
			if back.Exchange == "" {
				fix = fmt.Sprintf("declare the queue %q as durable", back.RoutingKey)
			}
			for i, m := range batch {
				if m.ID == back.MessageId && errs[i] == nil {
					errs[i] = fmt.Errorf("publish to %s: no queue takes it (%s); %s", p.at.name(), back.ReplyText, fix)
				}
			}
		default:
			return errs
		}
	}
}

// connect opens a connection and a channel with confirms, unless they are open.
func (p *rabbit) connect(ctx context.Context) error {
	if p.channel != nil && !p.channel.IsClosed() && !p.conn.IsClosed() {
		return nil
	}
	p.drop()
	conn, err := amqp.DialConfig(p.url, amqp.Config{
		Heartbeat: 10 * time.Second, Locale: "en_US", TLSClientConfig: tlsConfig(p.set),
		Properties: amqp.Table{"connection_name": p.set.Agent},
		Dial: func(network, address string) (net.Conn, error) {
			raw, err := new(net.Dialer).DialContext(ctx, network, address)
			if deadline, ok := ctx.Deadline(); ok && err == nil {
				err = raw.SetDeadline(deadline) // the library lifts it after the handshake
			}
			p.raw = raw
			return raw, err
		},
	})
	if err != nil {
		return bareURL(err)
	}
	raw := p.raw
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer stop()
	channel, err := conn.Channel()
	if err == nil {
		err = channel.Confirm(false)
	}
	if err != nil {
		p.drop()
		return err
	}
	p.conn, p.channel, p.returns = conn, channel, channel.NotifyReturn(make(chan amqp.Return, rabbitBatch))
	p.closes = channel.NotifyClose(make(chan *amqp.Error, 1))
	p.broken = errors.New("the connection broke before the confirm")
	return nil
}

// drop closes the connection without the closing handshake, which the broker might not answer.
func (p *rabbit) drop() {
	if p.raw != nil {
		_ = p.raw.Close()
	}
	p.conn, p.channel, p.raw = nil, nil, nil
}

func (p *rabbit) Close(context.Context) error {
	p.drop()
	return nil
}
