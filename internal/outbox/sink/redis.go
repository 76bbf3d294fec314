package sink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/redis/go-redis/v9"

	"postrider/internal/outbox"
	"postrider/internal/outbox/cloudevent"
)

// replicasTime is how long WAIT waits for replicas.
const replicasTime = 5 * time.Second

// redisStreams appends to a stream, or to several among which the keys are spread, so that the
// nodes of a cluster share them. The entries have the fields id, type, key and event.
//
// A node of a cluster that fails over forgets what its replicas do not have. So an event has
// arrived once they have it, too (WAIT), as many as the parameter replicas says.
type redisStreams struct {
	set      Settings
	at       address
	single   *redis.Client        // nil for a cluster
	cluster  *redis.ClusterClient // nil for a single server
	stream   string
	count    int   // of streams
	maxLen   int64 // of each stream, roughly; 0: without a limit
	replicas int
}

func (p *redisStreams) Publish(ctx context.Context, batch []outbox.Message) []error {
	var streams []string
	of := map[string][]int{}
	for i, m := range batch {
		stream := p.streamOf(m.Key)
		if of[stream] == nil {
			streams = append(streams, stream)
		}
		of[stream] = append(of[stream], i)
	}
	errs := make([]error, len(batch))
	for _, stream := range streams {
		p.add(ctx, stream, of[stream], batch, errs)
	}
	return errs
}

// add appends some messages of a batch to a stream, by one pipeline, and puts in errs what became
// of them.
func (p *redisStreams) add(ctx context.Context, stream string, some []int, batch []outbox.Message, errs []error) {
	fail := func(i int, err error) {
		errs[i] = fmt.Errorf("add to the stream %s in %s: %w", stream, p.at.name(), because(ctx, err))
	}
	conn, err := p.conn(ctx, stream)
	if err != nil {
		for _, i := range some {
			fail(i, err)
		}
		return
	}
	defer func() { _ = conn.Close() }()
	pipe, replies := conn.Pipeline(), map[int]*redis.StringCmd{}
	for _, i := range some {
		m := batch[i]
		replies[i] = pipe.XAdd(ctx, &redis.XAddArgs{
			Stream: stream, MaxLen: p.maxLen, Approx: p.maxLen > 0,
			Values: []any{"id", m.ID, "type", cloudevent.Type(m.Kind), "key", m.Key, "event", m.Body},
		})
	}
	waited := p.wait(ctx, pipe)
	_, failed := pipe.Exec(ctx)
	if failed != nil && p.cluster != nil {
		p.cluster.ReloadState(ctx) // another node may have the stream by now
	}
	short := p.short(waited)
	for _, i := range some {
		entry, err := replies[i].Result()
		switch {
		case err != nil:
			fail(i, err)
		case entry == "":
			fail(i, cmp.Or(failed, errors.New("no reply")))
		case short != nil:
			fail(i, short)
		}
	}
}

// doer is a connection, or a pipeline on one.
type doer interface {
	Do(ctx context.Context, args ...any) *redis.Cmd
}

// wait waits for replicas to have all that came over a connection. It is nil when none need to.
func (p *redisStreams) wait(ctx context.Context, on doer) *redis.Cmd {
	if p.replicas == 0 {
		return nil
	}
	return on.Do(ctx, "WAIT", p.replicas, min(replicasTime, p.set.Timeout/2).Milliseconds())
}

// short returns an error if fewer replicas have what was sent than there should be.
func (p *redisStreams) short(waited *redis.Cmd) error {
	if waited == nil {
		return nil
	}
	have, err := waited.Int64()
	if err == nil && have < int64(p.replicas) {
		err = fmt.Errorf("%d of %d replicas are up to date; start them, or set the parameter replicas",
			have, p.replicas)
	}
	return err
}

// conn returns a connection to the server that has a stream, if that has its replicas: otherwise
// each try would append the events again.
func (p *redisStreams) conn(ctx context.Context, stream string) (*redis.Conn, error) {
	node, err := p.single, error(nil)
	if p.cluster != nil {
		node, err = p.cluster.MasterForKey(ctx, stream)
	}
	if err == nil {
		conn := node.Conn()
		if err = p.short(p.wait(ctx, conn)); err == nil {
			return conn, nil
		}
		_ = conn.Close()
	}
	if p.cluster != nil {
		p.cluster.ReloadState(ctx)
	}
	return nil, err
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

func (p *redisStreams) Close(context.Context) error {
	if p.cluster != nil {
		return p.cluster.Close()
	}
	return p.single.Close()
}
