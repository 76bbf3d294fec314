package smtpsink

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
)

// errEnd ends a session as it should.
var errEnd = errors.New("end of session")

// session is one connection.
type session struct {
	s      *Server
	number int
	conn   net.Conn // replaced by STARTTLS
	r      *bufio.Reader
	tls    bool

	greeted bool
	user    string
	msg     *Message // between MAIL and the end of the transaction
}

// reply is an answer; then happens before a positive one goes out.
type reply struct {
	code int
	text string
	then func()
}

func newSession(s *Server, conn net.Conn, number int) *session {
	c := &session{s: s, number: number}
	if s.opts.ImplicitTLS {
		conn, c.tls = tls.Server(conn, s.opts.TLS), true
	}
	c.use(conn)
	return c
}

func (c *session) use(conn net.Conn) {
	const longest = 64 << 10 // of a line; also how much of a body is read at once
	c.conn, c.r = conn, bufio.NewReaderSize(conn, longest)
}

func (c *session) run() {
	err := c.answer("connect", "", reply{code: 220, text: "smtpsink ESMTP"})
	for err == nil {
		var line string
		if line, err = c.readLine(); err == nil {
			err = c.command(line)
		}
	}
}

func (c *session) readLine() (string, error) {
	line, err := c.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		_ = c.write(500, "5.5.2 line too long")
	}
	return strings.TrimRight(string(line), "\r\n"), err
}

// command answers one command line. It returns an error when the session is over.
func (c *session) command(line string) error {
	verb, arg, _ := strings.Cut(line, " ")
	switch verb = strings.ToUpper(verb); verb {
	case "EHLO", "HELO":
		return c.answer("ehlo", arg, c.hello(verb == "EHLO"))
	case "STARTTLS":
		return c.startTLS()
	case "AUTH":
		return c.auth(arg)
	case "MAIL":
		return c.mail(arg)
	case "RCPT":
		return c.rcpt(arg)
	case "DATA":
		return c.data()
	case "RSET":
		return c.answer("rset", "", reply{code: 250, text: "2.0.0 forgotten", then: func() { c.msg = nil }})
	case "NOOP":
		return c.answer("noop", "", reply{code: 250, text: "2.0.0 nothing done"})
	case "QUIT":
		return errors.Join(c.answer("quit", "", reply{code: 221, text: "2.0.0 bye"}), errEnd)
	default:
		return c.write(502, "5.5.1 no such command")
	}
}

// answer sends the usual reply, or what the hook wants instead.
func (c *session) answer(stage, arg string, usual reply) error {
	action := c.s.ask(Event{Stage: stage, Arg: arg, Message: c.msg, Conn: c.number})
	if action.AcceptAndDrop && usual.code < 400 && usual.then != nil {
		usual.then()
	}
	if action.Drop || action.AcceptAndDrop {
		return errEnd
	}
	if action.Code != 0 {
		usual.code, usual.text = action.Code, action.Text
	}
	if usual.code < 400 && usual.then != nil {
		usual.then()
	}
	err := c.write(usual.code, usual.text)
	// 421 is the only reply that closes the channel (RFC 5321 3.8).
	if usual.code == 421 || stage == "connect" && usual.code >= 400 {
		return errors.Join(err, errEnd)
	}
	return err
}

func (c *session) write(code int, text string) error {
	lines := strings.Split(text, "\n")
	var out strings.Builder
	for i, line := range lines {
		mark := "-"
		if i == len(lines)-1 {
			mark = " "
		}
		fmt.Fprintf(&out, "%d%s%s\r\n", code, mark, line)
	}
	_, err := io.WriteString(c.conn, out.String())
	return err
}

func (c *session) hello(extended bool) reply {
	lines := []string{"smtpsink"}
	if extended {
		lines = append(lines, c.s.opts.Extensions...)
		if c.s.opts.TLS != nil && !c.tls {
			lines = append(lines, "STARTTLS")
		}
		if c.offersAuth() {
			lines = append(lines, "AUTH "+strings.Join(c.s.opts.Auth, " "))
		}
	}
	return reply{code: 250, text: strings.Join(lines, "\n"), then: func() { c.greeted, c.msg = true, nil }}
}

// startTLS goes on with nothing of what was said or sent before (RFC 3207 4.2).
func (c *session) startTLS() error {
	if c.s.opts.TLS == nil || c.tls {
		return c.answer("starttls", "", reply{code: 502, text: "5.5.1 STARTTLS not offered"})
	}
	ready := false
	goAhead := reply{code: 220, text: "2.0.0 go ahead", then: func() { ready = true }}
	if err := c.answer("starttls", "", goAhead); err != nil || !ready {
		return err
	}
	c.use(tls.Server(c.conn, c.s.opts.TLS))
	c.tls, c.greeted, c.user, c.msg = true, false, "", nil
	return nil
}

func (c *session) mail(arg string) error {
	from, params, ok := path(arg, "FROM:")
	msg := &Message{From: from, Params: params, TLS: c.tls, User: c.user, Conn: c.number}
	usual := reply{code: 250, text: "2.1.0 sender ok", then: func() { c.msg = msg }}
	switch {
	case !ok:
		usual = reply{code: 501, text: "5.5.4 MAIL FROM:<address>"}
	case !c.greeted || c.msg != nil:
		usual = reply{code: 503, text: "5.5.1 out of order"}
	case len(c.s.opts.Auth) > 0 && c.user == "":
		usual = reply{code: 530, text: "5.7.0 log in first"}
	default:
		if refusal := c.checkParams(from, params); refusal.code != 0 {
			usual = refusal
		}
	}
	return c.answer("mail", from, usual)
}

func (c *session) rcpt(arg string) error {
	to, params, ok := path(arg, "TO:")
	usual := reply{code: 250, text: "2.1.5 recipient ok", then: func() {
		c.msg.To, c.msg.ToParams = append(c.msg.To, to), append(c.msg.ToParams, params)
	}}
	switch {
	case !ok || to == "":
		usual = reply{code: 501, text: "5.5.4 RCPT TO:<address>"}
	case c.msg == nil:
		usual = reply{code: 503, text: "5.5.1 MAIL first"}
	case !c.notifies(params):
		usual = reply{code: 555, text: "5.5.4 parameter not offered"}
	case !ascii(to) && !slices.Contains(c.msg.Params, "SMTPUTF8"):
		usual = reply{code: 553, text: "5.6.7 the address needs SMTPUTF8"}
	}
	return c.answer("rcpt", to, usual)
}
