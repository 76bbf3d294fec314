// Package sink opens the destinations of events: a web server (package webhook), NATS JetStream,
// Kafka, RabbitMQ, Amazon SQS and SNS, and Redis Streams.
//
// An event has arrived once the broker has acknowledged it, never when it was only written to a
// connection: the ack of JetStream, acks from all in-sync replicas in Kafka, the publisher confirm
// of RabbitMQ for a message that reached a queue, the reply to XADD, an entry under Successful of
// SQS and SNS. docs/events-destinations.md says what each of them stands for.
//
// Each broker is reached through its makers' client library, or the usual one in its field. A
// common interface such as gocloud.dev/pubsub would be one more layer over what matters here: the
// acknowledgement of each event, Nats-Msg-Id, WAIT of Redis, group and ID in a FIFO queue.
package sink

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"postrider/internal/outbox"
	"postrider/internal/outbox/webhook"
)

const defaultTimeout = 30 * time.Second

// Settings are those of one destination.
type Settings struct {
	URL     string         // the scheme says what it is
	RootCAs *x509.CertPool // nil for the system's; otherwise connections to NATS and Kafka are encrypted in any case
	Timeout time.Duration  // of what the library of a broker times itself; 0: 30 s. A batch ends with its context
	Agent   string         // how the program calls itself; empty: postrider

	// Only for webhooks, see webhook.Settings. postrider connects to a broker directly, at any
	// address.
	Secrets       []string
	AllowInternal bool
	Proxy         string
}

// opener opens what a scheme stands for.
type opener func(Settings) (outbox.Publisher, error)

// Open returns the publisher for a URL. It opens no connection, so that a destination that is down
// is no error yet. The publisher can be used by several goroutines; its Publish keeps the order of
// messages with the same key, and sends none after one that the destination failed to take.
func Open(set Settings) (outbox.Publisher, error) {
	known := openers()
	scheme, _, ok := strings.Cut(set.URL, "://")
	open := known[scheme]
	if !ok || open == nil {
		return nil, fmt.Errorf("the url of the destination does not begin with one of %s://",
			strings.Join(Schemes(), "://, "))
	}
	set.Agent = cmp.Or(set.Agent, "postrider")
	set.Timeout = cmp.Or(set.Timeout, defaultTimeout)
	publisher, err := open(set)
	if err != nil {
		return nil, err
	}
	return newOrdered(publisher), nil
}

// Schemes are those of the URLs that Open takes, sorted.
func Schemes() []string { return slices.Sorted(maps.Keys(openers())) }

func openers() map[string]opener {
	all := map[string]opener{
		"https": openWebhook, "http": openWebhook,
		"nats": openNATS,
		"amqp": openRabbit, "amqps": openRabbit,
		"redis": openRedis, "rediss": openRedis, "redis-cluster": openRedis, "rediss-cluster": openRedis,
	}
	maps.Copy(all, moreOpeners())
	return all
}

func openWebhook(set Settings) (outbox.Publisher, error) {
	return webhook.Open(webhook.Settings{
		URL: set.URL, Secrets: set.Secrets, AllowInternal: set.AllowInternal, Proxy: set.Proxy,
		RootCAs: set.RootCAs, Agent: set.Agent,
	})
}

func tlsConfig(set Settings) *tls.Config {
	return &tls.Config{RootCAs: set.RootCAs, MinVersion: tls.VersionTLS12}
}

// all is the same error for n messages.
func all(n int, err error) []error { return slices.Repeat([]error{err}, n) }

// because prefers what ended ctx to the error that this led to.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// refused reports whether the fault is the message's.
func refused(err error) bool {
	var r *outbox.Refused
	return errors.As(err, &r)
}
