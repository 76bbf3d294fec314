package forward

import (
	"crypto"
	"strings"
	"testing"

	msgauth "github.com/emersion/go-msgauth/dkim"
)

// sender makes messages as authors send them, and the DNS records that go with them.
type sender struct {
	t       *testing.T
	zone    zone
	second  map[string]string // the second TXT records of names
	keys    map[string]crypto.Signer
	records zone // of the keys
}

func newSender(t *testing.T) *sender {
	t.Helper()
	a := &sender{t: t, zone: zone{}, second: map[string]string{}, records: zone{}}
	a.keys = keys(t, a.records)
	return a
}

// publish gives a domain its keys, and an SPF record that names other servers than our relay.
func (a *sender) publish(domain string) {
	for kind := range a.keys {
		a.zone[kind+"._domainkey."+domain] = a.records[kind+"._domainkey.client.example"]
	}
	a.zone[domain] = "v=spf1 ip4:192.0.2.77 -all"
}

// usual are the fields that most signatures cover.
const usual = "From:To:Subject:Date:Message-ID:MIME-Version:Content-Type"

// sign puts a signature of a domain on top. The options are changed by the given functions.
func (a *sender) sign(raw, domain string, change ...func(*msgauth.SignOptions)) string {
	a.t.Helper()
	o := &msgauth.SignOptions{
		Domain: domain, Selector: "rsa", HeaderKeys: strings.Split(usual, ":"),
		HeaderCanonicalization: msgauth.CanonicalizationRelaxed, BodyCanonicalization: msgauth.CanonicalizationRelaxed,
	}
	for _, f := range change {
		f(o)
	}
	if o.Signer == nil {
		o.Signer = a.keys[o.Selector]
	}
	var b strings.Builder
	if err := msgauth.Sign(&b, strings.NewReader(raw), o); err != nil {
		a.t.Fatal(err)
	}
	return b.String()
}

func withEd25519(o *msgauth.SignOptions) { o.Selector = "ed25519" }

func over(names string) func(*msgauth.SignOptions) {
	return func(o *msgauth.SignOptions) { o.HeaderKeys = strings.Split(names, ":") }
}

// from is a message with that From field.
func from(value string) string {
	return "From: " + value + "\r\nTo: office@firm.example\r\nSubject: the hearing on Monday\r\n" +
		"Date: Fri, 20 Nov 2026 10:00:00 +0000\r\nMessage-ID: <1@author.example>\r\nMIME-Version: 1.0\r\n" +
		"Content-Type: text/plain; charset=us-ascii\r\n\r\nDear colleagues,\r\n\r\nthe hearing is at ten.\r\n"
}

func ofAlice(domain string) string { return from("Alice Example <alice@" + domain + ">") }

// byList is what a mailing list makes of a message: its own signature, and with marks, a tag in the
// Subject and a footer.
func (a *sender) byList(raw string, marks bool) string {
	if marks {
		raw = strings.Replace(raw, "Subject: ", "Subject: [court] ", 1) +
			"-- \r\nTo leave this list, write to leave@list.example\r\n"
	}
	return a.sign("List-Id: <court.list.example>\r\n"+raw, "list.example", over(usual+":List-Id"))
}

// setups are how authors send, by what the table calls it.
var setups = []struct {
	name string
	made func(a *sender, domain string) string
}{
	{"a signature of the domain", func(a *sender, d string) string { return a.sign(ofAlice(d), d) }},
	{"a signature of a subdomain", func(a *sender, d string) string { return a.sign(ofAlice(d), "mail."+d) }},
	{"a signature of a mail service", func(a *sender, d string) string {
		return a.sign(ofAlice(d), "service.example")
	}},
	{"SPF, no signature", func(_ *sender, d string) string { return ofAlice(d) }},
	{"neither SPF nor a signature", func(a *sender, d string) string {
		delete(a.zone, d)
		return ofAlice(d)
	}},
	{"a mailing list that adds a footer", func(a *sender, d string) string {
		return a.byList(a.sign(ofAlice(d), d), true)
	}},
	{"a mailing list that changes nothing", func(a *sender, d string) string {
		return a.byList(a.sign(ofAlice(d), d), false)
	}},
	{"a broken signature", func(a *sender, d string) string {
		return strings.Replace(a.sign(ofAlice(d), d), "at ten", "at two", 1)
	}},
	{"Ed25519 only", func(a *sender, d string) string { return a.sign(ofAlice(d), d, withEd25519) }},
	{"Ed25519 and RSA", func(a *sender, d string) string { return a.sign(a.sign(ofAlice(d), d), d, withEd25519) }},
	{"signatures of a service and of the domain", func(a *sender, d string) string {
		return a.sign(a.sign(ofAlice(d), d), "service.example")
	}},
	{"over-signed", func(a *sender, d string) string {
		return a.sign(ofAlice(d), d, over(usual+":"+usual+":Sender:Reply-To:Cc"))
	}},
}

// policies are those that matter, by what the table calls them.
var policies = []struct{ name, record string }{
	{"no policy", ""},
	{"none", "v=DMARC1; p=none"},
	{"quarantine", "v=DMARC1; p=quarantine"},
	{"reject", "v=DMARC1; p=reject"},
	{"reject, strict", "v=DMARC1; p=reject; adkim=s; aspf=s"},
}
