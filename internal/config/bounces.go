package config

import (
	"cmp"
	"strings"
	"time"

	"postrider/internal/address"
	"postrider/internal/bounce"
)

// bounces checks the section, and fills in defaults that come from other sections.
func (r *reader) bounces(c *Config) {
	b := &c.Bounces
	if _, given := r.places["bounces"]; !given && b.Inbox == "" {
		return
	}
	if b.Inbox == "" && !r.unknown["bounces"] {
		r.refuse("bounces.inbox", "is missing; "+
			"name the inbox that bounces come to, as it was added with `postrider inbox add`")
	} else if err := address.Check(b.Inbox); b.Inbox != "" && err != nil {
		r.refuse("bounces.inbox", "%s", err)
	}
	if from := c.Forward.EnvelopeFrom; from == "srs" || from == "keep" {
		r.refuse("forward.envelope_from", "is %s, so bounces go to the original sender, and bounces.inbox gets none; "+
			"write the address that leads to bounces.inbox, or remove the section bounces", from)
	}
	r.secrets("bounces.secret", b.Secrets())
	if b.Address != "" {
		r.bounceAddress(c)
	}
	if b.Suspend && b.Address == "" && !r.hasError("bounces.address") {
		r.refuse("bounces.suspend", "needs bounces.address with {token}: "+
			"without tokens a forged report could stop mail to a recipient")
	}
}

// bounceAddress checks the address for tokens. An address without a token has no effect: it can
// only be the reverse-path of all mail.
func (r *reader) bounceAddress(c *Config) {
	b := &c.Bounces
	if !strings.Contains(b.Address, bounce.Placeholder) {
		if b.Address != c.Forward.EnvelopeFrom {
			r.refuse("bounces.address", "%q has no {token}; write it like bounces+{token}@firm.example; or "+
				"remove the line: then all mail has the reverse-path in forward.envelope_from", b.Address)
		}
		b.Address = ""
		return
	}
	if b.Secret = cmp.Or(b.Secret, c.SRS.Secret); b.Secret == "" {
		if !r.hasError("bounces.secret") && !r.hasError("srs.secret") && !r.unknown["bounces"] {
			r.refuse("bounces.secret", "is missing, and bounces.address needs it (make one with "+
				"`openssl rand -base64 24 > bounce-secret; chmod 600 bounce-secret`, and write file:bounce-secret)")
		}
		return
	}
	var err error
	c.Signer, err = bounce.NewSigner(bounce.Config{
		Address: b.Address, Secrets: b.Secrets(), MaxAge: b.MaxAge, Now: time.Now,
	})
	if err != nil {
		r.refuse("bounces.address", "%s", strings.TrimPrefix(err.Error(), "bounces.address "))
	}
}
