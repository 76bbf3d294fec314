package config

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"postrider/internal/address"
	"postrider/internal/certs"
	"postrider/internal/db"
	"postrider/internal/route"
	"postrider/internal/secret"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

// finish fills in what depends on other keys, and checks what a single value cannot show.
func (r *reader) finish(c *Config) {
	for _, p := range []*string{
		&c.Database.Path, &c.Secrets.KeyFile, &c.IMAP.CAFile, &c.SMTP.CAFile, &c.SMTP.ClientCert,
		&c.DKIM.KeyFile, &c.ARC.KeyFile, &c.Metrics.TextFile,
	} {
		*p = relativeTo(r.path, *p)
	}
	if c.Secrets.KeyFile == "" {
		r.refuse("secrets.key_file", "is empty; name the file for the key that encrypts passwords")
	}
	r.filesIn(&c.Secrets)
	r.smtp(&c.SMTP)
	r.oauth(c)
	r.forward(&c.Forward)
	r.srs(&c.SRS, c.Forward)
	r.bounces(c)
	r.composing(c)
	if c.DKIM != (DKIM{}) {
		c.Key = r.key("dkim", c.DKIM, "postrider2026")
	}
	c.Sealer = r.arc(c.ARC)
	r.dns(&c.DNS)
	r.numbers(c)
	r.limits(c.SMTP.Limits)
	r.alerts("alerts", c.Alerts, c.Retention)
	r.alertLabels(c.Alerts.Labels, c.Retention)
	r.database(&c.Database)
	r.proxy("imap.proxy", string(c.IMAP.Proxy))
	r.proxy("smtp.proxy", string(c.SMTP.Proxy))
	c.IMAP.Roots = r.certificates("imap.ca_file", c.IMAP.CAFile)
	oneOf(r, "dedupe", c.Dedupe, tasks.DedupeInbox, tasks.DedupeAll, tasks.DedupeOff)
	r.inherit(c)
	c.Table = r.routes(c.Routes)
	r.note(c.Forward.Note, c.Table)
	r.after(c)
	r.notify(c)
	r.web(&c.Web)
	r.events(c)
	r.metrics(c.Metrics)
}

// filesIn are the directories in which an inbox may have its password in a file.
func (r *reader) filesIn(s *Secrets) {
	all := []string{filepath.Dir(r.path)}
	for i, dir := range s.FilesIn {
		if dir == "" {
			r.refuse(fmt.Sprintf("secrets.files_in[%d]", i), "is empty; name a directory")
		}
		all = append(all, relativeTo(r.path, dir))
	}
	s.FilesIn = all
}

func (r *reader) database(d *Database) {
	if d.Driver == "mariadb" {
		d.Driver = "mysql"
	}
	oneOf(r, "database.driver", d.Driver, "sqlite", "mysql", "mariadb")
	if d.Driver == "mysql" && d.DSN == "" {
		r.refuse("database.dsn", "is missing, and the driver mysql needs it; write for example "+
			"env:POSTRIDER_DSN, which holds user:password@tcp(host:3306)/postrider")
	} else if d.Driver == "mysql" {
		if err := db.CheckDSN(string(d.DSN)); err != nil {
			r.refuse("database.dsn", "%s", strings.TrimPrefix(err.Error(), "database.dsn "))
		}
	}
	if d.Driver == "mysql" && !slices.Contains([]string{"", "none", "require", "verify"}, d.TLS) {
		d.TLS = relativeTo(r.path, d.TLS)
		if _, err := os.Stat(d.TLS); err != nil {
			r.refuse("database.tls", "is not none, require or verify, and cannot be read as a file: %v", err)
		}
		d.Roots = x509.NewCertPool()
		if err := certs.Add(d.Roots, d.TLS); err != nil {
			r.refuse("database.tls", "%s", text.Error(err))
		}
	}
	if d.Driver == "sqlite" && d.Path == "" {
		r.refuse("database.path", "is empty; name the file for the database")
	}
}

func (r *reader) smtp(s *SMTP) {
	ports := map[string]int{"tls": 465, "starttls": 587, "none": 25}
	oneOf(r, "smtp.security", s.Security, "tls", "starttls", "none")
	if _, given := r.places["smtp.port"]; !given {
		s.Port = cmp.Or(ports[s.Security], 1) // one error is enough for an unknown security
	}
	if s.Host == "" {
		r.refuse("smtp.host", "is missing; name the relay that forwarded mail is handed to")
	}
	r.hostName("smtp.host", &s.Host)
	r.hostName("smtp.local_name", &s.LocalName)
	// A key that looks missing may be misspelt or invalid, which has its own error.
	if s.Auth != "oauth" && (s.Username == "") != (s.Password == "") &&
		!r.hasError("smtp.password") && !r.unknown["smtp"] {
		r.refuse("smtp.username", "and smtp.password go together; give both, or none for a relay without login")
	}
	if err := secret.OneLine(string(s.Password)); err != nil {
		r.refuse("smtp.password", "%v", err)
	}
	if s.Security == "none" && s.Username != "" && !s.AllowPlaintext &&
		!r.hasError("smtp.host") && !address.IsLoopback(s.Host) {
		r.refuse("smtp.security", "none would send the password unencrypted; "+
			"use tls or starttls, or accept it with smtp.allow_plaintext: true")
	}
	s.Roots = r.certificates("smtp.ca_file", s.CAFile)
	r.identity(s)
}

// identity checks how the relay and postrider prove to each other who they are.
func (r *reader) identity(s *SMTP) {
	print, err := certs.ParseFingerprint(s.TLSFingerprint)
	if err != nil {
		r.refuse("smtp.tls_fingerprint", "%v", err)
	}
	s.TLSFingerprint = string(print)
	if s.Identity, err = certs.Client(s.ClientCert); err != nil {
		r.refuse("smtp.client_cert", "cannot be used: %s", text.Error(err))
	}
	if s.Security == "none" && (s.TLSFingerprint != "" || s.ClientCert != "") {
		r.refuse("smtp.security", "none has no certificates, which smtp.tls_fingerprint and smtp.client_cert need; "+
			"use tls or starttls, or remove them")
	}
}

// proxy checks only the form. The value may contain a password and is not repeated.
func (r *reader) proxy(key, value string) {
	if value == "" || value == "direct" {
		return
	}
	u, err := url.Parse(value)
	// Text after the host is mostly the rest of a password with an unescaped /, ? or #.
	if err != nil || u.Host == "" || strings.TrimPrefix(u.Path, "/")+u.RawQuery+u.Fragment != "" ||
		!slices.Contains([]string{"socks5", "socks5h", "http", "https"}, u.Scheme) {
		r.refuse(key, "is not the URL of a proxy; write direct, or a URL such as socks5://host:1080 or "+
			"http://user:password@host:3128, with / ? # in a password as %%2F %%3F %%23")
	}
}

// hostName checks a name, and makes it the one that DNS has.
func (r *reader) hostName(key string, host *string) {
	_, _, noPort := net.SplitHostPort(*host)
	ascii, err := address.ToASCII(*host)
	if strings.ContainsAny(*host, "/@ \t\r\n") || noPort == nil || err != nil {
		port := ""
		if key == "smtp.host" && noPort == nil {
			port = ", and the port in smtp.port"
		}
		r.refuse(key, "%s is not a host; give a name or address%s", unlessSecret(*host), port)
	}
	*host = ascii
}

// unlessSecret is a value in quotes for an error. It leaves out one with an @, which may be a URL
// with a password.
func unlessSecret(value string) string {
	if strings.Contains(value, "@") {
		return "the value"
	}
	return strconv.Quote(value)
}

// certificates are those of the system and of a file; nil without a file.
func (r *reader) certificates(key, path string) *x509.CertPool {
	roots, err := certs.Roots(nil, path)
	if err != nil {
		r.refuse(key, "%s", text.Error(err))
	}
	return roots
}

func (r *reader) forward(f *Forward) {
	oneOf(r, "forward.mode", f.Mode, route.Auto, route.Redirect, route.Rewrite, route.Attach)
	oneOf(r, "forward.fallback", f.Fallback, route.FallbackNone, route.FallbackAttach)
	oneOf(r, "forward.uncertain", f.Uncertain, route.Retry, route.Hold)
	oneOf(r, "forward.too_large", f.TooLarge, "skip", "notice")
	oneOf(r, "forward.automated", f.Automated, route.ForwardAutomated, route.SkipAutomated)
	oneOf(r, "forward.own_address", f.OwnAddress, route.SkipOwnAddress, route.ForwardOwnAddress)
	if f.From == "" && slices.Contains([]string{"", "keep", "srs"}, f.EnvelopeFrom) {
		r.refuse("forward.from", "is missing; write the address that mail is forwarded from, "+
			`such as "Forwarder <forwarder@example.com>"`)
	}
	if f.From != "" {
		_, from, err := address.ParseNamed(f.From)
		if err == nil {
			err = address.Check(from.Text)
		}
		if err != nil {
			r.refuse("forward.from", "%s", err)
		}
		f.EnvelopeFrom = cmp.Or(f.EnvelopeFrom, from.Text)
	}
	if slices.Contains([]string{"", "keep", "srs"}, f.EnvelopeFrom) {
		return
	}
	if err := address.Check(f.EnvelopeFrom); err != nil {
		r.refuse("forward.envelope_from", "%s; or use srs or keep", err)
	}
}

func (r *reader) dns(d *DNS) {
	if d.Server == "" {
		return
	}
	server, err := netip.ParseAddrPort(d.Server)
	if err != nil {
		var ip netip.Addr
		ip, err = netip.ParseAddr(d.Server)
		server = netip.AddrPortFrom(ip, 53)
	}
	if err != nil || server.Port() == 0 {
		r.refuse("dns.server", "%q is not a server; write its IP address, and its port if that is not 53, "+
			"such as 192.0.2.53 or [2001:db8::53]:5353", d.Server)
		return
	}
	d.Server = server.String()
}

func (r *reader) numbers(c *Config) {
	const day = 24 * time.Hour
	between(r, "imap.idle_timeout", c.IMAP.IdleTimeout, time.Second, time.Hour)
	between(r, "imap.dial_timeout", c.IMAP.DialTimeout, time.Second, time.Hour)
	between(r, "concurrency.inboxes", c.Concurrency.Inboxes, 1, 1000)
	between(r, "concurrency.per_host", c.Concurrency.PerHost, 1, 1000)
	between(r, "concurrency.page", c.Concurrency.Page, 1, 10_000)
	between(r, "concurrency.lease", c.Concurrency.Lease, time.Second, 24*time.Hour)
	between(r, "watch.poll", c.Watch.Poll, time.Second, time.Hour)
	between(r, "watch.idle", c.Watch.Idle, time.Second, 29*time.Minute) // RFC 2177
	between(r, "smtp.port", c.SMTP.Port, 1, 65535)
	between(r, "smtp.connections", c.SMTP.Connections, 1, 100)
	between(r, "forward.max_size", c.Forward.MaxSize, 1<<10, 4<<30)
	between(r, "forward.max_received", c.Forward.MaxReceived, 1, 1000)
	between(r, "srs.max_age", c.SRS.MaxAge, day, 1000*day)
	between(r, "bounces.max_age", c.Bounces.MaxAge, day, 1000*day)
	between(r, "bounces.suspend_after", c.Bounces.SuspendAfter, 1, 1000)
	between(r, "bounces.suspend_within", c.Bounces.SuspendWithin, time.Hour, 365*day)
	between(r, "report.remind", c.Report.Remind, time.Minute, 30*day)
	between(r, "retry.max_attempts", c.Retry.MaxAttempts, 1, 1_000_000)
	between(r, "retry.give_up_after", c.Retry.GiveUpAfter, time.Second, 365*day)
	between(r, "retry.base", c.Retry.Base, time.Millisecond, day)
	between(r, "retry.max", c.Retry.Max, time.Millisecond, 7*day)
	between(r, "retry.max_lost_leases", c.Retry.MaxLostLeases, 1, 1000)
	if c.Retry.Max < c.Retry.Base && !r.hasError("retry.base") {
		r.refuse("retry.max", "is below retry.base (%s); the pause grows from base to max", number(c.Retry.Base))
	}
	if host := c.Concurrency.Host; len(host) > 100 || !hostInLeases.MatchString(host) {
		r.refuse("concurrency.host", "%q names no host; write up to 100 letters, digits, dots, dashes or underscores",
			host)
	}
}

// hostInLeases matches the name of a host in leases, where a colon ends it.
var hostInLeases = regexp.MustCompile(`^[\pL\p{Nd}._-]*$`)

func (r *reader) limits(l Limits) {
	positive(r, "smtp.limits.per_minute", l.PerMinute)
	positive(r, "smtp.limits.per_hour", l.PerHour)
	positive(r, "smtp.limits.per_day", l.PerDay)
	positive(r, "smtp.limits.per_connection", l.PerConnection)
}

func positive(r *reader, key string, limit *int) {
	if limit != nil && *limit < 1 {
		r.refuse(key, "%d would let nothing through; write 1 or more; without the key there is no limit", *limit)
	}
}

func notNegative[T int | time.Duration](r *reader, key string, v *T) {
	if v != nil && *v < 0 {
		r.refuse(key, "%s is negative; write 0 or more; without the key there is no alert", number(*v))
	}
}

func between[T cmp.Ordered](r *reader, key string, v, low, high T) {
	if v < low || v > high {
		r.refuse(key, "%s is out of range; it goes from %s to %s", number(v), number(low), number(high))
	}
}

// number is a number as it is written in the file.
func number(v any) string {
	if d, ok := v.(time.Duration); ok {
		return text.Duration(d)
	}
	return fmt.Sprint(v)
}

func oneOf[T ~string](r *reader, key string, v T, allowed ...T) {
	if !slices.Contains(allowed, v) {
		r.refuse(key, "%q is not one of %s", v, strings.Join(text.Strings(allowed), ", "))
	}
}

// refuse adds an error about a key, unless the key or its section already has one: then its value
// is only a default.
func (r *reader) refuse(key, format string, args ...any) {
	for k := key; k != ""; k = parent(k) {
		if r.hasError(k) {
			return
		}
	}
	if !r.hasError("") {
		r.fail(key, format, args...)
	}
}

// hasError reports whether a key has an error.
func (r *reader) hasError(key string) bool {
	return slices.ContainsFunc(r.errs.All, func(e Error) bool { return e.Key == key })
}

// hasKeyWithin reports whether a key in a section is given, also without effect.
func (r *reader) hasKeyWithin(key string) bool {
	for k := range r.places {
		if strings.HasPrefix(k, key+".") {
			return true
		}
	}
	return false
}

// hasErrorWithin reports whether a key in a section has an error: the section may look empty
// because of it.
func (r *reader) hasErrorWithin(key string) bool {
	return slices.ContainsFunc(r.errs.All, func(e Error) bool { return strings.HasPrefix(e.Key, key+".") })
}

// routes returns the table of the rules; nil if they have errors.
func (r *reader) routes(rules []route.Rule) *route.Table {
	if len(rules) == 0 {
		r.refuse("routes", "is missing; without a route nothing is ever forwarded")
	}
	for i, rule := range rules {
		key := fmt.Sprintf("routes[%d].match", i)
		if _, ok := r.places[key]; !ok {
			r.refuse(key, "is missing; for a route that takes every message write match: {}")
		}
		rule.Match.TimeZone = "" // no condition
		if reflect.ValueOf(rule.Match).IsZero() && r.hasKeyWithin(key) && !r.hasErrorWithin(key) {
			r.refuse(key, "has no conditions, and would match everything; give one, or write match: {}")
		}
	}
	var errs route.Errors
	table, err := route.Compile(rules)
	errors.As(err, &errs)
	for _, f := range errs {
		key := fmt.Sprintf("routes[%d].%s", f.Index, f.Key)
		if p, ok := r.places[key]; ok && f.Char > 0 {
			r.places[key] = p.at(r.src, f.Char)
		}
		if !r.hasErrorWithin(key) {
			r.refuse(key, "%s", f.Problem)
		}
	}
	return table
}
