package forward

import (
	"crypto/tls"
	"maps"
	"strings"
	"testing"
)

// greets is what a relay says in the opening, and takes in a transaction.
func greets(change map[string]string) func(line string) string {
	answers := map[string]string{
		"": "220 here", "EHLO": "250 here", "STARTTLS": "220 go on", "AUTH": "235 2.7.0 welcome",
		"MAIL": "250 ok", "RCPT": "250 ok", "RSET": "250 ok", "QUIT": "221 bye",
	}
	maps.Copy(answers, change)
	return func(line string) string {
		word, _, _ := strings.Cut(line, " ")
		return answers[word]
	}
}

// relays runs a test on a relay that is reached without TLS, and with STARTTLS.
func relays(t *testing.T, change map[string]string, test func(t *testing.T, r *Relay)) {
	t.Helper()
	conf, pool := serverTLS(t)
	for _, how := range []string{"none", "starttls"} {
		t.Run(how, func(t *testing.T) {
			upgrade := (*tls.Config)(nil)
			if how == "starttls" {
				upgrade = conf
			}
			test(t, relayOn(t, scripted(t, upgrade, greets(change)), login, security(how, pool)))
		})
	}
}

// TestKeywordsInAnyCase: what EHLO offers counts in any case (RFC 5321 2.4).
func TestKeywordsInAnyCase(t *testing.T) {
	upper := "250-Here.example greets you\r\n250-8BITMIME\r\n250-SIZE 100000\r\n250-STARTTLS\r\n" +
		"250-AUTH PLAIN LOGIN\r\n250-PIPELINING\r\n250-DSN\r\n250 SMTPUTF8"
	mixed := strings.NewReplacer(
		"8BITMIME", "8BitMime", "SIZE", "Size", "AUTH", "auth", "STARTTLS", "StartTls",
	).Replace(upper)
	for name, ehlo := range map[string]string{"upper": upper, "lower": strings.ToLower(upper), "mixed": mixed} {
		t.Run(name, func(t *testing.T) {
			relays(t, map[string]string{"EHLO": ehlo}, func(t *testing.T, r *Relay) {
				info, err := r.Info(t.Context(), []string{"a@x.example"})
				if err != nil || info.Login != "PLAIN" || info.MaxSize != 100_000 ||
					!info.UTF8 || !info.DSN || len(info.Accepted) != 1 {
					t.Errorf("Info = %+v, %v; want a login with PLAIN, a limit of 100000 octets, "+
						"SMTPUTF8, DSN and the recipient", info, err)
				}
				c, err := r.dial(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if !c.offers("PIPELINING") || !c.offers("8BITMIME") || c.offers("HERE.EXAMPLE") {
					t.Error("the connection lacks PIPELINING or 8BITMIME, or offers the name of the relay; " +
						"want the first two only")
				}
				_ = c.quit()
			})
		})
	}
}

// TestRepliesWithoutText: a code alone is a reply (RFC 5321 4.2), before the login and after it.
func TestRepliesWithoutText(t *testing.T) {
	for name, change := range map[string]map[string]string{
		"greeting": {"": "220"},
		"STARTTLS": {"STARTTLS": "220"},
		"AUTH":     {"AUTH": "235"},
		"all": {
			"": "220", "STARTTLS": "220", "AUTH": "235", "MAIL": "250", "RCPT": "250", "RSET": "250", "QUIT": "221",
		},
	} {
		t.Run(name, func(t *testing.T) {
			change["EHLO"] = "250-here\r\n250-STARTTLS\r\n250-AUTH PLAIN\r\n250"
			relays(t, change, func(t *testing.T, r *Relay) {
				info, err := r.Info(t.Context(), []string{"a@x.example"})
				if err != nil || info.Login != "PLAIN" || len(info.Accepted) != 1 {
					t.Errorf("Info = %+v, %v; want a login with PLAIN, and the recipient accepted", info, err)
				}
			})
		})
	}
}

// TestRefusedWithoutText: a code alone is the fault that it is with text.
func TestRefusedWithoutText(t *testing.T) {
	change := map[string]string{"EHLO": "250-here\r\n250-STARTTLS\r\n250 AUTH PLAIN", "AUTH": "535"}
	relays(t, change, func(t *testing.T, r *Relay) {
		if _, err := r.Info(t.Context(), nil); briefError(err) != "AUTH 535 permanent" {
			t.Errorf("Info = %v, want AUTH 535 permanent", err)
		}
	})
}
