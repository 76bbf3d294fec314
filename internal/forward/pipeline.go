package forward

import (
	"errors"
	"fmt"
	"slices"
)

// group is the commands of a transaction: MAIL, its RCPTs and DATA. With PIPELINING all of them go
// out in one write, before the first reply is read (RFC 2920 3.1), otherwise each one goes out when
// its reply is wanted.
//
// No reply is read while a group is written. The replies to it, at most 102 and usually of one line
// of at most 512 octets (RFC 5321 4.5.3.1.5), fit into the receive buffer of this host: the relay
// need not wait for us, so it reads on. A relay that writes more, and waits, meets the deadline of
// the write.
type group struct {
	c         *conn
	pipelined bool
	commands  []string // not sent
	sent      int
	answered  int
}

// reply reads the reply to the next command.
func (g *group) reply() (reply, error) {
	if g.answered++; g.answered > g.sent {
		n := 1
		if g.pipelined {
			n = len(g.commands)
		}
		if g.c.ahead() {
			return reply{}, errMore
		}
		now := g.commands[:n]
		g.commands, g.sent = g.commands[n:], g.sent+n
		if err := g.c.say(now...); err != nil {
			return reply{}, err
		}
	}
	return g.c.hear()
}

// skip drops the RCPTs that were not sent.
func (g *group) skip() { g.commands = g.commands[len(g.commands)-1:] }

// complete reports that DATA is answered.
func (g *group) complete() bool { return len(g.commands) == 0 && g.sent == g.answered }

// stage is what the last reply answered.
func (g *group) stage() Stage {
	switch {
	case g.answered <= 1:
		return StageMAIL
	case g.complete():
		return StageDATA
	}
	return StageRCPT
}

// named is how many RCPTs were sent.
func (g *group) named() int {
	if len(g.commands) == 0 {
		return g.sent - 2
	}
	return g.sent - 1
}

// hear reads the next reply of the group. With PIPELINING a reply that does not fit its command is
// an error.
func (t *Transaction) hear() (reply, error) {
	rep, err := t.said.reply()
	switch {
	case err != nil:
		return rep, t.lost(t.said.stage(), err)
	case t.said.pipelined && outOfStep(t.said.stage(), rep):
		return rep, t.mishandled(rep)
	}
	return rep, nil
}

// outOfStep reports whether a reply in a group answers another command, or says that the command
// came too early: 503 is for a command out of sequence (RFC 5321 4.2.4), and ours are in sequence.
func outOfStep(at Stage, rep reply) bool {
	switch {
	case rep.code == 503, (rep.code == 500 || rep.code == 554) && slices.ContainsFunc(tooEarly, rep.says):
		return true
	case at == StageDATA:
		return rep.code < 400 && rep.code != 354
	}
	return rep.code < 400 && !rep.ok()
}

// tooEarly are the words of Postfix and OpenSMTPD, and of Exim, for commands before their time.
var tooEarly = []string{"pipelining", "synchronization error"}

// void ends a group in which the relay accepted no recipient, after the last reply that was read.
// RFC 2920 3.1: each reply has to be read, and DATA may get 354 all the same. Then a lone dot ends
// the content, and nobody gets it. After that, RSET shows that the replies are in step.
func (t *Transaction) void(last reply) (err error) {
	for t.said.pipelined && !t.said.complete() && last.code != 421 {
		last, err = t.said.reply()
		invited := last.code == 354 && t.said.stage() == StageDATA
		if err == nil && invited {
			last, err = t.c.command(".")
		}
		switch {
		case err != nil:
			return t.lost(t.said.stage(), err)
		case last.code < 400 && !invited:
			return t.mishandled(last)
		}
	}
	if last.code == 421 { // RFC 5321 3.8: it closes the connection
		t.c.dead = true
		return nil
	}
	rep, err := t.c.reset()
	switch {
	case !t.said.pipelined || rep.code == 421:
		return nil
	case err != nil:
		return t.lost(t.said.stage(), err)
	case !rep.ok():
		return t.mishandled(rep)
	}
	return nil
}

// mishandled ends a group whose replies do not fit it.
func (t *Transaction) mishandled(rep reply) error {
	err := fmt.Errorf("unexpected reply %d %s", rep.code, rep.line())
	return t.lost(t.said.stage(), &mishandledError{err})
}

// mishandledError says that a relay cannot cope with commands that are sent together.
type mishandledError struct{ error }

var errMore = &mishandledError{errors.New("it sent more replies than there were commands")}
