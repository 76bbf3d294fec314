package sink

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"postrider/internal/testserver"
)

// must is for what the tests do themselves at a broker.
func must[V any](t testing.TB) func(V, error) V {
	return func(v V, err error) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func natsBroker(t testing.TB) broker {
	s := testserver.NATS(t)
	stream := func(t testing.TB) jetstream.JetStream {
		conn := must[*nats.Conn](t)(nats.Connect("nats://" + s.Address))
		t.Cleanup(conn.Close)
		return must[jetstream.JetStream](t)(jetstream.New(conn))
	}
	return broker{
		url: "nats://" + s.Address + "/events.mail", kill: s.Kill, start: s.Start, freeze: s.Freeze, thaw: s.Thaw,
		prepare: func(t testing.TB) {
			// The shortest window: repeats are not to be hidden.
			must[jetstream.Stream](t)(stream(t).CreateStream(t.Context(), jetstream.StreamConfig{
				Name: "EVENTS", Subjects: []string{"events.>"}, Duplicates: 100 * time.Millisecond,
			}))
		},
		ids: func(t testing.TB) []string {
			ordered := jetstream.OrderedConsumerConfig{}
			consumer := must[jetstream.Consumer](t)(stream(t).OrderedConsumer(t.Context(), "EVENTS", ordered))
			info := must[*jetstream.ConsumerInfo](t)(consumer.Info(t.Context()))
			var ids []string
			for range info.NumPending {
				msg := must[jetstream.Msg](t)(consumer.Next(jetstream.FetchMaxWait(time.Minute)))
				ids = append(ids, msg.Headers().Get(jetstream.MsgIDHeader))
			}
			return ids
		},
	}
}

func rabbitBroker(t testing.TB) broker {
	s := testserver.RabbitMQ(t)
	channel := func(t testing.TB) *amqp.Channel {
		conn := must[*amqp.Connection](t)(amqp.Dial("amqp://guest:guest@" + s.Address + "/"))
		t.Cleanup(func() { _ = conn.Close() })
		return must[*amqp.Channel](t)(conn.Channel())
	}
	return broker{
		url:  "amqp://guest:guest@" + s.Address + "/?queue=events",
		kill: s.Kill, start: s.Start, freeze: s.Freeze, thaw: s.Thaw,
		prepare: func(t testing.TB) {
			must[amqp.Queue](t)(channel(t).QueueDeclare("events", true, false, false, false, nil))
		},
		bind: func(t testing.TB, exchange, key string) {
			if err := channel(t).QueueBind("events", key, exchange, false, nil); err != nil {
				t.Fatal(err)
			}
		},
		ids: func(t testing.TB) []string {
			ch := channel(t)
			var ids []string
			for {
				msg, ok, err := ch.Get("events", true)
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					return ids
				}
				ids = append(ids, msg.MessageId)
			}
		},
	}
}

func redisBroker(t testing.TB) broker {
	s := testserver.Redis(t)
	return broker{
		url: "redis://" + s.Address + "/0?stream=events", kill: s.Kill, start: s.Start, freeze: s.Freeze, thaw: s.Thaw,
		prepare: func(testing.TB) {},
		ids: func(t testing.TB) []string {
			client := redis.NewClient(&redis.Options{Addr: s.Address})
			defer func() { _ = client.Close() }()
			return entries(t, client, "events")
		},
	}
}

// redisClusterBroker has one of three masters killed: its replica takes its streams over.
func redisClusterBroker(t testing.TB) broker {
	nodes := testserver.RedisCluster(t)
	var addresses []string
	for _, node := range nodes {
		addresses = append(addresses, node.Address)
	}
	return broker{
		url: "redis-cluster://" + strings.Join(addresses, ",") + "?stream=events&streams=12", kill: nodes[0].Kill,
		start: nodes[0].Start, prepare: func(testing.TB) {},
		freeze: func() {
			for _, node := range nodes {
				node.Freeze()
			}
		},
		thaw: func() {
			for _, node := range nodes {
				node.Thaw()
			}
		},
		ids: func(t testing.TB) []string {
			client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addresses})
			defer func() { _ = client.Close() }()
			streams := redisStreams{stream: "events", count: 12}
			seen, ids := map[string]bool{}, []string(nil)
			for _, m := range messages(20) {
				if stream := streams.streamOf(m.Key); !seen[stream] {
					seen[stream] = true
					ids = append(ids, entries(t, client, stream)...)
				}
			}
			return ids
		},
	}
}

// entries returns the IDs in a stream, once the server has read its files.
func entries(t testing.TB, client redis.Cmdable, stream string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	all, err := client.XRange(ctx, stream, "-", "+").Result()
	for err != nil && ctx.Err() == nil {
		all, err = client.XRange(ctx, stream, "-", "+").Result()
	}
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, entry := range all {
		ids = append(ids, entry.Values["id"].(string))
	}
	return ids
}
