package sink

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"postrider/internal/outbox"
	"postrider/internal/testserver"
)

func TestMain(m *testing.M) { testserver.Main(m) }

// broker is what the tests need of one: where it is, how it fails, and what it holds.
type broker struct {
	url     string
	kill    func()
	start   func(testing.TB)
	freeze  func()
	thaw    func()
	prepare func(testing.TB)                         // makes the stream, queue or topic
	bind    func(t testing.TB, exchange, key string) // RabbitMQ alone
	ids     func(testing.TB) []string                // of what is there, in the order of each key
}

// running are the brokers of this build.
func running() map[string]func(testing.TB) broker {
	all := map[string]func(testing.TB) broker{
		"NATS": natsBroker, "RabbitMQ": rabbitBroker, "Redis": redisBroker, "Redis cluster": redisClusterBroker,
	}
	for name, start := range moreRunning() {
		all[name] = start
	}
	return all
}

func eachBroker(t *testing.T, test func(*testing.T, broker)) {
	t.Helper()
	for name, start := range running() {
		t.Run(name, func(t *testing.T) { test(t, start(t)) })
	}
}

func openAt(t *testing.T, url string, timeout time.Duration) outbox.Publisher {
	t.Helper()
	p, err := Open(Settings{URL: url, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close(context.Background()) })
	return timed{p, timeout}
}

// timed gives each batch its time, as the outbox does.
type timed struct {
	outbox.Publisher
	timeout time.Duration
}

func (p timed) Publish(ctx context.Context, batch []outbox.Message) []error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	return p.Publisher.Publish(ctx, batch)
}

func messages(n int) []outbox.Message {
	var all []outbox.Message
	for i := range n {
		all = append(all, outbox.Message{
			ID: strconv.Itoa(i), Kind: outbox.Forwarded, Key: fmt.Sprint("task ", i%20),
			Body: fmt.Appendf(nil, `{"id":"%d"}`, i),
		})
	}
	return all
}

// TestKilled kills and restarts a broker while 200 events are published, by a loop that tries again
// what failed, as the outbox does. None is lost, repeats have the same ID, and the first copies of
// each key are in order.
func TestKilled(t *testing.T) {
	eachBroker(t, func(t *testing.T, b broker) {
		b.prepare(t)
		const total, few, killAt = 200, 40, 80
		p := openAt(t, b.url, 10*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		waiting, failures, killed := messages(total), 0, chan struct{}(nil)
		for len(waiting) > 0 {
			if killed == nil && len(waiting) <= total-killAt {
				killed = make(chan struct{})
				go func() {
					defer close(killed)
					b.kill()
				}()
			}
			batch := waiting[:min(few, len(waiting))]
			errs := p.Publish(ctx, batch)
			var again []outbox.Message
			for i, err := range errs {
				if err != nil {
					again = append(again, batch[i])
				}
			}
			waiting = append(again, waiting[len(batch):]...)
			if len(again) == 0 {
				if killed != nil { // one batch goes out beside the kill, the next one after it
					<-killed
				}
				continue
			}
			if failures++; failures == 1 {
				if killed == nil {
					t.Fatalf("before the broker was killed: %v", errs)
				}
				<-killed
				b.start(t)
			}
			if ctx.Err() != nil {
				t.Fatalf("%d events do not arrive: %v", len(waiting), errs)
			}
		}
		if failures == 0 {
			t.Error("nothing failed, want the killed broker to be noticed")
		}
		wantAll(t, b.ids(t), total)
	})
}

// wantAll checks that n events are there, and that the first copies of each key are in order.
func wantAll(t *testing.T, ids []string, n int) {
	t.Helper()
	last, seen := map[int]int{}, map[string]int{}
	for _, id := range ids {
		seen[id]++
		i, err := strconv.Atoi(id)
		if err != nil || i < 0 || i >= n {
			t.Fatalf("the event %q was never published", id)
		}
		if key := i % 20; seen[id] == 1 {
			if before, ok := last[key]; ok && before > i {
				t.Errorf("the event %d came after %d of the same key", i, before)
			}
			last[key] = i
		}
	}
	if len(seen) != n {
		t.Errorf("%d events are there, want %d", len(seen), n)
	}
	t.Logf("%d events, %d copies", len(seen), len(ids))
}

// TestFrozen checks that nothing counts as arrived while the broker does not answer, and that all
// arrives afterwards.
func TestFrozen(t *testing.T) {
	eachBroker(t, func(t *testing.T, b broker) {
		b.prepare(t)
		all := messages(20)
		p := openAt(t, b.url, 2*time.Second)
		arrive(t, p, all[:10])
		b.freeze()
		for i, err := range p.Publish(t.Context(), all[10:]) {
			if err == nil {
				t.Errorf("event %d counts as arrived, and the broker is frozen", i)
			}
		}
		b.thaw()
		arrive(t, p, all[10:])
		wantAll(t, b.ids(t), len(all))
	})
}

// TestCancelled checks that a batch ends with its context, and the next one arrives.
func TestCancelled(t *testing.T) {
	eachBroker(t, func(t *testing.T, b broker) {
		b.prepare(t)
		p := openAt(t, b.url, 20*time.Second)
		arrive(t, p, messages(1))
		b.freeze()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		begin := time.Now()
		if errs := p.Publish(ctx, messages(1)); errs[0] == nil || time.Since(begin) > 10*time.Second {
			t.Errorf("the error is %v after %v, want one soon", errs[0], time.Since(begin))
		}
		b.thaw()
		arrive(t, p, messages(1))
	})
}

// TestNowhere checks that nothing counts as arrived when there is no stream, queue or topic.
func TestNowhere(t *testing.T) {
	eachBroker(t, func(t *testing.T, b broker) {
		if b.prepare == nil || slices.Contains([]string{"Redis", "Redis_cluster", "SQS", "SNS"}, nameOf(t)) {
			t.Skip("a stream is made by its first entry, and Amazon is faked")
		}
		p := openAt(t, b.url, 10*time.Second)
		for i, err := range p.Publish(t.Context(), messages(3)) {
			if err == nil || refused(err) {
				t.Errorf("event %d: %v, want an error of the destination", i, err)
			}
		}
		b.prepare(t)
		arrive(t, p, messages(3))
		wantAll(t, b.ids(t), 3)
	})
}

func nameOf(t *testing.T) string { return t.Name()[len("TestNowhere/"):] }

// arrive publishes until all have arrived: a broker that comes back may refuse a few.
func arrive(t *testing.T, p outbox.Publisher, batch []outbox.Message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for {
		var again []outbox.Message
		errs := p.Publish(ctx, batch)
		for i, err := range errs {
			if err != nil {
				again = append(again, batch[i])
			}
		}
		if batch = again; len(batch) == 0 {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%d events do not arrive: %v", len(batch), errs)
		}
	}
}
