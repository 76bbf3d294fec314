package cmd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"postrider/internal/db"
	"postrider/internal/inbox"
	"postrider/internal/tasks"
	"postrider/internal/tasks/sqlqueue"
	"postrider/internal/testserver/memimap"
	"postrider/internal/testserver/smtpsink"
)

// newManyInboxes is the configuration of 24 inboxes: box23 is disabled, the server refuses the
// password of box22, and the others log in. The first ten are those of acme.
func newManyInboxes(t *testing.T) string {
	t.Helper()
	imap, err := memimap.Start(memimap.Options{})
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(err)
	t.Cleanup(imap.Close)
	check(imap.AddUser(deskUser, deskPassword))
	sink, err := smtpsink.Start(smtpsink.Options{})
	check(err)
	t.Cleanup(sink.Close)
	dir := t.TempDir()
	config := fmt.Sprintf("smtp: {host: 127.0.0.1, port: %d, security: none}\n"+
		"forward: {from: forwarder@firm.example}\n"+
		"dedupe: all # no notes about the login that they share\n"+
		"routes: [{name: all, match: {}, to: [intake@firm.example]}]\n", sink.Port())
	check(os.WriteFile(filepath.Join(dir, "postrider.yaml"), []byte(config), 0o600))
	d, err := db.Open(t.Context(), db.Config{Driver: db.SQLite, Path: filepath.Join(dir, "postrider.db")})
	check(err)
	store := inbox.New(d, inbox.OpenSealer(filepath.Join(dir, "postrider.key")))
	for i := range 24 {
		in := inbox.Inbox{
			Address: fmt.Sprintf("box%02d@firm.example", i), Username: deskUser,
			Host: "127.0.0.1", Port: imap.Port(), Security: inbox.None,
			Labels: inbox.Labels{"tenant": "umbrella"},
		}
		if i < 10 {
			in.Labels = inbox.Labels{"tenant": "acme"}
		}
		password := deskPassword
		if i == 22 {
			password = "wrong"
		}
		in, err := store.Add(t.Context(), in, password)
		check(err)
		if i == 23 {
			check(sqlqueue.New(d).Disable(t.Context(), tasks.By{Who: "ann"}, in.ID))
		}
	}
	check(d.Close())
	return dir
}

// TestManyInboxes: of more than 20 inboxes a list has a summary and those with trouble.
func TestManyInboxes(t *testing.T) {
	dir := newManyInboxes(t)
	run := func(args string) (int, string) {
		var out bytes.Buffer
		a := &app{out: &out, err: &out, env: noEnv}
		argv := append([]string{"-c", filepath.Join(dir, "postrider.yaml")}, strings.Fields(args)...)
		code := a.run(t.Context(), argv)
		return code, out.String()
	}
	if code, out := run("run"); code != exitRetry {
		t.Fatalf("run ends with %d, want 75: %s", code, out)
	}
	const summary = `22 inboxes ok, 1 with trouble, 1 disabled`
	const rest = `23 inboxes are not shown; to see all: --all\n`
	for _, tt := range []struct {
		args  string
		code  int
		boxes int    // how many are shown
		want  string // all that is shown
	}{
		{"status", 0, 1, `^` + summary + `\nINBOX\t.*\nbox22@.*\nbox22@firm\.example: last error: .*\n` + rest + `$`},
		{"status --all", 0, 24, `^` + summary + `\nINBOX\t.*\nbox00@[^$]*last error: .*\n$`},
		{"status --failing", 0, 1, `^` + summary + `\nINBOX\t.*\nbox22@.*\nbox22@.*\n$`},
		{"status --label tenant=acme", 0, 10, `^INBOX\t`},
		{"status --label tenant=acme --failing", 0, 0, `^10 inboxes ok\n$`},
		{"status --label tenant --inbox box0?@*", 0, 10, `^INBOX\t`},
		{"status --inbox box22@firm.example", 0, 1, `^INBOX\t`},
		{"status --json", 0, 24, `^{"inboxes":\[`},
		{"status --json --failing", 0, 1, `^{"inboxes":\[{"email":"box22@`},
		{"inbox list", 0, 1, `^` + summary + `\nINBOX\t.*\tLABELS\nbox22@.*\ttenant=umbrella\n` + rest + `$`},
		{"inbox list --all", 0, 24, `^` + summary + `\nINBOX\t`},
		{"inbox list --label tenant=umbrella --failing", 0, 1, `^12 inboxes ok, 1 with trouble, 1 disabled\nINBOX\t`},
		{"inbox list --label tenant=umbrella", 0, 14, `^INBOX\t`},
		{"inbox list --json", 0, 24, `^{"email":"box00@firm.example",.*"labels":{"tenant":"acme"}`},
		{"inbox list --json --failing", 0, 1, `^{"email":"box22@`},
		{"check", 75, 1, `(?m)^note    inboxes: ` + summary + `; 23 inboxes are not shown; to see all: --all\n` +
			`FAILED  inbox box22@.*\nok      relay: `},
		{"check --all", 75, 23, `(?m)^note    inboxes: ` + summary + `\nok      inbox box00@`},
		{"check --failing --label tenant=acme", 0, 0, `(?m)^ok      inboxes: 10 inboxes ok\nok      relay: `},
		{"check --inbox box0*", 0, 10, `(?m)^ok      database: .*\nok      inbox box00@`},
		{"status --all --failing", 2, 0, `^postrider: --all and --failing contradict each other; choose one\n$`},
		{"check --label tenant=acne", 2, 0, `no inbox has the label "tenant=acne"; did you mean tenant=acme\?\n$`},
	} {
		t.Run(tt.args, func(t *testing.T) {
			code, out := run(tt.args)
			shown := map[string]bool{}
			for _, box := range regexp.MustCompile(`box\d\d@`).FindAllString(out, -1) {
				shown[box] = true
			}
			if code != tt.code || len(shown) != tt.boxes || !regexp.MustCompile(tt.want).MatchString(out) {
				t.Errorf("exit code %d with %d inboxes, want %d with %d, and\n%s\nit shows\n%s",
					code, len(shown), tt.code, tt.boxes, tt.want, out)
			}
		})
	}
}

func TestInboxCount(t *testing.T) {
	for _, tt := range []struct {
		n             inboxCount
		o             overview
		summary, rest string
	}{
		{
			inboxCount{ok: 998, trouble: 2, disabled: 3},
			overview{},
			"998 inboxes ok, 2 with trouble, 3 disabled", "1001 inboxes are not shown; to see all: --all",
		},
		{
			inboxCount{ok: 1, trouble: 20},
			overview{},
			"1 inbox ok, 20 with trouble", "1 inbox is not shown; to see all: --all",
		},
		{inboxCount{trouble: 21}, overview{}, "0 inboxes ok, 21 with trouble", ""},
		{inboxCount{ok: 21}, overview{all: true}, "21 inboxes ok", ""},
		{inboxCount{ok: 21}, overview{failing: true}, "21 inboxes ok", ""},
		{inboxCount{ok: 20}, overview{}, "20 inboxes ok", ""},
	} {
		if got := tt.n.String(); got != tt.summary {
			t.Errorf("%+v is %q, want %q", tt.n, got, tt.summary)
		}
		if got := tt.o.rest(tt.n); got != tt.rest {
			t.Errorf("%+v with %+v ends with %q, want %q", tt.n, tt.o, got, tt.rest)
		}
	}
}
