//go:build events_all

package sink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"postrider/internal/outbox"
	"postrider/internal/outbox/cloudevent"
)

const pause = 200 * time.Millisecond // before the library tries again

// kafka produces to a topic with acks from all in-sync replicas. A key is always in one partition.
type kafka struct {
	at     address
	topic  string
	client *kgo.Client
}

func openKafka(set Settings) (outbox.Publisher, error) {
	at, err := parse(set.URL, "9092", "tls", "sasl")
	if err != nil {
		return nil, err
	}
	if at.path == "" {
		return nil, fmt.Errorf("the url %s has no topic; write %s/TOPIC", at.name(), at.name())
	}
	// Requests go one after the other and are cancelled with ctx, which an idempotent producer does
	// not allow. A repeat has the same id.
	options := []kgo.Opt{
		kgo.SeedBrokers(at.hosts...), kgo.ClientID(set.Agent), kgo.DefaultProduceTopic(at.path),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1),
		kgo.UnknownTopicRetries(1), kgo.RecordDeliveryTimeout(set.Timeout),
		// The outbox tries again, and counts it.
		kgo.RecordRetries(2), kgo.RequestRetries(2), kgo.MetadataMinAge(pause),
		kgo.RetryBackoffFn(func(int) time.Duration { return pause }),
	}
	secure, err := at.yes("tls")
	if err != nil {
		return nil, err
	}
	if secure || set.RootCAs != nil {
		options = append(options, kgo.DialTLSConfig(tlsConfig(set)))
	}
	login, err := kafkaLogin(at)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(append(options, login...)...)
	if err != nil {
		return nil, fmt.Errorf("the url %s: %w", at.name(), err)
	}
	return &kafka{at: at, topic: at.path, client: client}, nil
}

func kafkaLogin(at address) ([]kgo.Opt, error) {
	if at.user == "" {
		return nil, nil
	}
	switch mechanism := at.query.Get("sasl"); mechanism {
	case "", "plain":
		return []kgo.Opt{kgo.SASL(plain.Auth{User: at.user, Pass: at.password}.AsMechanism())}, nil
	case "scram-sha-256":
		return []kgo.Opt{kgo.SASL(scram.Auth{User: at.user, Pass: at.password}.AsSha256Mechanism())}, nil
	case "scram-sha-512":
		return []kgo.Opt{kgo.SASL(scram.Auth{User: at.user, Pass: at.password}.AsSha512Mechanism())}, nil
	default:
		return nil, fmt.Errorf("the url %s has sasl=%s; use one of: plain, scram-sha-256, scram-sha-512",
			at.name(), mechanism)
	}
}

func (p *kafka) Publish(ctx context.Context, batch []outbox.Message) []error {
	records, index := make([]*kgo.Record, len(batch)), map[*kgo.Record]int{}
	for i, m := range batch {
		records[i] = &kgo.Record{Key: []byte(m.Key), Value: m.Body, Headers: []kgo.RecordHeader{
			{Key: "content-type", Value: []byte(cloudevent.ContentType)}, {Key: "id", Value: []byte(m.ID)},
		}}
		index[records[i]] = i
	}
	// The library may wait for the answer to a request that is out although ctx has ended. What
	// arrives after that is a repeat.
	answered := make(chan kgo.ProduceResults, 1)
	go func() { answered <- p.client.ProduceSync(ctx, records...) }()
	select {
	case results := <-answered:
		errs := all(len(batch), errors.New("no answer")) // until there is one
		for _, result := range results {
			errs[index[result.Record]] = p.judge(ctx, result.Err)
		}
		return errs
	case <-ctx.Done():
		return all(len(batch), p.judge(ctx, ctx.Err()))
	}
}

func (p *kafka) judge(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	said := fmt.Errorf("produce to the topic %s in %s: %w", p.topic, p.at.name(), because(ctx, err))
	tooLarge := errors.Is(err, kerr.MessageTooLarge) // perhaps for the library, which has a limit of its own
	if tooLarge || errors.Is(err, kerr.InvalidRecord) {
		return &outbox.Refused{Err: said, Unsent: tooLarge}
	}
	return said
}

func (p *kafka) Close(context.Context) error {
	p.client.Close()
	return nil
}
