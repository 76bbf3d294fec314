package config

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"postrider/internal/address"
	"postrider/internal/arc"
	"postrider/internal/dkim"
	"postrider/internal/forward"
	"postrider/internal/route"
)

// composing checks what composing a message needs, by the general settings or those of a route.
func (r *reader) composing(c *Config) {
	for _, use := range composes(c) {
		r.senderFor(use, c.Forward.From)
	}
}

// note checks the names in a note. table is nil if the routes have errors.
func (r *reader) note(text string, table *route.Table) {
	if text == "" {
		return
	}
	var captured []string
	if table != nil {
		captured = table.Captures()
	}
	if err := forward.CheckNote(text, captured); err != nil {
		r.refuse("forward.note", "%s", strings.TrimPrefix(err.Error(), "forward.note "))
	}
}

// senderFor checks that forward.from can be the author of something composed, as key asks for.
func (r *reader) senderFor(key, from string) {
	if from == "" {
		r.refuse(key, `needs a sender address; set forward.from, such as "Forwarder <forwarder@example.com>"`)
		return
	}
	if _, a, err := address.ParseNamed(from); err == nil && a.UTF8 { // r.forward reports an error
		r.refuse(key, "needs an address of ASCII letters before the @ in forward.from, not %s: "+
			"not every relay takes another", a.Text)
	}
}

// composes are the keys that have something composed.
func composes(c *Config) []string {
	var uses []string
	add := func(yes bool, key string) {
		if yes {
			uses = append(uses, key)
		}
	}
	f := c.Forward
	add(mayCompose(f.Mode), "forward.mode")
	add(f.Fallback == "attach", "forward.fallback")
	add(f.Resent, "forward.resent")
	add(f.TooLarge == "notice", "forward.too_large")
	for i, rule := range c.Routes {
		at := fmt.Sprintf("routes[%d].", i)
		add(mayCompose(rule.Mode), at+"mode")
		add(rule.Fallback == "attach", at+"fallback")
		add(rule.Resent != nil && *rule.Resent, at+"resent")
	}
	return uses
}

// Auto reports whether any mail goes out in mode auto, for which the DNS is asked.
func (c *Config) Auto() bool {
	return c.Forward.Mode == route.Auto ||
		slices.ContainsFunc(c.Routes, func(r route.Rule) bool { return r.Mode == route.Auto })
}

// mayCompose reports whether a mode may compose something.
func mayCompose(mode route.Mode) bool {
	return slices.Contains([]route.Mode{route.Auto, route.Rewrite, route.Attach}, mode)
}

// key loads the key of a section; it is nil if the section has errors.
func (r *reader) key(section string, d DKIM, selector string) *dkim.Key {
	whole := true
	for _, k := range []struct{ name, value, say string }{
		{"domain", d.Domain, "the domain that signs, such as example.com"},
		{"selector", d.Selector, "the name under which the key is published, such as " + selector},
		{"key_file", d.KeyFile, "the file with the private key, as PEM"},
	} {
		key := section + "." + k.name
		switch {
		case k.value == "":
			r.refuse(key, "is missing; domain, selector and key_file go together: give %s", k.say)
			whole = false
		case k.name != "key_file" && !dnsName(k.value):
			r.refuse(key, "%q is not a name in the DNS; give %s", k.value, k.say)
		}
	}
	if !whole {
		return nil
	}
	key, err := dkim.Load(d.Domain, d.Selector, d.KeyFile)
	if err != nil {
		r.refuse(section+".key_file", "cannot be used: %v", err)
	}
	return key
}

// arc returns what seals; nil if nothing is sealed, or if the section has errors.
func (r *reader) arc(a ARC) *arc.Sealer {
	if a.key() == (DKIM{}) && len(a.Trust) == 0 {
		return nil
	}
	notInID := func(c rune) bool { return c <= ' ' || c >= 0x7f || strings.ContainsRune(`;"()`, c) }
	for i, id := range a.Trust {
		if id == "" || strings.ContainsFunc(id, notInID) {
			r.refuse(fmt.Sprintf("arc.trust[%d]", i), "%q is not an authserv-id; give the first word of the "+
				"Authentication-Results that the server of the inbox writes, such as mx.example.com", id)
		}
	}
	key := r.key("arc", a.key(), "arc2026")
	if key == nil {
		return nil
	}
	sealer, err := arc.New(key, a.Trust)
	if err != nil {
		r.refuse("arc.key_file", "cannot be used: %s: %v", a.KeyFile, err)
	}
	return sealer
}

// Redirects reports whether any mail may be redirected: ARC seals nothing else.
func (c *Config) Redirects() bool {
	return redirects(c.Forward.Mode) ||
		slices.ContainsFunc(c.Routes, func(r route.Rule) bool { return r.Mode != "" && redirects(r.Mode) })
}

func redirects(mode route.Mode) bool { return mode != route.Rewrite && mode != route.Attach }

// dnsName reports whether s is a domain name. An internationalized one is in its xn-- form, as in a
// signature (RFC 6376 3.5).
func dnsName(s string) bool {
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, func(c rune) bool {
			return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_'
		}) {
			return false
		}
	}
	return net.ParseIP(s) == nil
}
