package config

import (
	"strings"

	"golang.org/x/net/idna"

	"postrider/internal/address"
)

// minSecret is how long a secret has to be that signs addresses: whoever has seen one of them can try secrets at leisure.
const minSecret = 16

// srs checks what is there, and with forward.envelope_from: srs that nothing is missing. An address can be decoded
// without that, too.
func (r *reader) srs(s *SRS, f Forward) {
	if f.EnvelopeFrom == "srs" {
		r.srsNeeds(s, f)
	}
	if s.Domain != "" {
		ascii, err := idna.Lookup.ToASCII(s.Domain)
		if err != nil || address.Check("srs@"+ascii) != nil {
			r.refuse("srs.domain", "%q is no domain; write it like srs.example.com", s.Domain)
		}
		s.Domain = ascii
	}
	for i, line := range s.Secrets() {
		if len(line) < minSecret {
			r.refuse("srs.secret", "secret number %d is shorter than %d characters and could be guessed; make one with `openssl rand -base64 24`", i+1, minSecret)
		}
	}
}

// srsNeeds tells of what is not there; what may only be misspelt or unusable has its own fault.
func (r *reader) srsNeeds(s *SRS, f Forward) {
	var missing []string
	if s.Domain == "" {
		missing = append(missing, "srs.domain (whose SPF record lets the relay send, and whose mail server takes the bounces)")
	}
	if s.Secret == "" && !r.hasError("srs.secret") {
		missing = append(missing, "srs.secret (make one with `openssl rand -base64 24 > srs-secret; chmod 600 srs-secret`, and write file:srs-secret)")
	}
	if len(missing) > 0 && !r.unknown["srs"] && !r.hasError("srs") {
		r.refuse("forward.envelope_from", "srs needs %s", strings.Join(missing, ", and "))
	}
	if f.From == "" {
		r.refuse("forward.from", "is missing; with srs it is where bounces go of messages whose sender is unknown or cannot be rewritten")
	}
}
