package account_test

import "testing"

// TestProvider: only the built-in settings and the MX of a domain lead to a provider, and so to its
// relay.
func TestProvider(t *testing.T) {
	p := newPlace(t, nil)
	p.dns.SetMX(t, "customer.example", "aspmx.l.google.com", 1)
	p.dns.SetMX(t, "firm.example", "mx.firm.example", 1)
	p.dns.SetSRV(t, "_imaps._tcp.firm.example", "imap.gmail.com", 993, 0, 0)
	for domain, want := range map[string]string{
		"gmx.de": "mail.gmx.net:465 tls", "customer.example": "smtp.gmail.com:465 tls",
		"firm.example": "", "nowhere.example": "", "[192.0.2.1]": "",
	} {
		got := ""
		if found, err := p.Provider(t.Context(), domain); err == nil {
			got = found.Preset.SMTP.String()
		}
		if got != want {
			t.Errorf("the relay of %s is %q, want %q", domain, got, want)
		}
	}
}
