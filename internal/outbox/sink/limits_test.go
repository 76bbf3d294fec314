package sink

import (
	"strings"
	"testing"
	"time"

	"postrider/internal/outbox"
)

// TestTooLarge checks that a message that NATS never takes is refused, and stops no other.
func TestTooLarge(t *testing.T) {
	b := natsBroker(t)
	b.prepare(t)
	batch := messages(3)
	batch[1].Body = make([]byte, 2<<20) // 1 MiB is the limit of the server
	errs := openAt(t, b.url, 10*time.Second).Publish(t.Context(), batch)
	if errs[0] != nil || !refused(errs[1]) || errs[2] != nil {
		t.Errorf("the errors are %v, want only the second, refused", errs)
	}
}

// TestReplicas checks that an event has not arrived while no replica has it, and that nothing is
// appended again and again meanwhile.
func TestReplicas(t *testing.T) {
	b := redisBroker(t)
	p := openAt(t, b.url+"&replicas=1", time.Second)
	for range 2 {
		err := p.Publish(t.Context(), messages(1))[0]
		if err == nil || !strings.Contains(err.Error(), "0 of 1 replicas are up to date") {
			t.Errorf("the error is %v, want one that counts the replicas", err)
		}
	}
	if ids := b.ids(t); len(ids) != 0 {
		t.Errorf("the stream has %q, want nothing", ids)
	}
}

// TestRouting checks that a message goes by its type to an exchange, and that one that no queue
// takes has not arrived, and the others have. What is missing is named.
func TestRouting(t *testing.T) {
	b := rabbitBroker(t)
	p := openAt(t, b.url, 10*time.Second)
	err := p.Publish(t.Context(), messages(1))[0]
	if err == nil || !strings.Contains(err.Error(), `; declare the queue "events" as durable`) {
		t.Errorf("the error is %v, want one that names the missing queue", err)
	}
	b.prepare(t)
	p = openAt(t, strings.Replace(b.url, "queue=events", "exchange=amq.topic", 1), 10*time.Second)
	b.bind(t, "amq.topic", "postrider.task.*.v1")
	batch := messages(2)
	batch[0].Kind = outbox.NeedsLogin
	errs := p.Publish(t.Context(), batch)
	if errs[0] == nil || !strings.Contains(errs[0].Error(), `; bind a queue to the exchange "amq.topic" for `) ||
		refused(errs[0]) || errs[1] != nil {
		t.Errorf("the errors are %v, want only the first, which no queue takes", errs)
	}
	wantAll(t, append(b.ids(t), "0"), 2)
	p = openAt(t, strings.Replace(b.url, "queue=events", "exchange=nosuch", 1), 10*time.Second)
	err = p.Publish(t.Context(), batch)[0]
	if err == nil || refused(err) || !strings.Contains(err.Error(), "no exchange 'nosuch' in vhost '/'") {
		t.Errorf("the error is %v, want one that names the missing exchange", err)
	}
}
