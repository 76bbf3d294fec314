package config

import (
	"strings"
	"testing"
	"time"

	"postrider/internal/outbox"
)

func TestEvents(t *testing.T) {
	t.Setenv("SIGN", "whsec_"+strings.Repeat("QUJD", 10))
	t.Setenv("HOOK", "https://crm.example.com/hook?key=1")
	c := load(t, minimal+`
events:
  crm: {url: env:HOOK, secrets: env:SIGN, on: [forwarded, dead], inbox: "*@firm.example", label: tenant=acme, `+
		`give_up_after: 1h}
  bus: {url: "nats://bus.example.com/mail", on: registered, include: headers, batch: 7, timeout: 5s}
`)
	rules := c.EventRules()
	if len(rules) != 2 || rules[0].Destination != "bus" || rules[1].On[1] != outbox.Dead ||
		rules[1].Inboxes.Labels[0] != "tenant=acme" || !rules[0].Headers || rules[1].Headers {
		t.Errorf("the rules are %+v", rules)
	}
	crm, bus := c.Events["crm"], c.Events["bus"]
	if crm.URL != "https://crm.example.com/hook?key=1" || crm.Batch != 256 || crm.Timeout != 30*time.Second ||
		crm.GiveUp != time.Hour || bus.Batch != 7 || bus.Timeout != 5*time.Second || bus.GiveUp != 96*time.Hour {
		t.Errorf("the destinations are %+v and %+v", crm, bus)
	}
}

func TestEventErrors(t *testing.T) {
	t.Setenv("SIGN", "whsec_"+strings.Repeat("QUJD", 10))
	const webhook = `url: "https://a.example/", on: [dead]`
	const badURL = `: cannot be used: the url of the destination does not begin with one of`
	for _, tt := range []struct{ text, want string }{ // what is in events.crm, and what follows that name
		{`url: "https://a.example/"`, `.on: is missing; say what it gets: registered, forwarded`},
		{`on: [dead]`, `.url: is missing`},
		{`url: "https://a.example/", on: [delivered]`, `.on[0]: "delivered" is not one of`},
		{`url: "ftp://a.example/", on: [dead]`, badURL},
		{`url: "http://a.example/", secrets: env:SIGN, on: [dead]`, `: cannot be used: `},
		{webhook + `, route: [nobody]`, `.route[0]: there is no route "nobody"`},
		{webhook + `, include: [body]`, `.include[0]: "body" is not one of`},
		{webhook + `, batch: 5000`, `.batch: 5000 is out of range; it goes from 1 to 1000`},
		{webhook + `, batch: 0`, `.batch: 0 is out of range; it goes from 1 to 1000`},
		{webhook + `, timeout: -1s`, `.timeout: `},
		{webhook + `, timeout: 1ns`, `.timeout: 1ns is out of range; it goes from 1s to 1h`},
		{webhook + `, timeout: 60000d`, `.timeout: `},
		{webhook + `, give_up_after: 0s`, `.give_up_after: 0s is out of range`},
		{`url: "https://a.example/", on: [inbox_ok], route: [all]`, `.route: has no effect`},
		{webhook + `, label: ["a b"]`, `.label[0]: "a b" is not a label`},
		{webhook + `, secrets: [whsec_short]`, `: cannot be used: the secret of a webhook is not whsec_`},
		{
			`url: "nats://a.example/e", on: [dead], proxy: direct`,
			`.proxy: is only for webhooks (https://)`,
		},
		{
			`url: "amqps://a/?queue=e", on: [dead], secrets: env:SIGN`,
			`.secrets: is only for webhooks (https://)`,
		},
		{
			`url: "rediss://a?stream=e", on: [dead], allow_internal: true`,
			`.allow_internal: is only for webhooks (https://)`,
		},
		{
			`url: "amqp://a/?queue=e", on: [dead], ca_file: nix`,
			`.ca_file: has no effect on amqp://, which is not encrypted`,
		},
		{`url: "geheim@htps://a/", on: [dead], secrets: env:SIGN`, badURL},
		{`url: "https://u:geheim@a.example/x y", on: [dead], ca_file: nix`, `.ca_file: `},
	} {
		got := loadErrors(t, write(t, minimal+"events:\n  crm: {"+tt.text+"}\n"), variables())
		if want := "events.crm" + tt.want; !strings.Contains(got, want) || strings.Contains(got, "geheim") {
			t.Errorf("%s: the errors are %s; want %q, and no password", tt.text, got, want)
		}
	}
}

func TestSeveralEventErrors(t *testing.T) {
	t.Setenv("SIGN", "whsec_"+strings.Repeat("QUJD", 10))
	errorsWith := func(events string) string {
		t.Helper()
		return loadErrors(t, write(t, minimal+events), variables())
	}
	got := errorsWith(`events: {crm: {url: "http://x.example", secrets: env:SIGN, on: [dead], route: nobody}}`)
	if !strings.Contains(got, "events.crm.route[0]: there is no route") ||
		!strings.Contains(got, "events.crm: cannot be used: ") {
		t.Errorf("the errors are %s, want the one of the url, too", got)
	}
	got = errorsWith(`events: {crm: {url: "https://x.example", secrets: [env:MISSING], on: [dead], route: nobody}}`)
	if !strings.Contains(got, "events.crm.secrets[0]: ") || strings.Contains(got, "cannot be used") {
		t.Errorf("the errors are %s, want the one of the secret once", got)
	}
	got = errorsWith(`events: {crm: {url: "https://x.example", secret: env:SIGN, on: [dead]}}`)
	if !strings.Contains(got, "events.crm.secret: unknown key") || strings.Contains(got, "cannot be used") {
		t.Errorf("the errors are %s, want the one of the misspelt key alone", got)
	}
	got = errorsWith("events:\n" +
		"  imap: {url: 'https://a.example/', on: [dead]}\n" +
		"  Ä: {url: 'https://a.example/', on: [dead]}\n")
	if !strings.Contains(got, "events.imap: is reserved for actions on the IMAP servers") ||
		!strings.Contains(got, "events.Ä: is not a valid name") {
		t.Errorf("the errors are %s", got)
	}
}
