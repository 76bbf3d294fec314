package otherrc

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"postrider/internal/inbox"
)

// options are those of a user at a server.
type options struct {
	line                            int
	host, via, protocol, user, pass string
	port                            int
	folders                         []string
	ssl, skip                       bool
	sslproto, sslmode               *string
	fault                           error
	oauth                           int // the line that asks for a login with OAuth2; 0 for none
}

// rc reads a fetchmailrc. The first words of a server hold for all its users.
type rc struct {
	notes    *Notes
	tokens   []token
	at       int
	defaults options
	server   options // what holds for all users of the server
	current  options
	users    bool // current is of a user
	inside   bool // a server or the defaults have begun
	polls    bool // a server has begun
	accounts []Account
}

func fetchmail(src string, notes *Notes) ([]Account, error) {
	list, err := tokens(src, notes)
	if err != nil {
		return nil, err
	}
	r := &rc{notes: notes, tokens: list}
	for r.at < len(r.tokens) {
		if err := r.statement(); err != nil {
			return nil, err
		}
	}
	if r.end(); !r.polls {
		return nil, fmt.Errorf("%s: there is no account; a fetchmailrc names each server after `poll` or `skip`",
			notes.name)
	}
	return r.accounts, nil
}

// next is the next word; empty at the end.
func (r *rc) next() (t token) {
	if r.at < len(r.tokens) {
		t = r.tokens[r.at]
		r.at++
	}
	return t
}

// peek is the next word if it is a keyword or could be one, in its full form.
func (r *rc) peek() string {
	if r.at == len(r.tokens) || r.tokens[r.at].quoted {
		return ""
	}
	return canonical(r.tokens[r.at].text)
}

// argument is the value of the keyword before it.
func (r *rc) argument() token {
	if r.peek() == "=" {
		r.at++
	}
	return r.next()
}

// list are the values of a keyword that takes several: all up to the next keyword.
func (r *rc) list() (out []string) {
	out = append(out, r.argument().text) // the first may look like a keyword
	for r.at < len(r.tokens) && !known(r.peek()) {
		out = append(out, r.next().text)
	}
	return out
}

// statement reads one option.
func (r *rc) statement() error {
	word := r.peek()
	t := r.next()
	key := strings.TrimPrefix(word, "no ")
	switch {
	case !known(word):
		return r.unknown(t)
	case word == "set":
		r.setting(t.line, r.set())
	case word == "poll", word == "skip", word == "defaults":
		r.begin(word, t.line)
	case !r.inside:
		return fmt.Errorf("%s: %s stands before the first `poll`, so this is not a fetchmailrc",
			r.notes.at(t.line), word)
	case word == "user":
		r.user(t.line)
	case word == "is", word == "to":
		r.localNames(t.line)
	case !r.take(key):
		r.differs(word, key, t.line)
	}
	return nil
}

// unknown skips what is not understood. It may be part of a password, so nothing of it is shown.
func (r *rc) unknown(t token) error {
	if !r.inside {
		return fmt.Errorf("%s: the file does not begin with `poll`, `skip`, `defaults` or `set`, "+
			"so this is not a fetchmailrc", r.notes.at(t.line))
	}
	for r.at < len(r.tokens) && !known(r.peek()) {
		r.at++
	}
	r.notes.add(t.line, "a part of this line is not understood; put a password with special characters in quotes")
	return nil
}

// set reads a global option, and returns its name.
func (r *rc) set() string {
	name := r.next().text
	if name == "no" {
		name = r.next().text
	}
	for r.at < len(r.tokens) && !slices.Contains([]string{"poll", "skip", "defaults", "set"}, r.peek()) {
		r.at++
	}
	return strings.TrimPrefix(name, "no")
}

func (r *rc) setting(line int, name string) {
	why := "it is for fetchmail as a whole"
	if name == "daemon" {
		why = "use `postrider watch`, cron or a timer"
	}
	r.notes.add(line, "set %s is ignored: %s", name, why)
}

// begin ends the server before, and begins the next one or the defaults.
func (r *rc) begin(word string, line int) {
	r.end()
	r.inside, r.users = true, false
	if word == "defaults" {
		r.server = options{}
	} else {
		r.polls = true
		r.server = r.defaults
		r.server.folders = nil // see record
		r.server.host, r.server.skip = r.argument().text, word == "skip"
	}
	r.server.line = line
	r.current = r.server
}

// end records what was read of the last user, or the defaults.
func (r *rc) end() {
	switch {
	case !r.inside:
	case r.current.host == "":
		r.defaults = r.current
	default:
		r.record(r.current)
	}
}

// user begins the next user: USER, USER there, or LOCAL... here.
func (r *rc) user(line int) {
	name := r.argument().text
	if r.users {
		r.end()
		r.current = r.server
		r.current.folders = slices.Clip(r.server.folders) // each user adds to a copy
	} else {
		r.server = r.current
	}
	r.users, r.current.line = true, line
	mark := r.at
	for r.at < len(r.tokens) && !known(r.peek()) { // more local names
		r.at++
	}
	if r.peek() == "here" {
		r.at++
		return
	}
	r.at = mark
	if r.peek() == "there" {
		r.at++
	}
	r.current.user = name
}

// localNames reads who gets the mail: LOCAL... here, or USER there.
func (r *rc) localNames(line int) {
	names := r.list()
	switch r.peek() {
	case "there":
		r.current.user = names[0]
		r.at++
		return
	case "here":
		r.at++
	}
	if len(names) > 1 || names[0] == "*" {
		r.notes.add(line, "multidrop: fetchmail sorts by the recipient in a header field; "+
			"postrider forwards by its routes, which can match that field")
		return
	}
	r.notes.add(line, "local users are ignored: the routes of the configuration say where mail goes")
}

// record makes an account of what was read.
func (r *rc) record(o options) {
	if p := strings.ToLower(o.protocol); p != "imap" && p != "auto" && p != "" {
		r.notes.add(o.line, "the protocol is %s; postrider reads IMAP only, so this account is ignored", o.protocol)
		return
	} else if p != "imap" {
		r.notes.add(o.line, "the protocol is not given; it is taken as IMAP")
	}
	host := o.host
	if o.via != "" {
		host = o.via
	}
	if len(o.folders) == 0 { // own ones do not add to those of the defaults
		o.folders = r.defaults.folders
	}
	a := Account{
		Where: r.notes.at(o.line), Host: host, Port: o.port, Security: r.security(o, host), Username: o.user,
		Folders: o.folders, Skipped: o.skip,
	}
	if o.oauth > 0 { // its password is a token
		a.OAuth, a.Fault = fmt.Sprintf("auth in line %d", o.oauth), o.fault
		r.accounts = append(r.accounts, a)
		return
	}
	password, err := literal(o.pass)
	a.Password, a.Fault = password, errors.Join(o.fault, err)
	if o.pass == "" {
		a.Fault = errors.Join(a.Fault, fmt.Errorf("there is no password for the user %q of %s; "+
			"fetchmail asks for it, or takes it from .netrc; add `password` to the file", o.user, host))
	}
	if o.skip {
		r.notes.add(o.line, "skip: the inbox is added, but not active")
	}
	r.accounts = append(r.accounts, a)
}

func (r *rc) security(o options, host string) inbox.Security {
	mode := ""
	if o.sslmode != nil {
		mode = strings.ToLower(*o.sslmode)
	}
	switch {
	case o.ssl || mode == "wrapped":
		return inbox.TLS
	case mode == "none", mode == "" && o.sslproto != nil && *o.sslproto == "":
		return r.notes.unencrypted(o.line, "fetchmail", host)
	}
	r.notes.add(o.line, "without ssl, fetchmail uses STARTTLS if the server offers it; postrider requires STARTTLS")
	return inbox.STARTTLS
}

func (o *options) setPort(t token) {
	port, err := strconv.Atoi(t.text)
	switch {
	case t.text == "imap":
		port = 143
	case t.text == "imaps":
		port = 993
	case err != nil || port < 1 || port > 65535:
		o.fault = fmt.Errorf("the port in line %d is not a number from 1 to 65535", t.line)
		return
	}
	o.port = port
}
