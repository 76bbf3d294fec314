package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const bounceSecret = "sixteen octets or more"

func TestBounces(t *testing.T) {
	path := write(t, srsMinimal+`
forward: {envelope_from: bounces@firm.example}
srs: {secret: "file:srs-secret"}
bounces: {inbox: bounces@firm.example, address: "bounces+{token}@firm.example", confirm: true}
`)
	secrets := "the newest one, it signs\nthe one before that\n"
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "srs-secret"), []byte(secrets), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := loadFile(path, variables())
	if err != nil {
		t.Fatal(err)
	}
	b := c.Bounces
	if len(b.Secrets()) != 2 || b.Secrets()[0] != "the newest one, it signs" {
		t.Errorf("the secrets are %q, want those of srs", b.Secrets())
	}
	if b.MaxAge != 21*24*time.Hour || b.SuspendAfter != 5 || b.SuspendWithin != 7*24*time.Hour ||
		b.Suspend || !b.Confirm {
		t.Errorf("bounces is %+v, want the defaults, and confirm", b)
	}
	ref, err := c.Signer.Read(c.Signer.ReversePath(7, time.Now(), "a@x.example"))
	if err != nil || ref.Task != 7 || !ref.Is("a@x.example") {
		t.Errorf("a reverse-path is read as %+v, %v, want task 7 and its recipient", ref, err)
	}
	c, err = loadFile(path, variables("POSTRIDER_BOUNCES_SECRET", "of its own, and as long"))
	if err != nil || c.Bounces.Secrets()[0] != "of its own, and as long" {
		t.Errorf("with POSTRIDER_BOUNCES_SECRET the secrets are %q, %v", c.Bounces.Secrets(), err)
	}
}

// TestBouncesWithoutTokens: an address without {token} is the same as none.
func TestBouncesWithoutTokens(t *testing.T) {
	for _, address := range []string{"", "address: bounces@firm.example"} {
		c, err := loadFile(write(t, srsMinimal+`
forward: {envelope_from: bounces@firm.example}
bounces: {inbox: bounces@firm.example, `+address+`}
`), variables())
		if err != nil {
			t.Fatal(err)
		}
		if c.Signer != nil || c.Bounces.Address != "" {
			t.Errorf("with %q the address is %q, want one reverse-path for all mail", address, c.Bounces.Address)
		}
	}
	c := load(t, minimal)
	if c.Bounces.Inbox != "" || c.Bounces.Address != "" {
		t.Errorf("without the section bounces is %+v, want no inbox", c.Bounces)
	}
}

func TestBouncesErrors(t *testing.T) {
	const from = "forward: {envelope_from: bounces@firm.example}\n"
	const inbox = from + "bounces: {inbox: b@x.example"
	const secret = ", secret: " + bounceSecret
	const token = `, address: "b+{token}@firm.example"`
	for _, tt := range []struct{ name, text, want string }{
		{
			"no inbox", from + "bounces: {confirm: true}",
			"postrider.yaml:6:1: bounces.inbox: is missing; name the inbox",
		},
		{"no inbox's address", from + "bounces: {inbox: bounces}", "bounces.inbox: "},
		{
			"srs", "forward: {from: a@x.example, envelope_from: srs}\n" +
				"srs: {domain: x.example" + secret + "}\nbounces: {inbox: b@x.example}",
			"postrider.yaml:5:30: forward.envelope_from: is srs, so bounces go to the original sender",
		},
		{
			"keep", "forward: {from: a@x.example, envelope_from: keep}\nbounces: {inbox: b@x.example}",
			"forward.envelope_from: is keep, so bounces",
		},
		{
			"no secret", inbox + token + "}",
			"bounces.secret: is missing, and bounces.address needs it (make one with `openssl",
		},
		{
			"short secret", inbox + token + ", secret: hunter2}",
			"bounces.secret: secret number 1 is shorter than 16 characters",
		},
		{"no token", inbox + ", address: b@x.example}", `bounces.address: "b@x.example" has no {token}`},
		{"no address", inbox + ", address: \"{token}\"" + secret + "}", "bounces.address: "},
		{
			"long", inbox + `, address: "bounces-of-all-that-is-forwarded+{token}@x.example"` + secret + "}",
			"is too long",
		},
		{"misspelt", from + "bounces: {inbx: b@x.example}", "bounces.inbx: unknown key; did you mean bounces.inbox?"},
		{"age", inbox + ", max_age: 1h}", "bounces.max_age: 1h is out of range"},
		{"no tokens", inbox + ", suspend: true}", "bounces.suspend: needs bounces.address with {token}"},
		{"never", inbox + ", suspend_after: 0}", "bounces.suspend_after: 0 is out of range"},
		{"within", inbox + ", suspend_within: 1m}", "bounces.suspend_within: 1m is out of range"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := loadErrors(t, write(t, srsMinimal[1:]+"\n\n"+tt.text), variables())
			if strings.Count(got, "\n") != 0 || !strings.Contains(got, tt.want) || strings.Contains(got, "hunter2") {
				t.Errorf("the errors are\n%s\nwant one: %q", got, tt.want)
			}
		})
	}
}
