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
  crm: {url: env:HOOK, secrets: env:SIGN, on: [forwarded, dead], inbox: "*@firm.example", label: tenant=acme, give_up_after: 1h}
  bus: {url: "nats://bus.example.com/mail", on: registered, include: headers, batch: 7, timeout: 5s}
`)
	rules := c.EventRules()
	if len(rules) != 2 || rules[0].Destination != "bus" || rules[1].On[1] != outbox.Dead || rules[1].Inboxes.Labels[0] != "tenant=acme" ||
		!rules[0].Headers || rules[1].Headers {
		t.Errorf("the rules are %+v", rules)
	}
	crm, bus := c.Events["crm"], c.Events["bus"]
	if crm.URL != "https://crm.example.com/hook?key=1" || crm.Batch != 256 || crm.Timeout != 30*time.Second || crm.GiveUp != time.Hour ||
		bus.Batch != 7 || bus.Timeout != 5*time.Second || bus.GiveUp != 96*time.Hour {
		t.Errorf("the destinations are %+v and %+v", crm, bus)
	}
}

func TestEventErrors(t *testing.T) {
	t.Setenv("SIGN", "whsec_"+strings.Repeat("QUJD", 10))
	for text, want := range map[string]string{
		`{url: "https://a.example/"}`:                                       `events.crm.on: is missing; say what it gets: registered, forwarded`,
		`{on: [dead]}`:                                                      `events.crm.url: is missing`,
		`{url: "https://a.example/", on: [delivered]}`:                      `events.crm.on[0]: "delivered" is not one of`,
		`{url: "ftp://a.example/", on: [dead]}`:                             `events.crm: cannot be used: the url of the destination does not begin with one of`,
		`{url: "http://a.example/", secrets: env:SIGN, on: [dead]}`:         `events.crm: cannot be used: `,
		`{url: "https://a.example/", on: [dead], route: [nobody]}`:          `events.crm.route[0]: there is no route "nobody"`,
		`{url: "https://a.example/", on: [dead], include: [body]}`:          `events.crm.include[0]: "body" is not one of`,
		`{url: "https://a.example/", on: [dead], batch: 5000}`:              `events.crm.batch: 5000 is out of range; it goes from 1 to 1000`,
		`{url: "https://a.example/", on: [dead], batch: 0}`:                 `events.crm.batch: 0 is out of range; it goes from 1 to 1000`,
		`{url: "https://a.example/", on: [dead], timeout: -1s}`:             `events.crm.timeout: `,
		`{url: "https://a.example/", on: [dead], timeout: 1ns}`:             `events.crm.timeout: 1ns is out of range; it goes from 1s to 1h`,
		`{url: "https://a.example/", on: [dead], timeout: 60000d}`:          `events.crm.timeout: `,
		`{url: "https://a.example/", on: [dead], give_up_after: 0s}`:        `events.crm.give_up_after: 0s is out of range`,
		`{url: "https://a.example/", on: [inbox_ok], route: [all]}`:         `events.crm.route: has no effect`,
		`{url: "https://a.example/", on: [dead], label: ["a b"]}`:           `events.crm.label[0]: "a b" is not a label`,
		`{url: "https://a.example/", on: [dead], secrets: [whsec_short]}`:   `events.crm: cannot be used: the secret of a webhook is not whsec_`,
		`{url: "nats://a.example/e", on: [dead], proxy: direct}`:            `events.crm.proxy: is only for webhooks (https://)`,
		`{url: "amqps://a/?queue=e", on: [dead], secrets: env:SIGN}`:        `events.crm.secrets: is only for webhooks (https://)`,
		`{url: "rediss://a?stream=e", on: [dead], allow_internal: true}`:    `events.crm.allow_internal: is only for webhooks (https://)`,
		`{url: "amqp://a/?queue=e", on: [dead], ca_file: nix}`:              `events.crm.ca_file: has no effect on amqp://, which is not encrypted`,
		`{url: "geheim@htps://a/", on: [dead], secrets: env:SIGN}`:          `events.crm: cannot be used: the url of the destination does not begin with one of`,
		`{url: "https://u:geheim@a.example/x y", on: [dead], ca_file: nix}`: `events.crm.ca_file: `,
	} {
		got := loadErrors(t, write(t, minimal+"events:\n  crm: "+text+"\n"), variables())
		if !strings.Contains(got, want) || strings.Contains(got, "geheim") {
			t.Errorf("%s: the errors are %s; want %q, and no password", text, got, want)
		}
	}
	got := loadErrors(t, write(t, minimal+`events: {crm: {url: "http://x.example", secrets: env:SIGN, on: [dead], route: nobody}}`), variables())
	if !strings.Contains(got, "events.crm.route[0]: there is no route") || !strings.Contains(got, "events.crm: cannot be used: ") {
		t.Errorf("the errors are %s, want the one of the url, too", got)
	}
	got = loadErrors(t, write(t, minimal+`events: {crm: {url: "https://x.example", secrets: [env:MISSING], on: [dead], route: nobody}}`), variables())
	if !strings.Contains(got, "events.crm.secrets[0]: ") || strings.Contains(got, "cannot be used") {
		t.Errorf("the errors are %s, want the one of the secret once", got)
	}
	got = loadErrors(t, write(t, minimal+`events: {crm: {url: "https://x.example", secret: env:SIGN, on: [dead]}}`), variables())
	if !strings.Contains(got, "events.crm.secret: unknown key") || strings.Contains(got, "cannot be used") {
		t.Errorf("the errors are %s, want the one of the misspelt key alone", got)
	}
	got = loadErrors(t, write(t, minimal+"events:\n  imap: {url: 'https://a.example/', on: [dead]}\n  Ä: {url: 'https://a.example/', on: [dead]}\n"), variables())
	if !strings.Contains(got, "events.imap: is reserved for actions on the IMAP servers") || !strings.Contains(got, "events.Ä: is not a valid name") {
		t.Errorf("the errors are %s", got)
	}
}
