package testserver

import (
	"os"
	"os/user"
	"strings"
	"testing"

	"github.com/emersion/go-imap/v2/imapclient"

	"postrider/internal/testserver/smtpsink"
)

// Bouncer is a real mail server that takes mail on loopback from anybody, without TLS or a login,
// for any recipient, and offers DSN (RFC 3461). What it accepts it hands to the next hop, and there
// its reports arrive, too: NextHop is one, which refuses what a test wants refused.
//
// To have postrider use it as its relay, give it the Port with `security: none`. To have its
// reports in a bounce inbox, give NextHop a mailbox.
type Bouncer struct {
	Host string // 127.0.0.1
	Port int
	Name string // relay.example, which its reports call Reporting-MTA

	retry func(t testing.TB)
}

// Retry has the server try again what the next hop did not take yet. A server that warns of a delay
// does so now.
func (b *Bouncer) Retry(t testing.TB) {
	t.Helper()
	b.retry(t)
}

const bouncerName = "relay.example"

// BouncerLocal is the domain whose mail a Bouncer delivers itself, and so confirms as delivered.
const BouncerLocal = "local.example"

// BouncerNext is the name of the next hop, except for Postfix, which knows its address only.
const BouncerNext = "mx.other.example"

// BouncingPostfix starts a Postfix as a Bouncer. It needs root.
func BouncingPostfix(t testing.TB, next int) *Bouncer {
	t.Helper()
	s := Postfix(t, PostfixOptions{Next: next, Settings: []string{
		"smtpd_tls_security_level = none", "smtpd_sasl_auth_enable = no",
		"smtpd_relay_restrictions = permit_mynetworks, reject",
		"relay_domains = *", "relay_recipient_maps =",
		"delay_warning_time = 1s", "queue_run_delay = 1s", "minimal_backoff_time = 1s", "maximal_backoff_time = 1s",
		"mynetworks = 127.0.0.0/8", "smtp_destination_concurrency_failed_cohort_limit = 0",
		"virtual_mailbox_domains = " + BouncerLocal,
		"virtual_mailbox_base = $data_directory", "virtual_mailbox_maps = static:local/",
		"virtual_minimum_uid = 1",
		"virtual_uid_maps = static:" + postfixUser(t), "virtual_gid_maps = $virtual_uid_maps",
	}})
	nothing := func(testing.TB) {} // it tries every second
	return &Bouncer{Host: loopback, Port: s.Port, Name: bouncerName, retry: nothing}
}

// postfixUser is the number of the user that owns the data of Postfix.
func postfixUser(t testing.TB) string {
	t.Helper()
	u, err := user.Lookup("postfix")
	if err != nil {
		t.Skip("Postfix is not installed: as root, run scripts/test, or apt-get install postfix")
	}
	return u.Uid
}

// NextHopOptions is what a test wants of a next hop.
type NextHopOptions struct {
	Refuse     func(recipient string) (code int, text string) // what it answers to RCPT; 0: it takes the recipient
	Extensions []string                                       // what it offers, such as DSN

	Inbox *IMAP  // where messages with a null reverse-path are put, too; nil: nowhere
	User  string // whose INBOX it is there
}

// NextHop starts what a Bouncer hands its mail to. It keeps what it takes.
func NextHop(t testing.TB, opts NextHopOptions) *smtpsink.Server {
	t.Helper()
	s, err := smtpsink.Start(smtpsink.Options{KeepData: true, Extensions: opts.Extensions, Reply: opts.reply})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func (o NextHopOptions) reply(e smtpsink.Event) smtpsink.Action {
	switch {
	case e.Stage == "rcpt" && o.Refuse != nil:
		code, text := o.Refuse(e.Arg)
		return smtpsink.Action{Code: code, Text: text}
	case e.Stage == "dot" && e.Message.From == "" && o.Inbox != nil:
		if err := o.Inbox.deliver(o.User, e.Message); err != nil {
			return smtpsink.Action{Code: 451, Text: "4.3.0 " + strings.ReplaceAll(err.Error(), "\n", " ")}
		}
	}
	return smtpsink.Action{}
}

// deliver puts a message into an INBOX, with the fields that a delivering server adds (RFC 5321
// 4.4).
func (s *IMAP) deliver(user string, m *smtpsink.Message) error {
	password, known := s.passwords.Load(user)
	if !known {
		return os.ErrNotExist
	}
	c, err := s.dial(user, password.(string))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	added := "Return-Path: <" + m.From + ">\r\n"
	for _, to := range m.To {
		added += "Delivered-To: " + to + "\r\n"
	}
	return put(c, append([]byte(added), m.Data...))
}

func put(c *imapclient.Client, message []byte) error {
	if _, err := appendAll(c, "INBOX", [][]byte{message}); err != nil {
		return err
	}
	return c.Logout().Wait()
}
