package config

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestEnvironmentOverrides(t *testing.T) {
	const ofFile = "host: 1.2.3.4, port: wrong, password: env:H5_NOT_SET"
	text := strings.Replace(minimal, "host: smtp.example.com", ofFile, 1)
	c := load(t, text,
		"POSTRIDER_SMTP_HOST", "relay.example.com", "POSTRIDER_SMTP_PORT", "2525", "POSTRIDER_SMTP_USERNAME", "u",
		"POSTRIDER_SMTP_PASSWORD", "hunter2", "POSTRIDER_DEDUPE", "all", "POSTRIDER_RETRY_GIVE_UP_AFTER", "1h",
		"POSTRIDER_FORWARD_MAX_SIZE", "1KiB", "POSTRIDER_SMTP_ALLOW_PLAINTEXT", "true", "POSTRIDER_RETRY_BASE", "",
		"POSTRIDER_AFTER_FORWARDED", "move: Done", "POSTRIDER_CONFIG", "x")
	got := []any{
		c.SMTP.Host, c.SMTP.Port, c.SMTP.Username, string(c.SMTP.Password), string(c.Dedupe),
		c.Retry.GiveUpAfter.String(), int(c.Forward.MaxSize), c.SMTP.AllowPlaintext, c.Retry.Base.String(),
		string(c.After.Forwarded),
	}
	want := []any{"relay.example.com", 2525, "u", "hunter2", "all", "1h0m0s", 1024, true, "1m0s", "move:Done"}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("setting %d is %v, want %v", i, got[i], want[i])
		}
	}
}

func TestEnvironmentErrors(t *testing.T) {
	got := loadErrors(t, write(t, minimal), variables(
		"POSTRIDER_SMTP_PORT", "x", "POSTRIDER_DEDUPE", "none", "POSTRIDER_SMTP_CONNECTIONS", "0",
		"POSTRIDER_SMTP_PASSWORD", "env:H5_NOT_SET"))
	const want = `POSTRIDER_SMTP_PORT: smtp.port: has to be a whole number, not "x"
POSTRIDER_SMTP_PASSWORD: smtp.password: environment variable H5_NOT_SET is not set or empty; ` +
		`set it for the user that runs postrider
POSTRIDER_SMTP_CONNECTIONS: smtp.connections: 0 is out of range; it goes from 1 to 100
POSTRIDER_DEDUPE: dedupe: "none" is not one of inbox, all, off`
	if got != want {
		t.Errorf("errors are\n%s\nwant\n%s", got, want)
	}
}

// TestSecretInTheEnvironment is plain text beside a file that everybody may read.
func TestSecretInTheEnvironment(t *testing.T) {
	path := write(t, minimal)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := loadFile(path, variables("POSTRIDER_SMTP_USERNAME", "u", "POSTRIDER_SMTP_PASSWORD", "hunter2"))
	if err != nil || c.SMTP.Password != "hunter2" {
		t.Errorf("Load = %v, want the password of the variable to be taken", err)
	}
}

// TestEveryScalarHasAVariable asks which variables are looked at.
func TestEveryScalarHasAVariable(t *testing.T) {
	path := write(t, minimal)
	for _, l := range leaves(Default()) {
		used := false
		_, _ = loadFile(path, func(name string) (string, bool) {
			used = used || name == variable(l.name)
			return "", false
		})
		if !used {
			t.Errorf("%s is never asked for, want it to override %s", variable(l.name), l.name)
		}
	}
}

// TestNoVariable: a list, and what is in an entry, has no variable, whatever the file has.
func TestNoVariable(t *testing.T) {
	t.Setenv("POSTRIDER_EVENTS_CRM_SECRETS", "whsec_"+strings.Repeat("QUJD", 10))
	text := minimal +
		"events: {crm: {url: 'https://crm.example/', secrets: env:POSTRIDER_EVENTS_CRM_SECRETS, on: [dead]}}\n"
	set := []string{
		"POSTRIDER_NOTIFY_TO", "POSTRIDER_EVENTS_CRM_URL", "POSTRIDER_EVENTS_BUS_URL", "POSTRIDER_EVENTS_CRM_SECRETS",
		"POSTRIDER_OAUTH_GOOGLE_CLIENT_ID", "POSTRIDER_ROUTES_ALL_TO", "POSTRIDER_ALERTS_LABELS_ACME_DEAD",
		"POSTRIDER_HOOK_TOKEN", "POSTRIDER_EVENTS_EMPTY",
		"POSTRIDER_EVENTS_PASSWORD", "POSTRIDER_ROUTES_SERVICE_HOST", // of an inbox events@..., and what a cluster sets

	}
	env := func(name string) (string, bool) {
		if name == "POSTRIDER_EVENTS_EMPTY" || !slices.Contains(set, name) {
			return "", false
		}
		return "x", true
	}
	_, err := loadFile(write(t, text), env, set...)
	var got []string
	for line := range strings.Lines(fmt.Sprint(err)) {
		name, problem, _ := strings.Cut(line, ": ")
		if got = append(got, name); !strings.HasPrefix(problem, "no variable overrides a list") {
			t.Errorf("the error of %s is %q", name, problem)
		}
	}
	slices.Sort(got)
	want := []string{
		"POSTRIDER_ALERTS_LABELS_ACME_DEAD", "POSTRIDER_EVENTS_BUS_URL", "POSTRIDER_EVENTS_CRM_URL",
		"POSTRIDER_NOTIFY_TO", "POSTRIDER_OAUTH_GOOGLE_CLIENT_ID", "POSTRIDER_ROUTES_ALL_TO",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the refused variables are %q, want %q", got, want)
	}
}

// TestUnknownVariables are refused when they are nearly a key; others are somebody's own, such as
// the password of an inbox.
func TestUnknownVariables(t *testing.T) {
	set := []string{
		"POSTRIDER_ALERTS_DEED", "1", "POSTRIDER_SMTP_PROT", "25", "POSTRIDER_IMAP_DESK_PASSWORD", "sesame",
		"POSTRIDER_RETRY_BASSE", "", "POSTRIDER_ALERTS_DEAD", "1",
		"POSTRIDER_CONFIG", "x", "POSTRIDER_OF_MY_OWN", "x", "POSTRIDER_IMAP_PROXI", "direct", "OTHER_ALERTS_FOO", "1",
	}
	names := []string{}
	for i := 0; i < len(set); i += 2 {
		names = append(names, set[i])
	}
	t.Setenv("POSTRIDER_IMAP_PROXI", "direct")
	_, err := loadFile(write(t, minimal+"imap: {proxy: env:POSTRIDER_IMAP_PROXI}\n"), variables(set...), names...)
	lines := strings.Split(fmt.Sprint(err), "\n")
	if len(lines) != 2 ||
		lines[0] != "POSTRIDER_ALERTS_DEED: alerts.deed: unknown key; did you mean POSTRIDER_ALERTS_DEAD?" ||
		lines[1] != "POSTRIDER_SMTP_PROT: smtp.prot: unknown key; did you mean POSTRIDER_SMTP_PORT?" {
		t.Errorf("the errors are %q; want those of the two that are no keys, and what was meant", lines)
	}
}
