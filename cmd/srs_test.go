package cmd

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"postrider/internal/forward"
	"postrider/internal/message"
	"postrider/internal/route"
	"postrider/internal/srs"
)

const srsConfig = `
smtp: {host: 127.0.0.1, security: none}
forward: {from: forwarder@firm.example, envelope_from: srs, automated: skip}
srs: {domain: srs.firm.example, secret: "file:secrets"}
routes: [{name: all, match: {}, to: [intake@firm.example]}]
`

const (
	newSecret = "the new secret of the office"
	oldSecret = "the old secret of the office"
)

// srsApp is an app with a configuration of its own, and where it prints.
func srsApp(t *testing.T) (a *app, out, errs *bytes.Buffer) {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{"postrider.yaml": srsConfig, "secrets": newSecret + "\n" + oldSecret + "\n"}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, errs = &bytes.Buffer{}, &bytes.Buffer{}
	config := filepath.Join(dir, "postrider.yaml")
	return &app{in: &bytes.Buffer{}, out: out, err: errs, env: noEnv, config: config}, out, errs
}

// signed is what another process made of an address, so long ago, with a secret.
func signed(t *testing.T, address, secret string, ago time.Duration) string {
	t.Helper()
	now := func() time.Time { return time.Now().Add(-ago) }
	r, err := srs.New(srs.Config{Domain: "srs.firm.example", Secrets: []string{secret}, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	made, err := r.Forward(address)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestSRSDecode(t *testing.T) {
	const alice, day = "alice@author.example", 24 * time.Hour
	fresh := signed(t, alice, oldSecret, 0)
	tests := []struct {
		name, address string
		code          int
		says          []string
	}{
		{
			"as it should be", fresh, exitOK,
			[]string{
				"bounces to alice@author.example\n", "made       ", "valid until", "signed     with secret 2 of 2\n",
			},
		},
		{
			"in angle brackets", "<" + signed(t, alice, newSecret, 3*day) + ">", exitOK,
			[]string{"signed     with secret 1 of 2\n"},
		},
		{
			"too old", signed(t, alice, newSecret, 60*day), exitFailed,
			[]string{"alice@author.example", "EXPIRED: it was valid until", "secret 1 of 2"},
		},
		{
			"made up", strings.Replace(fresh, "alice", "bob", 1), exitFailed,
			[]string{"bob@author.example", "NOT with a secret of srs.secret"},
		},
		{
			"of a chain", signed(t, "SRS0=abcd=2W=author.example=alice@first.example", oldSecret, 60*day), exitOK,
			[]string{"bounces to SRS0=abcd=2W=author.example=alice@first.example\n" +
				"original   alice@author.example, as the server there has it\nsigned     with secret 2 of 2\n"},
		},
		{
			"at another domain", strings.Replace(fresh, "@srs.firm.example", "@srs.other.example", 1), exitFailed,
			[]string{"secret 2 of 2\ndomain     NOT OURS: the address is not at srs.firm.example (srs.domain)\n"},
		},
		{
			"in upper case", strings.Replace(fresh, "@srs.firm.example", "@SRS.Firm.example", 1), exitOK,
			[]string{"secret 2 of 2\n"},
		},
		{
			"none", "alice@author.example", exitUsage,
			[]string{"postrider: alice@author.example is not an SRS address, which begins with SRS0="},
		},
		{"hostile", "\x1b[31m@x", exitUsage, []string{"is not an SRS address"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, out, errs := srsApp(t)
			if code := a.run(t.Context(), []string{"-c", a.config, "srs", "decode", tt.address}); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			got := out.String() + errs.String()
			for _, want := range tt.says {
				if !strings.Contains(got, want) {
					t.Errorf("it printed\n%swant %q in it", got, want)
				}
			}
			if strings.Contains(got, "secret of the office") || strings.Contains(got, "\x1b") {
				t.Errorf("it printed\n%swant no secret and no control characters", got)
			}
		})
	}
}

func TestSRSDecodeWithoutSecret(t *testing.T) {
	a, _, errs := srsApp(t)
	if err := os.WriteFile(a.config, []byte(scriptConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	code := a.run(t.Context(), []string{"-c", a.config, "srs", "decode", "SRS0=a=2W=b=c@d"})
	if code != exitUsage || !strings.Contains(errs.String(), "srs.domain") {
		t.Errorf("exit code %d, %q; want %d and the key that is missing", code, errs, exitUsage)
	}
}

// TestForwardIsWired: what the configuration says reaches the envelope, the pass and the routes.
func TestForwardIsWired(t *testing.T) {
	a, _, _ := srsApp(t)
	cfg, err := a.loadConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := &services{cfg: cfg}
	relay, err := s.relay()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = relay.Close() }()
	p, err := s.pass(t.Context(), relay, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	if p.Config.MaxReceived != 100 {
		t.Errorf("a message may make %d hops, want the 100 of forward.max_received", p.Config.MaxReceived)
	}
	spool := (&message.Spooler{Limit: 1 << 20, Budget: 1 << 20}).New()
	const header = "Return-Path: <alice@author.example>\r\nAuto-Submitted: auto-generated\r\n\r\n"
	if _, err := spool.Write([]byte(header)); err != nil {
		t.Fatal(err)
	}
	m, err := message.Parse(spool)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	d := p.Routes.Decide(t.Context(), route.Mail{Message: m})
	if !d.Skip || !strings.HasPrefix(d.Reason, "automated: ") {
		t.Errorf("decided %+v, want forward.automated: skip to hold for the route", d)
	}
	r, err := rewriter(cfg)
	if err != nil {
		t.Fatal(err)
	}
	from := relay.Envelope(m, forward.Trace{Inbox: "desk@firm.example"}, nil).From
	if d, err := r.Decode(from); err != nil || d.Address != "alice@author.example" || d.Secret != 1 || d.Expired {
		t.Errorf("the reverse-path is %s (%+v, %v), want an SRS address for alice@author.example, "+
			"signed with the first secret", from, d, err)
	}
}
