package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

const srsMinimal = `
smtp: {host: smtp.example.com}
routes: [{name: all, match: {}, to: desk@firm.example}]
`

func TestSRS(t *testing.T) {
	path := write(t, srsMinimal+`
forward: {from: "Forwarder <forwarder@example.com>", envelope_from: srs}
srs: {domain: srs.bücher.example, secret: "file:srs-secret", max_age: 7d}
`)
	secrets := []string{"the newest one, it signs", "the one before that"}
	file := filepath.Join(filepath.Dir(path), "srs-secret")
	if err := os.WriteFile(file, []byte(strings.Join(secrets, "\r\n")+"\n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := loadFile(path, variables())
	if err != nil {
		t.Fatal(err)
	}
	got := c.SRS
	if got.Domain != "srs.xn--bcher-kva.example" || got.MaxAge != 7*24*time.Hour ||
		!reflect.DeepEqual(got.Secrets(), secrets) {
		t.Errorf("srs is %q, %v, %q; want the domain in ASCII, a week, and two secrets in order",
			got.Domain, got.MaxAge, got.Secrets())
	}
	c, err = loadFile(path, variables("POSTRIDER_SRS_SECRET", "from the environment"))
	if err != nil || c.SRS.Secrets()[0] != "from the environment" {
		t.Errorf("Load with POSTRIDER_SRS_SECRET = %v, want that secret", err)
	}
}

func TestSRSErrors(t *testing.T) {
	const good = "forward: {from: a@x.example, envelope_from: srs}\n"
	const secret = "sixteen octets or more"
	tests := []struct {
		name, text string
		want       []string // one for each line
	}{
		{
			"nothing", good,
			[]string{"postrider.yaml:5:30: forward.envelope_from: srs needs srs.domain (whose SPF record lets the " +
				"relay send, and whose mail server takes the bounces), and srs.secret (make one with `openssl rand"},
		},
		{
			"no secret", good + "srs: {domain: x.example}",
			[]string{"postrider.yaml:5:30: forward.envelope_from: srs needs srs.secret (make"},
		},
		{
			"no section", good + "srs: [x.example]",
			[]string{"postrider.yaml:6:1: srs: has to be a section with the keys domain, secret, max_age, not a list"},
		},
		{
			"no sender", "forward: {envelope_from: srs}\nsrs: {domain: x.example, secret: " + secret + "}",
			[]string{"forward.from: is missing; write the address that mail is forwarded from"},
		},
		{
			"no sender for keep", "forward: {envelope_from: keep}",
			[]string{"forward.from: is missing; write the address that mail is forwarded from"},
		},
		{
			"no domain", good + "srs: {domain: s@x.example, secret: " + secret + "}",
			[]string{`postrider.yaml:6:7: srs.domain: "s@x.example" is not a domain; write it like`},
		},
		{
			"too short", good + "srs:\n  domain: x.example\n  secret: |\n    " + secret + "\n    hunter2",
			[]string{"postrider.yaml:8:3: srs.secret: secret number 2 is shorter than 16 characters"},
		},
		{
			"misspelt", good + "srs: {domain: x.example, secrt: " + secret + "}",
			[]string{"srs.secrt: unknown key; did you mean srs.secret?"},
		},
		{
			"no variable", good + "srs: {domain: x.example, secret: env:H5_NONE}",
			[]string{"srs.secret: environment variable H5_NONE is not set"},
		},
		{
			"age", good + "srs: {domain: x.example, secret: " + secret + ", max_age: 12h}",
			[]string{"srs.max_age: 12h is out of range; it goes from 1d to 1000d"},
		},
		{
			"a size without a unit", "forward: {from: a@x.example, max_size: 50}",
			[]string{"forward.max_size: 50B is out of range; it goes from 1KiB to 4GiB"},
		},
		{
			"hops", "forward: {from: a@x.example, max_received: 0}",
			[]string{"forward.max_received: 0 is out of range"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := loadErrors(t, write(t, srsMinimal[1:]+"\n\n"+tt.text), variables())
			lines := strings.Split(got, "\n")
			if len(lines) != len(tt.want) || strings.Contains(got, "hunter2") {
				t.Fatalf("errors are\n%s\nwant %d, and no secret", got, len(tt.want))
			}
			for i, want := range tt.want {
				if !strings.Contains(lines[i], want) {
					t.Errorf("error %q, want %q in it", lines[i], want)
				}
			}
		})
	}
}
