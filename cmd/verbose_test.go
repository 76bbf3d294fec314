package cmd

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"postrider/internal/testserver"
	"postrider/internal/testserver/memimap"
	"postrider/internal/testserver/smtpsink"
)

// verbose is a world for the log of a pass: an inbox and a relay with passwords.
type verbose struct {
	t       *testing.T
	imap    *memimap.Server
	sink    *smtpsink.Server
	config  string
	secrets []string
}

const secretBody = "What the body says stays in the message."

func newVerbose(t *testing.T, password, smtpPassword string, mechanism string) *verbose {
	t.Helper()
	imap, err := memimap.Start(memimap.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(imap.Close)
	sink, err := smtpsink.Start(smtpsink.Options{
		Auth: []string{mechanism}, Users: map[string]string{"forwarder": smtpPassword}, Reply: reply,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sink.Close)
	if err := imap.AddUser(deskUser, password); err != nil {
		t.Fatal(err)
	}
	v := &verbose{
		t: t, imap: imap, sink: sink, config: filepath.Join(t.TempDir(), "postrider.yaml"),
		secrets: []string{password, smtpPassword},
	}
	config := fmt.Sprintf(`
database: {path: postrider.db}
secrets: {key_file: postrider.key}
smtp: {host: 127.0.0.1, port: %d, security: none, username: forwarder, password: %q}
forward: {from: forwarder@firm.example}
routes:
  - {name: refused, match: {subject: refuse}, to: [intake@firm.example, nobody@firm.example]}
  - {name: later, match: {subject: greylist}, to: [later@firm.example]}
  - {name: mail, match: {subject: mail}, to: [intake@firm.example]}
`, sink.Port(), smtpPassword)
	if err := os.WriteFile(v.config, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return v
}

// run runs a command and returns all that it printed. Nothing of it may hold a secret or a body.
func (v *verbose) run(stdin string, args ...string) string {
	v.t.Helper()
	var out bytes.Buffer
	a := &app{in: strings.NewReader(stdin), out: &out, err: &out, env: noEnv}
	code := a.run(v.t.Context(), append([]string{"-c", v.config}, args...))
	for _, secret := range append(v.secrets, secretBody) {
		for _, form := range forms(secret) {
			if strings.Contains(out.String(), form) {
				v.t.Errorf("`%s` (exit code %d) prints %q, a form of %q:\n%s",
					strings.Join(args, " "), code, form, secret, &out)
			}
		}
	}
	return out.String()
}

func (v *verbose) mail(subjects ...string) {
	v.t.Helper()
	for _, s := range subjects {
		mail := testserver.Mail("clerk@court.example", deskUser, s, secretBody)
		if _, err := v.imap.Append(deskUser, "INBOX", mail); err != nil {
			v.t.Fatal(err)
		}
	}
}

// forms are a secret in plain text, as a quoted string, and in base64 wherever it begins in a group
// of three octets.
func forms(secret string) []string {
	out := []string{secret, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(secret)}
	for shift := range 3 {
		whole := secret[min(shift, len(secret)):]
		out = append(out, base64.StdEncoding.EncodeToString([]byte(whole[:len(whole)/3*3])))
	}
	return out
}

// TestVerbose: -v has one line for each login, folder and message, -vvv the protocols. Neither has
// a password, in any way to log in, or a body.
func TestVerbose(t *testing.T) {
	for _, tt := range []struct{ name, auth, mechanism, password string }{
		{"PLAIN", "plain", "PLAIN", "hunter2hunter2"},
		{"LOGIN", "login", "LOGIN", "hunter2hunter2"},
		{"LOGIN, quoted", "login", "CRAM-MD5", `hun"ter\2 hunter2`},
		{"LOGIN, in a literal", "login", "SCRAM-SHA-256", "hünter2 hünter2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := newVerbose(t, tt.password, "relay-"+tt.password, tt.mechanism)
			v.run(tt.password, "inbox", "add", deskUser, "--host", "127.0.0.1", "--port", strconv.Itoa(v.imap.Port()),
				"--security", "none", "--auth", tt.auth, "--password-stdin", "--start", "all")
			v.mail("mail 1", "refuse", "greylist", "nothing")
			out := v.run("", "run", "-v")
			want := func(lines ...string) {
				t.Helper()
				for _, line := range lines {
					if strings.Count(out, line) != 1 {
						t.Errorf("%q occurs %d times, want once, in:\n%s", line, strings.Count(out, line), out)
					}
				}
			}
			want(`msg="logged in" inbox=desk@firm.example server=127.0.0.1:`,
				`msg="folder opened" inbox=desk@firm.example folder=INBOX messages=4 uidnext=5 cursor=0`,
				`msg="message forwarded" inbox=desk@firm.example task=1 folder=INBOX uid=1 route=mail `+
					`to="intake@firm.example 250 2.0.0 accepted"`,
				`msg="message dead" inbox=desk@firm.example task=2 folder=INBOX uid=2 route=refused `+
					`to="intake@firm.example 250 2.0.0 accepted, nobody@firm.example 550 5.1.1 no such user"`,
				`msg="message not forwarded yet" inbox=desk@firm.example task=3 folder=INBOX uid=3 route=later `+
					`to="later@firm.example 451 4.2.0 later"`,
				`msg="message not forwarded: no route matches" inbox=desk@firm.example task=4 folder=INBOX uid=4 `+
					`reason="no route matches"`)
			if strings.Contains(out, " C: ") {
				t.Errorf("-v logs the protocol:\n%s", out)
			}
			v.mail("mail 2")
			out = v.run("", "run", "-vvv")
			want("imap C: T1 ", "BODY[] {", "smtp C: AUTH "+tt.mechanism+" ***",
				"smtp C: RCPT TO:<intake@firm.example>", "smtp S: 354 ", "smtp C: (a message of ")
			v.run("", "run", "-vvv", "--log-format", "json")
			v.run("", "check", "-vvv")
			v.run("", "inbox", "check", deskUser, "-vvv")
			v.run("", "audit", "-vvv")

			// The servers have other passwords now.
			v.run("wrong-"+tt.password, "inbox", "set", deskUser, "--password-stdin")
			v.run("", "run", "-vvv")
			v.run("", "check", "-vvv")
		})
	}
}
