package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"postrider/internal/testserver"
	"postrider/internal/testserver/memimap"
	"postrider/internal/testserver/smtpsink"

	pretty "github.com/jedib0t/go-pretty/v6/text"
)

// person is somebody at a terminal. Each command has a terminal of its own.
type person struct {
	t    *testing.T
	cols int
	dir  string // of the configuration; copied for each command
}

// env is the environment of the commands: without colours, which have a test of their own.
func (p *person) env(name string) (string, bool) {
	if name == "NO_COLOR" {
		return "1", true
	}
	return "", false
}

// atTerminal runs a command in dir and returns its exit code and what the terminal shows. The
// person types when there is a question; the terminal does not echo that.
func (p *person) atTerminal(ctx context.Context, dir, types string, args []string) (code int, shown string) {
	p.t.Helper()
	tty, typed := pty(p.t)
	size := unix.Winsize{Row: 24, Col: uint16(p.cols)}
	if err := unix.IoctlSetWinsize(int(typed.Fd()), unix.TIOCSWINSZ, &size); err != nil {
		p.t.Fatal(err)
	}
	quiet, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	if err != nil {
		p.t.Fatal(err)
	}
	quiet.Lflag &^= unix.ECHO
	if err := unix.IoctlSetTermios(int(tty.Fd()), unix.TCSETS, quiet); err != nil {
		p.t.Fatal(err)
	}
	out := make(chan string)
	go func() { out <- answer(typed, types) }()
	a := &app{in: tty, out: tty, err: tty, env: p.env}
	code = a.run(ctx, append([]string{"-c", filepath.Join(dir, "postrider.yaml")}, args...))
	_ = tty.Close()
	return code, strings.ReplaceAll(<-out, "\r\n", "\n")
}

// answer reads what is shown, until the terminal is closed, and types after the question.
func answer(terminal *os.File, types string) string {
	var all strings.Builder
	block, answered := make([]byte, 4<<10), false
	for {
		n, err := terminal.Read(block)
		all.Write(block[:n])
		asked := strings.Contains(all.String(), " [y/N] ") || strings.Contains(all.String(), "Password of ")
		if asked && !answered {
			_, _ = terminal.WriteString(cmp.Or(types, "\x04")) // a command without an answer fails, and does not wait
			answered = true
		}
		if err != nil {
			return all.String()
		}
	}
}

// TestEveryCommandAtATerminal runs every command at a terminal, wide and narrow, in each state: it
// ends with the right code, says something, and shows no log lines, no stray control characters,
// and no table that is wider than the terminal.
func TestEveryCommandAtATerminal(t *testing.T) {
	everyCommandHasACase(t)
	for _, state := range terminalStates {
		home := t.TempDir()
		w := newTerminalWorld(t, home, state)
		for _, cols := range []int{80, 50} {
			for _, tt := range terminalCases {
				t.Run(fmt.Sprintf("%s/%d/%s", state, cols, tt.args), func(t *testing.T) {
					p := &person{t: t, cols: cols, dir: w}
					p.try(tt, state)
				})
			}
		}
	}
}

func everyCommandHasACase(t *testing.T) {
	root := (&app{out: io.Discard, err: io.Discard}).rootCommand()
	root.InitDefaultCompletionCmd()
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		path := strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), "postrider"), " ")
		has := slices.ContainsFunc(terminalCases, func(tt terminalCase) bool {
			found, _, err := root.Find(strings.Fields(tt.args))
			return err == nil && found == c
		})
		if !has && !slices.Contains(elsewhere, path) {
			t.Errorf("`postrider %s` has no case in terminalCases: add how it ends in each state", path)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
}

func (p *person) try(tt terminalCase, state string) {
	t := p.t
	dir := filepath.Join(t.TempDir(), "copy")
	if err := os.Mkdir(dir, 0o700); err != nil { // what CopyFS copies can be read by all
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(p.dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "postrider.key"), 0o600); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	args := strings.Fields(strings.ReplaceAll(tt.args, "FOLDER", dir))
	code, shown := p.atTerminal(t.Context(), dir, tt.types, args)
	want := strings.Fields(tt.codes)[slices.Index(terminalStates, state)]
	if strconv.Itoa(code) != want {
		t.Errorf("exit code %d, want %s; it shows:\n%s", code, want, shown)
	}
	if pattern := tt.shows[state]; !regexp.MustCompile(pattern).MatchString(shown) {
		t.Errorf("it shows\n%q\nwant %s", shown, pattern)
	}
	if strings.TrimSpace(shown) == "" {
		t.Error("it shows nothing")
	}
	p.wantReadable(shown, args)
}

var (
	logLine = regexp.MustCompile(`(?m)(^time=|\blevel=(WARN|ERROR|INFO)|^{"time":)`)
	drawn   = regexp.MustCompile(`^[─│┌┐└┘├┤┬┴┼]`)
)

func (p *person) wantReadable(shown string, args []string) {
	t := p.t
	if logLine.MatchString(shown) {
		t.Errorf("there are log lines:\n%s", shown)
	}
	for line := range strings.Lines(shown) {
		line, widest := onScreen(strings.TrimSuffix(line, "\n"))
		if i := strings.IndexFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }); i >= 0 {
			t.Errorf("a control character %q is in %q", line[i], line)
		}
		if drawn.MatchString(line) && widest > p.cols || strings.HasPrefix(line, "forwarding ") && widest > p.cols {
			t.Errorf("`%s`: a line has %d columns, want at most %d: %s", strings.Join(args, " "), widest, p.cols, line)
		}
	}
}

// onScreen is what is left of a line after each carriage return begins it again, and the width of
// its widest version.
func onScreen(line string) (left string, widest int) {
	var screen []rune
	for _, version := range strings.Split(line, "\r") {
		widest = max(widest, pretty.StringWidthWithoutEscSequences(version))
		for at, r := range []rune(version) {
			if at == len(screen) {
				screen = append(screen, 0)
			}
			screen[at] = r
		}
	}
	return strings.TrimRight(string(screen), " "), widest
}

// newTerminalWorld makes a folder with the configuration and the database of a state. Its servers
// run until the test is over.
func newTerminalWorld(t *testing.T, dir, state string) string {
	t.Helper()
	imap, err := memimap.Start(memimap.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(imap.Close)
	sink, err := smtpsink.Start(smtpsink.Options{Reply: reply})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sink.Close)
	files := map[string]string{
		"inboxes.csv": "address,host,password\nnew@firm.example,127.0.0.1,env:PASSWORD\n",
		"people.csv":  "name,email\nCyd,cyd@firm.example\n",
		"mail.eml":    string(clerkMail("a hearing for Bob \x1b[2J")),
		"postrider.yaml": fmt.Sprintf(`
smtp: {host: 127.0.0.1, port: %d, security: none}
dns: {server: "%s"}
forward: {from: forwarder@firm.example}
routes:
  - {name: refused, match: {subject: refuse}, to: [nobody@firm.example]}
  - {name: later, match: {subject: later}, to: [later@firm.example]}
  - {name: all, match: {}, to: [intake@firm.example]}
`, sink.Port(), testserver.NameServer(t, nil).Address),
	}
	if state == idle { // else a refused recipient makes check fail
		accepted := strings.NewReplacer("nobody@", "second@", "later@", "third@")
		files["postrider.yaml"] = accepted.Replace(files["postrider.yaml"])
	}
	write := func(name string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(files[name]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name := range files {
		write(name)
	}
	mail := func(subjects ...string) {
		for _, s := range subjects {
			if _, err := imap.Append(deskUser, "INBOX", clerkMail(s)); err != nil {
				t.Fatal(err)
			}
		}
	}
	quietly := func(want int, args ...string) {
		var out strings.Builder
		a := &app{in: strings.NewReader("sesame"), out: &out, err: &out, env: noEnv}
		code := a.run(t.Context(), append([]string{"-c", filepath.Join(dir, "postrider.yaml")}, args...))
		if code != want {
			t.Fatalf("`%s` ends with %d, want %d: %s", strings.Join(args, " "), code, want, &out)
		}
	}
	if err := imap.AddUser(deskUser, deskPassword); err != nil {
		t.Fatal(err)
	}
	quietly(0, "inbox", "add", deskUser, "--host", "127.0.0.1", "--port", strconv.Itoa(imap.Port()),
		"--security", "none", "--password-stdin", "--start", "all")
	quietly(0, "contact", "add", "Bob")
	if state == idle {
		mail("one", "two")
		quietly(0, "run")
		return dir
	}
	mail("one", "refuse")
	quietly(exitRetry, "run")
	mail("new", "refuse again", "later")
	switch state {
	case unreached:
		imap.Close()
		sink.Close()
	case badLogin:
		if err := imap.AddUser(deskUser, "another"); err != nil {
			t.Fatal(err)
		}
	case misconfig:
		files["postrider.yaml"] += "rouets: []\nretry: {base: soon}\n"
		write("postrider.yaml")
	case noDatabase:
		files["postrider.yaml"] += "database: {path: nowhere/postrider.db}\n"
		write("postrider.yaml")
	}
	return dir
}
