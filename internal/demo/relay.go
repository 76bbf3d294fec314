package demo

import (
	"bytes"
	"net/mail"
	"sync"
	"sync/atomic"

	"postrider/internal/testserver/smtpsink"
)

// relay is the SMTP server of the demo. It refuses one recipient, and defers another until ready is
// set. It delays its reply to one message until the pass that sends it was killed.
type relay struct {
	*smtpsink.Server
	ready  atomic.Bool
	once   sync.Once
	held   chan struct{} // closed when the whole message was received
	killed chan struct{} // closed by release
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

// release ends the delay. The relay then drops the connection without accepting the message.
func (r *relay) release() { close(r.killed) }

func (r *relay) reply(e smtpsink.Event) (a smtpsink.Action) {
	switch {
	case e.Stage == "rcpt" && e.Arg == unknownRecipient:
		return smtpsink.Action{Code: 550, Text: "5.1.1 no such person here"}
	case e.Stage == "rcpt" && e.Arg == deferredRecipient && !r.ready.Load():
		return smtpsink.Action{Code: 451, Text: "4.7.1 come back later"}
	case e.Stage == "dot" && messageID(e.Message.Data) == heldID:
		r.once.Do(func() {
			a = smtpsink.Action{Block: r.killed, Drop: true}
			close(r.held)
		})
	}
	return a
}

// messageID returns the Message-ID; empty when there is none.
func messageID(data []byte) string {
	m, err := mail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		return ""
	}
	return m.Header.Get("Message-Id")
}
