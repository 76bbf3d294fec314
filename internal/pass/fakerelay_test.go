package pass

import (
	"context"
	"io"
	"net/mail"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"postrider/internal/forward"
	"postrider/internal/limits"
	"postrider/internal/message"
	"postrider/internal/tasks"
)

// fakeRelay is a relay that accepts everything unless a hook says otherwise. The hooks may block.
type fakeRelay struct {
	t      *testing.T
	queue  tasks.Reader
	limits *fakeLimits
	max    int // recipients in one transaction; 0: any number

	onBegin func(ctx context.Context, subject string) error
	onSend  func(subject string) error
	left    func(subject string) bool               // nothing of the content goes out
	reply   func(subject, to string) forward.Status // to RCPT; "": accepted
	dot     func(subject, to string) forward.Status // to the final dot; "": accepted

	mu     sync.Mutex
	sent   []string
	now    []string // subjects that are at the relay
	most   int      // ever at the relay at once
	beyond []string // what was at the relay beside another one
	came   map[string]chan struct{}
}

func (r *fakeRelay) Envelope(_ *message.Message, _ forward.Trace, to []string) forward.Envelope {
	return forward.Envelope{From: "forwarder@firm.example", To: to}
}

func (r *fakeRelay) enter(subject string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.now) > 0 {
		r.beyond = append(r.beyond, subject)
		r.beyond = append(r.beyond, r.now...)
	}
	r.now = append(r.now, subject)
	if c := r.coming(subject); len(c) == 0 {
		c <- struct{}{}
	}
	r.most = max(r.most, len(r.now))
}

// coming has an element once the message with that subject has come to the relay.
func (r *fakeRelay) coming(subject string) chan struct{} {
	if r.came == nil {
		r.came = map[string]chan struct{}{}
	}
	if r.came[subject] == nil {
		r.came[subject] = make(chan struct{}, 1)
	}
	return r.came[subject]
}

// await waits until messages with these subjects have come to the relay.
func (r *fakeRelay) await(subjects ...string) {
	for _, subject := range subjects {
		r.mu.Lock()
		c := r.coming(subject)
		r.mu.Unlock()
		c <- <-c
	}
}

func (r *fakeRelay) leave(subject string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.Index(r.now, subject)
	r.now = slices.Delete(r.now, i, i+1)
}

func (r *fakeRelay) open() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.now)
}

// atRelay are the subjects of the messages at the relay now.
func (r *fakeRelay) atRelay() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(slices.Values(r.now))
}

// besides reports whether anything else was at the relay while the message was.
func (r *fakeRelay) besides(subject string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.beyond, subject)
}

func (r *fakeRelay) subjects() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.sent)
}

// read reads a content to its end, and returns its subject.
func (r *fakeRelay) read(c *forward.Content) string {
	m, err := mail.ReadMessage(c.Reader())
	if err != nil {
		r.t.Errorf("the content cannot be read, its body may be closed: %v", err)
		return ""
	}
	if body, err := io.ReadAll(m.Body); err != nil || string(body) != "hello\r\n" {
		r.t.Errorf("the content of %q is %q, %v; its body may be closed", m.Header.Get("Subject"), body, err)
	}
	return m.Header.Get("Subject")
}

func (r *fakeRelay) Begin(ctx context.Context, env forward.Envelope, c *forward.Content) (Transaction, error) {
	t := &fakeTx{relay: r, content: c, subject: r.read(c), over: true}
	n, why := r.limits.reserve(len(env.To))
	if why != nil {
		return t, why
	}
	if r.max > 0 {
		n = min(n, r.max)
	}
	t.rest = env.To[n:]
	r.enter(t.subject)
	t.over = false
	if r.onBegin != nil {
		if err := r.onBegin(ctx, t.subject); err != nil {
			t.end()
			return t, err
		}
	}
	for _, to := range env.To[:n] {
		if status := answer(r.reply, t.subject, to); status != forward.Accepted {
			t.outcomes = append(t.outcomes, forward.Outcome{
				Recipient: to, Status: status, Code: 550, Reply: "not here",
			})
		} else {
			t.accepted = append(t.accepted, to)
		}
	}
	if len(t.accepted) == 0 {
		t.end()
	}
	return t, nil
}

func answer(hook func(subject, to string) forward.Status, subject, to string) forward.Status {
	if hook != nil {
		if status := hook(subject, to); status != "" {
			return status
		}
	}
	return forward.Accepted
}

// fakeTx is one transaction.
type fakeTx struct {
	relay    *fakeRelay
	content  *forward.Content
	subject  string
	over     bool
	accepted []string
	rest     []string
	outcomes []forward.Outcome
}

func (t *fakeTx) end() {
	if !t.over {
		t.over = true
		t.relay.leave(t.subject)
	}
}

func (t *fakeTx) Accepted() []string {
	if t.over {
		return nil
	}
	return t.accepted
}

func (t *fakeTx) Outcomes() []forward.Outcome { return slices.Clone(t.outcomes) }
func (t *fakeTx) Rest() []string              { return t.rest }
func (t *fakeTx) Content() *forward.Content   { return t.content }

func (t *fakeTx) Reset() { t.end() }

// Send checks that the deliveries were recorded as sending before.
func (t *fakeTx) Send() ([]forward.Outcome, error) {
	defer t.end()
	t.checkMarked()
	t.relay.read(t.content)
	if t.relay.onSend != nil {
		if err := t.relay.onSend(t.subject); err != nil {
			return nil, err
		}
	}
	if t.relay.left != nil && t.relay.left(t.subject) {
		t.rest = slices.Concat(t.accepted, t.rest)
		return t.outcomes, nil
	}
	for _, to := range t.accepted {
		o := forward.Outcome{
			Recipient: to, Status: answer(t.relay.dot, t.subject, to), Code: 250, Reply: "queued as " + t.subject,
		}
		if o.Status == forward.Accepted {
			t.relay.mu.Lock()
			t.relay.sent = append(t.relay.sent, t.sentAs(to))
			t.relay.mu.Unlock()
		}
		t.outcomes = append(t.outcomes, o)
	}
	return t.outcomes, nil
}

// sentAs names what was sent: without the recipient when that is the usual one.
func (t *fakeTx) sentAs(to string) string {
	if to == team {
		return t.subject
	}
	return t.subject + " " + to
}

func (t *fakeTx) checkMarked() {
	marked := map[string]bool{}
	_ = t.relay.queue.List(context.Background(), tasks.Filter{Subject: t.subject}, func(one tasks.Task) error {
		for _, d := range one.Deliveries {
			if one.Identity.Subject == t.subject && d.Status == tasks.Sending {
				marked[d.Recipient] = true
			}
		}
		return nil
	})
	for _, to := range t.accepted {
		if !marked[to] {
			t.relay.t.Errorf("%s goes out to %s before that was recorded", t.subject, to)
		}
	}
}

// errRelay is a relay that is at fault.
var errRelay = &forward.Error{Relay: "relay:25", Stage: forward.StageMAIL, Code: 421, Reply: "go away"}

// fakeLimits is one limit of the relay's provider.
type fakeLimits struct {
	renewed, flushed atomic.Int32 // how often

	mu   sync.Mutex
	left int // recipients; negative: no limit
	wait time.Duration
}

func (l *fakeLimits) set(left int, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left, l.wait = left, wait
}

func (l *fakeLimits) reached() *limits.Reached {
	return &limits.Reached{Key: "smtp.limits.per_hour", Limit: 100, Until: time.Now().Add(l.wait), Wait: l.wait}
}

// reserve grants some of n recipients.
func (l *fakeLimits) reserve(n int) (int, *limits.Reached) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.left < 0:
		return n, nil
	case l.left == 0:
		return 0, l.reached()
	}
	n = min(n, l.left)
	l.left -= n
	return n, nil
}

func (l *fakeLimits) Left(context.Context) (int, *limits.Reached, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.left < 0:
		return 1 << 30, nil, nil
	case l.left == 0:
		return 0, l.reached(), nil
	}
	return l.left, nil, nil
}

func (l *fakeLimits) Limited() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.left >= 0
}

func (l *fakeLimits) Renew(context.Context) error { l.renewed.Add(1); return nil }
func (l *fakeLimits) Flush(context.Context) error { l.flushed.Add(1); return nil }
