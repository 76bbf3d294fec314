// Bare fetches all messages of an inbox and sends them to a relay, as fast as the libraries can: no
// database, no decision, no retry. scripts/bench divides by what it takes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
	"github.com/wneessen/go-mail/smtp"
	"golang.org/x/sync/errgroup"
)

func main() {
	b := bare{}
	flag.StringVar(&b.imap, "imap", "", "`HOST:PORT` of the IMAP server")
	flag.StringVar(&b.user, "user", "", "`USER` on it")
	flag.StringVar(&b.password, "password", "", "`PASSWORD` of that user")
	flag.StringVar(&b.relay, "relay", "", "`HOST:PORT` of the relay")
	flag.IntVar(&b.connections, "connections", 8, "`NUMBER` of connections to the relay")
	flag.BoolVar(&b.pipelining, "pipelining", false, "send what RFC 2920 allows together")
	flag.Parse()
	if err := b.run(); err != nil {
		fmt.Fprintln(os.Stderr, "bare:", err)
		os.Exit(1)
	}
}

type bare struct {
	imap, user, password, relay string
	connections                 int
	pipelining                  bool
}

func (b bare) run() error {
	bodies := make(chan []byte, b.connections)
	var group errgroup.Group
	for range b.connections {
		group.Go(func() error {
			err := b.send(bodies)
			for range bodies { // the fetch does not hang when the relay fails
			}
			return err
		})
	}
	err := b.fetch(bodies)
	close(bodies)
	return errors.Join(err, group.Wait())
}

// fetch gets all messages with one command.
func (b bare) fetch(bodies chan<- []byte) error {
	c, err := imapclient.DialInsecure(b.imap, nil)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if err := c.Login(b.user, b.password).Wait(); err != nil {
		return err
	}
	box, err := c.Select("INBOX", &imap.SelectOptions{ReadOnly: true}).Wait()
	if err != nil || box.NumMessages == 0 {
		return err
	}
	all := imap.SeqSet{}
	all.AddRange(1, box.NumMessages)
	cmd := c.Fetch(all, &imap.FetchOptions{BodySection: []*imap.FetchItemBodySection{{Peek: true}}})
	for msg := cmd.Next(); msg != nil; msg = cmd.Next() {
		for item := msg.Next(); item != nil; item = msg.Next() {
			section, ok := item.(imapclient.FetchItemDataBodySection)
			if !ok || section.Literal == nil {
				continue
			}
			body, err := io.ReadAll(section.Literal)
			if err != nil {
				return err
			}
			bodies <- body
		}
	}
	return cmd.Close()
}

// send sends messages over one connection.
func (b bare) send(bodies <-chan []byte) error {
	conn, err := net.Dial("tcp", b.relay)
	if err != nil {
		return err
	}
	c, err := smtp.NewClient(conn, "127.0.0.1")
	if err != nil {
		return err
	}
	for body := range bodies {
		if b.pipelining {
			if err := together(c, body); err != nil {
				return err
			}
			continue
		}
		if err := c.Mail("forwarder@firm.example"); err != nil {
			return err
		}
		if err := c.Rcpt("team@firm.example"); err != nil {
			return err
		}
		w, err := c.Data()
		if err != nil {
			return err
		}
		if _, err := w.Write(body); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
	}
	return c.Quit()
}

// together sends a message in two round trips.
func together(c *smtp.Client, body []byte) error {
	text := c.Text
	const envelope = "MAIL FROM:<forwarder@firm.example>\r\nRCPT TO:<team@firm.example>\r\nDATA\r\n"
	if _, err := io.WriteString(text.W, envelope); err != nil {
		return err
	}
	if err := text.W.Flush(); err != nil {
		return err
	}
	for _, code := range []int{250, 250, 354} {
		if _, _, err := text.ReadResponse(code); err != nil {
			return err
		}
	}
	w := text.DotWriter()
	if _, err := w.Write(body); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	_, _, err := text.ReadResponse(250)
	return err
}
