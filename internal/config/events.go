package config

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/outbox"
	"postrider/internal/outbox/plan"
	"postrider/internal/outbox/sink"
	"postrider/internal/route"
	"postrider/internal/secret"
	"postrider/internal/text"
)

// Events is a destination of events, and what it gets.
type Events struct {
	URL   secret.String `yaml:"url"` // it may have a password
	On    []outbox.Kind `yaml:"on"`
	Inbox []string      `yaml:"inbox"` // addresses, also with * and ?
	Label []string      `yaml:"label"` // name=value, or a name; an inbox has all of them
	Route []string      `yaml:"route"` // names

	Include []string `yaml:"include"` // headers: what an event of a message has besides

	Secrets       []secret.String `yaml:"secrets"`        // of a webhook, that sign
	AllowInternal bool            `yaml:"allow_internal"` // of a webhook
	CAFile        string          `yaml:"ca_file"`        // besides the system's
	Proxy         secret.String   `yaml:"proxy"`          // of a webhook

	Batch   int           `yaml:"batch"`
	Timeout time.Duration `yaml:"timeout"`
	GiveUp  time.Duration `yaml:"give_up_after"`

	roots *x509.CertPool `yaml:"-"` // with CAFile; nil: the system's
}

// What is used where a destination says nothing.
const (
	eventsBatch   = 256
	eventsTimeout = 30 * time.Second
	eventsGiveUp  = 96 * time.Hour
)

// EventKinds are the values of events.NAME.on.
var EventKinds = append([]outbox.Kind{
	outbox.Registered, outbox.Forwarded, outbox.SkippedNoMatch, outbox.Skipped,
	outbox.Dead, outbox.Uncertain, outbox.Bounced,
}, ofInboxes...)

// ofInboxes are the kinds that have no message, and so no route.
var ofInboxes = []outbox.Kind{outbox.InboxUnreachable, outbox.InboxOK, outbox.NeedsLogin}

const includeHeaders = "headers"

// EventRules are the rules of all destinations, by name.
func (c *Config) EventRules() []plan.Rule {
	var rules []plan.Rule
	for _, name := range slices.Sorted(maps.Keys(c.Events)) {
		e := c.Events[name]
		rules = append(rules, plan.Rule{
			Destination: name, On: e.On, Inboxes: inbox.Selection{Inboxes: e.Inbox, Labels: e.Label}, Routes: e.Route,
			Headers: slices.Contains(e.Include, includeHeaders),
		})
	}
	return rules
}

var eventsName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

func (r *reader) events(c *Config) {
	for _, name := range slices.Sorted(maps.Keys(c.Events)) {
		e := c.Events[name]
		r.destination(name, &e, c)
		c.Events[name] = e
	}
}

// destination checks one destination, and fills in what it does not say.
func (r *reader) destination(name string, e *Events, c *Config) {
	at := "events." + name
	switch {
	case name == outbox.Server:
		r.refuse(at, "is reserved for actions on the IMAP servers; choose another name")
	case !eventsName.MatchString(name):
		r.refuse(at, "is not a valid name; use up to 64 lower-case letters, digits, - and _")
	}
	if e.URL == "" && !r.hasError(at+".url") {
		r.refuse(at+".url", "is missing; say where events go, "+
			"such as https://crm.example.com/hook or nats://bus.example.com/SUBJECT")
	}
	if len(e.On) == 0 && !r.hasErrorWithin(at+".on") {
		r.refuse(at+".on", "is missing; say what it gets: %s", strings.Join(text.Strings(EventKinds), ", "))
	}
	for i, kind := range e.On {
		oneOf(r, fmt.Sprintf("%s.on[%d]", at, i), kind, EventKinds...)
	}
	for i, what := range e.Include {
		oneOf(r, fmt.Sprintf("%s.include[%d]", at, i), what, includeHeaders)
	}
	for i, name := range e.Label {
		if !label.MatchString(name) {
			r.refuse(fmt.Sprintf("%s.label[%d]", at, i),
				"%q is not a label; write it like tenant=acme, or tenant for any value", name)
		}
	}
	r.eventRoutes(at, *e, c)
	r.effects(at, *e)
	e.CAFile = relativeTo(r.path, e.CAFile)
	e.roots = r.certificates(at+".ca_file", e.CAFile)
	r.proxy(at+".proxy", string(e.Proxy))
	orDefault(r, at+".batch", &e.Batch, eventsBatch, 1, 1000)
	orDefault(r, at+".timeout", &e.Timeout, eventsTimeout, time.Second, time.Hour)
	orDefault(r, at+".give_up_after", &e.GiveUp, eventsGiveUp, time.Second, 365*24*time.Hour)
	opensWith := regexp.MustCompile(`^` + regexp.QuoteMeta(at) + `\.(url|secrets|allow_internal|proxy)\b`)
	hasError := slices.ContainsFunc(r.errs.All, func(e Error) bool { return opensWith.MatchString(e.Key) })
	if e.URL != "" && !r.unknown[at] && !hasError {
		if _, err := sink.Open(e.Settings("")); err != nil {
			r.refuse(at, "cannot be used: %v", err)
		}
	}
}

// orDefault sets what is not in the file to its default, and checks the range of what is.
func orDefault[T cmp.Ordered](r *reader, key string, v *T, missing, low, high T) {
	if _, given := r.places[key]; !given {
		*v = missing
	}
	between(r, key, *v, low, high)
}

// effects refuses what has no effect: who sets it expects that it has.
func (r *reader) effects(at string, e Events) {
	ofMessages := func(kind outbox.Kind) bool { return !slices.Contains(ofInboxes, kind) }
	if len(e.Route) > 0 && len(e.On) > 0 && !slices.ContainsFunc(e.On, ofMessages) {
		r.refuse(at+".route", "has no effect, because on has only kinds of inboxes, which have no route; "+
			"remove it, or add other kinds to on")
	}
	scheme, _, _ := strings.Cut(string(e.URL), "://")
	if e.CAFile != "" && slices.Contains([]string{"http", "amqp", "redis", "redis-cluster"}, scheme) {
		r.refuse(at+".ca_file", "has no effect on %s://, which is not encrypted; remove it, or change the url", scheme)
	}
	if scheme == "https" || scheme == "http" || !slices.Contains(sink.Schemes(), scheme) {
		return
	}
	for _, n := range []struct {
		key string
		set bool
	}{{"proxy", e.Proxy != ""}, {"secrets", len(e.Secrets) > 0}, {"allow_internal", e.AllowInternal}} {
		if n.set {
			r.refuse(at+"."+n.key, "is only for webhooks (https://) and has no effect on %s://; remove it", scheme)
		}
	}
}

func (r *reader) eventRoutes(at string, e Events, c *Config) {
	for i, name := range e.Route {
		known := slices.ContainsFunc(c.Routes, func(rule route.Rule) bool { return rule.Name == name })
		if !known && !r.hasErrorWithin("routes") {
			r.refuse(fmt.Sprintf("%s.route[%d]", at, i), "there is no route %q", name)
		}
	}
}

// Settings are what the destination is opened with.
func (e Events) Settings(agent string) sink.Settings {
	return sink.Settings{
		URL: string(e.URL), Timeout: e.Timeout, Agent: agent,
		AllowInternal: e.AllowInternal, Proxy: string(e.Proxy), Secrets: text.Strings(e.Secrets),
		RootCAs: e.roots,
	}
}
