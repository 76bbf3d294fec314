package cmd

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

// typing is what somebody types when the terminal asks for it.
type typing struct{ asked, types string }

// conversation runs a command at a terminal. Each line is typed when its question is there.
func conversation(t *testing.T, dir, dns string, lines []typing, args ...string) (code int, shown string) {
	t.Helper()
	const theEnd = "\x00"
	tty, person := pty(t)
	done := make(chan string)
	go func() {
		var all strings.Builder
		block, from := make([]byte, 4<<10), 0
		for {
			n, err := person.Read(block)
			all.Write(block[:n])
			if len(lines) > 0 && strings.Contains(all.String()[from:], lines[0].asked) {
				from = all.Len()
				_, _ = person.WriteString(lines[0].types)
				lines = lines[1:]
			}
			if shown, ended := strings.CutSuffix(all.String(), theEnd); ended || err != nil {
				done <- shown
				return
			}
		}
	}()
	env := map[string]string{"POSTRIDER_DNS_SERVER": dns}
	a := &app{in: tty, out: tty, err: tty, env: func(name string) (string, bool) { v, ok := env[name]; return v, ok }}
	code = a.run(t.Context(), append([]string{"-c", filepath.Join(dir, "postrider.yaml"), "init"}, args...))
	if _, err := tty.WriteString(theEnd); err != nil { // closing it could lose what was not read yet
		t.Fatal(err)
	}
	return code, strings.ReplaceAll(<-done, "\r\n", "\n")
}

// TestInitAtATerminal: init asks what no flag gives, again where an answer is wrong, shows the
// file, and writes it when that is confirmed. It never shows the password.
func TestInitAtATerminal(t *testing.T) {
	sink, err := smtpsink.Start(smtpsink.Options{
		Auth: []string{"PLAIN"}, Users: map[string]string{"a@firm.example": "s3cret", "ann": "s3cret"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sink.Close)
	dns := testserver.NameServer(t, nil)
	dns.SetMX(t, "customer.example", "aspmx.l.google.com", 1)
	local := []string{"--smtp-port", strconv.Itoa(sink.Port()), "--smtp-security", "none"}
	given := func(username string, more ...string) []string {
		flags := []string{"--from", "a@firm.example", "--smtp-host", "127.0.0.1", "--smtp-username", username}
		return slices.Concat(flags, more, local)
	}
	const (
		sender   = "Sender of forwarded mail"
		offered  = "Use this relay? [Y/n] "
		relay    = "Relay (the name"
		username = "Username at the relay"
		password = "Password of "
		to       = "Who gets the mail"
	)
	tests := []struct {
		name  string
		args  []string
		lines []typing
		code  int
		shows string
		file  string // a part of it; empty for no file
		pass  string // in the file beside it
	}{
		{
			"all is asked", local,
			[]typing{
				{sender, "ann\r"},
				{sender, "A <a@firm.example>\r"},
				{relay, "a@b.example\r"},
				{relay, "127.0.0.1:25\r"},
				{relay, "127.0.0.1\r"},
				{username, "\r"},
				{password, "s3cret\r"},
				{to, "b@firm.example\r"},
				{"? [y/N] ", "y\r"},
			},
			exitOK,
			`(?s)\n"ann" is not an address.*\nthe value is not a host; give a name or address\n.*` +
				`\nthe port is given twice; .*Username at the relay, or none \[a@firm.example\]: .*` +
				`    smtp: .*ok +relay: 127.0.0.1:\d+.*\nWrite .*postrider.yaml\? \[y/N\] y\nWrote .*` +
				`\npostrider -c .*postrider.yaml inbox add ADDR\n$`,
			"username: a@firm.example\n", "s3cret\n",
		},
		{
			"a relay with its port",
			[]string{"--no-check"},
			[]typing{
				{sender, "a@firm.example\r"},
				{relay, "smtp.firm.example:465\r"},
				{username, "none\r"},
				{to, "b@firm.example\r"},
				{"? [y/N] ", "y\r"},
			},
			exitOK, `Wrote `,
			"host: smtp.firm.example\n" +
				"  port: 465                       # 587 with starttls, 465 with tls, 25 with none\n  security: tls  ",
			"",
		},
		{
			"not confirmed", given("none", "--to", "b@firm.example"),
			[]typing{{"? [y/N] ", "n\r"}},
			exitFailed, `not confirmed; nothing was changed\n$`, "", "",
		},
		{
			"the relay refuses the login, written all the same", given("ann", "--to", "b@firm.example", "--yes"),
			[]typing{{password, "wr0ng\r"}, {"? [y/N] ", "y\r"}},
			exitOK, `(?s)FAILED +relay: .*The relay failed its test. Write .* all the same\? \[y/N\] `,
			"username: ann\n", "wr0ng\n",
		},
		{
			"a reference in place of the password", given("ann", "--to", "b@firm.example", "--yes"),
			[]typing{{password, "\r"}, {password, "env:NO_SUCH_SECRET\r"}, {password, "command:echo s3cret\r"}},
			exitOK,
			`(?s)\nenvironment variable NO_SUCH_SECRET is not set.*password: command:echo\n.*ok +relay`,
			"password: command:echo s3cret\n", "",
		},
		{
			"the relay of the provider",
			[]string{"--no-check"},
			[]typing{
				{sender, "a@customer.example\r"},
				{offered, "\r"},
				{username, "none\r"},
				{to, "b@firm.example\r"},
				{"? [y/N] ", "y\r"},
			},
			exitOK,
			`(?s)The relay of a@customer.example seems to be smtp.gmail.com:465 tls \(the MX of customer.example, `,
			"host: smtp.gmail.com\n  port: 465 ", "",
		},
		{
			"another relay than that of the provider",
			[]string{"--no-check"},
			[]typing{
				{sender, "a@customer.example\r"},
				{offered, "n\r"},
				{relay, "smtp.firm.example\r"},
				{username, "none\r"},
				{to, "b@firm.example\r"},
				{"? [y/N] ", "y\r"},
			},
			exitOK, `Wrote `, "host: smtp.firm.example\n  # port: 587", "",
		},
		{
			"no answer about the relay", nil,
			[]typing{{sender, "a@customer.example\r"}, {offered, "\x04"}, {relay, "\x04"}},
			exitUsage, `postrider: --smtp-host was not given; nothing was written\n$`, "", "",
		},
		{
			"no answer", nil,
			[]typing{{sender, "\x04"}},
			exitUsage, `postrider: --from was not given; nothing was written\n$`, "", "",
		},
		{
			"no password", given("ann"),
			[]typing{{password, "\x04"}},
			exitUsage, `no password was given; nothing was written\n$`, "", "",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			code, shown := conversation(t, dir, dns.Address, tt.lines, tt.args...)
			if code != tt.code || !regexp.MustCompile(tt.shows).MatchString(shown) {
				t.Errorf("exit code %d, it shows\n%s\nwant %d and %s", code, shown, tt.code, tt.shows)
			}
			if strings.Contains(shown, "s3cret") || strings.Contains(shown, "wr0ng") {
				t.Errorf("it shows the password:\n%s", shown)
			}
			wantFile(t, filepath.Join(dir, "postrider.yaml"), tt.file)
			wantFile(t, filepath.Join(dir, "smtp-password"), tt.pass)
		})
	}
}

// wantFile wants a file with that text and mode 0600; empty for none.
func wantFile(t *testing.T, path, text string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if text == "" {
		if err == nil {
			t.Errorf("%s was written:\n%s", path, got)
		}
		return
	}
	info, statErr := os.Stat(path)
	if err != nil || statErr != nil || !strings.Contains(string(got), text) || info.Mode().Perm() != 0o600 {
		t.Errorf("%s: %v, %v, it holds\n%s\nwant mode 0600, and %q", path, err, info, got, text)
	}
}
