package account_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"postrider/internal/account"
)

// TestPresets: each preset is complete, and no address or MX belongs to two.
func TestPresets(t *testing.T) {
	owner := map[string]string{}
	for _, p := range account.Presets {
		if len(p.Domains)+len(p.MX) == 0 || len(p.Logins) == 0 || p.Hint == "" {
			t.Errorf("%s lacks domains and MX, logins or a hint", p.Name)
		}
		for _, s := range []account.Server{p.IMAP, p.SMTP} {
			if s.Host == "" || s.Port == 0 || s.Security != "tls" && s.Security != "starttls" {
				t.Errorf("%s has a server %s", p.Name, s)
			}
		}
		for _, name := range p.Domains {
			owner["@"+name] += p.Name + ";"
		}
		for _, name := range p.MX {
			owner["mx "+name] += p.Name + ";"
		}
	}
	for name, of := range owner {
		if strings.Count(of, ";") > 1 || name != strings.ToLower(name) {
			t.Errorf("%s is of %s and should be of one preset, in lower case", name, of)
		}
	}
}

func TestHint(t *testing.T) {
	for host, want := range map[string]string{
		"imap.163.com": "授权码", "IMAP.GMAIL.COM.": "https://myaccount.google.com/apppasswords",
		"outlook.office365.com": "only OAuth2", "imap.firm.example": "",
	} {
		if got := account.Of(host).Hint; !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("Of(%s).Hint = %q, want %q in it", host, got, want)
		}
	}
}

// TestLimits: what a preset says holds for the inboxes of its IMAP server.
func TestLimits(t *testing.T) {
	for host, want := range map[string]struct {
		connections int
		id, noIDLE  bool
	}{
		"imap.gmail.com": {15, false, false}, "IMAP.163.com": {0, true, true}, "imap.126.com": {0, true, true},
		"imap.mail.yahoo.com": {0, false, true}, "imap.firm.example": {},
	} {
		got := account.Of(host)
		if got.Connections != want.connections || got.NeedsID != want.id || got.NoIDLE != want.noIDLE {
			t.Errorf("%s: %d connections, ID %v, no IDLE %v; want %+v",
				host, got.Connections, got.NeedsID, got.NoIDLE, want)
		}
	}
}

// TestDocumented: docs/servers.md has each preset, in one line of its table, and each domain that
// is not of a country.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/servers.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range account.Presets {
		var logins []string
		for _, l := range p.Logins {
			logins = append(logins, string(l))
		}
		line := fmt.Sprintf("| %s | `%s` %d | `%s` %d | %s |", p.Name,
			p.IMAP.Host, p.IMAP.Port, p.SMTP.Host, p.SMTP.Port, strings.Join(logins, ", "))
		if !strings.Contains(string(page), line) {
			t.Errorf("docs/servers.md lacks the line\n%s", line)
		}
		for _, name := range p.Domains {
			if strings.HasSuffix(name, ".com") && !strings.Contains(string(page), name+"`") {
				t.Errorf("docs/servers.md lacks the domain %s", name)
			}
		}
	}
}
