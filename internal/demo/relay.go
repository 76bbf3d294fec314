package demo

import (
	"bytes"
	"net/mail"
	"sync"
	"sync/atomic"

	"postrider/internal/testserver/smtpsink"
)

// relay is the SMTP server: it does not know one recipient, defers another until it is ready, and is holding a message when
// the pass that sends it is killed.
type relay struct {
	*smtpsink.Server
	ready  atomic.Bool
	once   sync.Once
	held   chan struct{} // closed when it has got all of the message
	killed chan struct{} // closed by letGo
}

func startRelay() (*relay, error) {
	r := &relay{held: make(chan struct{}), killed: make(chan struct{})}
	sink, err := smtpsink.Start(smtpsink.Options{
		Extensions: []string{"SIZE 10485760", "8BITMIME", "ENHANCEDSTATUSCODES"}, KeepData: true, Reply: r.reply,
	})
	if err != nil {
		return nil, err
	}
	r.Server = sink
	return r, nil
}

// letGo tells the relay that nobody waits for its answer any more. It does not take the message on.
func (r *relay) letGo() { close(r.killed) }

func (r *relay) reply(e smtpsink.Event) (a smtpsink.Action) {
	switch {
	case e.Stage == "rcpt" && e.Arg == goneMan:
		return smtpsink.Action{Code: 550, Text: "5.1.1 no such person here"}
	case e.Stage == "rcpt" && e.Arg == slowDesk && !r.ready.Load():
		return smtpsink.Action{Code: 451, Text: "4.7.1 come back later"}
	case e.Stage == "dot" && messageID(e.Message.Data) == heldID:
		r.once.Do(func() {
			a = smtpsink.Action{Block: r.killed, Drop: true}
			close(r.held)
		})
	}
	return a
}

// messageID is the Message-ID, empty when there is none.
func messageID(data []byte) string {
	m, err := mail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		return ""
	}
	return m.Header.Get("Message-Id")
}
