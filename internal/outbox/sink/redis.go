package sink

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"postrider/internal/outbox"
	"postrider/internal/outbox/cloudevent"
)

// maxStreams bounds the parameter streams.
const maxStreams = 1024

// redisStreams appends to a stream, or to several among which the keys are spread, so that the
// nodes of a cluster share them. The entries have the fields id, type, key and event.
type redisStreams struct {
	set    Settings
	at     address
	client redis.UniversalClient
	stream string
	count  int   // of streams
	maxLen int64 // of each stream, roughly; 0: without a limit
}

func openRedis(set Settings) (outbox.Publisher, error) {
	at, err := parse(set.URL, "6379", "stream", "streams", "maxlen")
	if err != nil {
		return nil, err
	}
	p := &redisStreams{set: set, at: at, stream: at.query.Get("stream"), count: 1}
	if p.stream == "" {
		return nil, fmt.Errorf("the url %s has no stream; add ?stream=NAME", at.name())
	}
	if text := at.query.Get("streams"); text != "" {
		if p.count, err = strconv.Atoi(text); err != nil || p.count < 1 || p.count > maxStreams {
			return nil, fmt.Errorf("the url %s has streams=%s; it is a number from 1 to %d", at.name(), text, maxStreams)
		}
	}
	if text := at.query.Get("maxlen"); text != "" {
		if p.maxLen, err = strconv.ParseInt(text, 10, 64); err != nil || p.maxLen < 1 {
			return nil, fmt.Errorf("the url %s has maxlen=%s; it is a number of entries", at.name(), text)
		}
	}
	cluster := strings.HasSuffix(at.scheme, "-cluster")
	database := 0
	if at.path != "" {
		if database, err = strconv.Atoi(at.path); err != nil || cluster {
			return nil, fmt.Errorf("the url %s has the database %q; it is a number, and a cluster has none", at.name(), at.path)
		}
	}
	if !cluster && len(at.hosts) > 1 {
		return nil, fmt.Errorf("the url %s has several hosts; that is for redis-cluster://", at.name())
	}
	p.client = redis.NewUniversalClient(p.options(database, cluster))
	return p, nil
}

// options turns the library's retries off: the outbox does them, and counts them. Maintenance
// notifications are of Redis Enterprise.
func (p *redisStreams) options(database int, cluster bool) *redis.UniversalOptions {
	var secure *tls.Config
	if strings.HasPrefix(p.at.scheme, "rediss") {
		secure = tlsConfig(p.set)
	}
	return &redis.UniversalOptions{
		Addrs: p.at.hosts, ClientName: "postrider", DB: database, Username: p.at.user, Password: p.at.password,
		TLSConfig: secure, IsClusterMode: cluster, MaxRetries: -1, ContextTimeoutEnabled: true,
		DialTimeout: p.set.Timeout, ReadTimeout: p.set.Timeout, WriteTimeout: p.set.Timeout,
		PoolSize: 2, Protocol: 2, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// Publish sends a pipeline. The server answers each entry on its own.
func (p *redisStreams) Publish(ctx context.Context, batch []outbox.Message) []error {
	ctx, cancel := within(ctx, p.set)
	defer cancel()
	pipe := p.client.Pipeline()
	replies := make([]*redis.StringCmd, len(batch))
	for i, m := range batch {
		replies[i] = pipe.XAdd(ctx, &redis.XAddArgs{
			Stream: p.streamOf(m.Key), MaxLen: p.maxLen, Approx: p.maxLen > 0,
			Values: []any{"id", m.ID, "type", cloudevent.Type(m.Kind), "key", m.Key, "event", m.Body},
		})
	}
	_, failed := pipe.Exec(ctx)
	errs := make([]error, len(batch))
	for i, reply := range replies {
		entry, err := reply.Result()
		if err == nil && entry == "" { // never asked
			err = cmpError(failed, errors.New("no reply"))
		}
		if err != nil {
			errs[i] = fmt.Errorf("add to the stream %s in %s: %w", p.streamOf(batch[i].Key), p.at.name(), because(ctx, err))
		}
	}
	return errs
}

func cmpError(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// streamOf spreads keys: those of one task are in one stream. The braces have the number alone
// decide on which node of a cluster a stream is.
func (p *redisStreams) streamOf(key string) string {
	if p.count == 1 {
		return p.stream
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(key))
	return fmt.Sprintf("%s:{%d}", p.stream, hash.Sum32()%uint32(p.count))
}

func (p *redisStreams) Close(context.Context) error { return p.client.Close() }
