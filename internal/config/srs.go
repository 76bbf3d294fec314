package config

import (
	"strings"

	"golang.org/x/net/idna"

	"postrider/internal/address"
)

// minSecret is the least length of a secret that signs addresses: who has seen a signed address can
// guess secrets offline.
const minSecret = 16

// srs checks the section, and with forward.envelope_from: srs that it is complete. `srs decode`
// works without that.
func (r *reader) srs(s *SRS, f Forward) {
	if f.EnvelopeFrom == "srs" {
		r.srsNeeds(s)
	}
	if s.Domain != "" {
		ascii, err := idna.Lookup.ToASCII(s.Domain)
		if err != nil || address.Check("srs@"+ascii) != nil {
			r.refuse("srs.domain", "%q is not a domain; write it like srs.example.com", s.Domain)
		}
		s.Domain = ascii
	}
	r.secrets("srs.secret", s.Secrets())
}

// secrets checks that none can be guessed.
func (r *reader) secrets(key string, lines []string) {
	for i, line := range lines {
		if len(line) < minSecret {
			r.refuse(key, "secret number %d is shorter than %d characters and could be guessed; "+
				"make one with `openssl rand -base64 24`", i+1, minSecret)
		}
	}
}

// srsNeeds reports missing keys. A misspelt or invalid one has its own error.
func (r *reader) srsNeeds(s *SRS) {
	var missing []string
	if s.Domain == "" {
		missing = append(missing,
			"srs.domain (whose SPF record lets the relay send, and whose mail server takes the bounces)")
	}
	if s.Secret == "" && !r.hasError("srs.secret") {
		missing = append(missing, "srs.secret (make one with "+
			"`openssl rand -base64 24 > srs-secret; chmod 600 srs-secret`, and write file:srs-secret)")
	}
	if len(missing) > 0 && !r.unknown["srs"] && !r.hasError("srs") {
		r.refuse("forward.envelope_from", "srs needs %s", strings.Join(missing, ", and "))
	}
}
