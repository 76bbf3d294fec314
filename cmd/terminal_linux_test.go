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
	if err := unix.IoctlSetWinsize(int(typed.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: uint16(p.cols)}); err != nil {
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
		if asked := strings.Contains(all.String(), " [y/N] ") || strings.Contains(all.String(), "Password of "); asked && !answered {
			_, _ = terminal.WriteString(cmp.Or(types, "\x04")) // a command without an answer fails, and does not wait
			answered = true
		}
		if err != nil {
			return all.String()
		}
	}
}

// The states that every command is run in.
const (
	idle       = "idle"       // all mail is forwarded
	working    = "working"    // there is new mail, and tasks that need an operator
	unreached  = "unreached"  // the inbox and the relay do not answer
	badLogin   = "bad login"  // the server refuses the password, and there is no folder of that name
	misconfig  = "misconfig"  // the configuration has errors
	noDatabase = "noDatabase" // the database cannot be opened
)

var terminalStates = []string{idle, working, unreached, badLogin, misconfig, noDatabase}

// terminalCase is a command, and what it ends with in each state. What it shows is a regular
// expression; in any state it shows something.
type terminalCase struct {
	args  string
	types string // the answer to its question
	codes string // exit codes in the states, in their order
	shows map[string]string
}

// terminalCases has every command; a command without a case fails the test. Where there is a
// question it is answered with yes.
var terminalCases = []terminalCase{
	{"run", "", "0 75 75 75 2 1", map[string]string{
		idle:      `^Nothing new and nothing due\.\n$`,
		working:   `(?is)REGISTER.*DEAD.*\n1 dead: postrider task list --status dead\n1 to be retried: postrider task list --status error --status received\n$`,
		unreached: `(?s)^desk@firm\.example: connect: .*failed, see above`,
		badLogin:  `(?s)^desk@firm\.example: log in as desk@firm\.example: the server refused the password .*postrider inbox set desk@firm\.example --password-stdin`,
	}},
	{"run -v", "", "0 75 75 75 2 1", map[string]string{idle: `desk@firm\.example: logged in \(server `, working: `message forwarded \(task \d+, folder INBOX,`}},
	{"run --dry-run", "", "0 0 75 75 2 1", map[string]string{idle: `^There is nothing new and nothing due: a run would forward nothing\.\n$`, working: `"new": would be forwarded to intake@firm\.example by route all\n`}},
	{"run --json", "", "0 75 75 75 2 1", map[string]string{working: `^{"started_at"`}},
	{"watch --timeout 3s --listen 127.0.0.1:0", "", "0 0 75 75 2 1", map[string]string{idle: `^The status page is at http://127\.0\.0\.1:\d+/\nWatching; Ctrl-C ends it\.\n$`, unreached: `desk@firm\.example: .*connect: `}},
	{"status", "", "0 0 0 0 2 1", map[string]string{working: `(?m)^1 dead: postrider task list --status dead$`}},
	{"status --failing", "", "0 0 0 0 2 1", map[string]string{idle: `^1 inbox ok\n$`, working: `^0 inboxes ok, 1 with trouble\n`}},
	{"status --label tenant=acme", "", "2 2 2 2 2 1", map[string]string{idle: `^postrider: no inbox has a label; set one with`}},
	{"metrics", "", "0 0 0 0 2 1", map[string]string{idle: `(?s)^# HELP postrider_build_info .*# EOF\n$`}},
	{"audit", "", "0 0 75 75 2 1", map[string]string{
		working:   `\bnew\b`,
		unreached: `(?s)^desk@firm\.example: connect: .*failed, see above`,
		badLogin:  `(?s)^desk@firm\.example: log in as desk@firm\.example: the server refused the password .*failed, see above`,
	}},
	{"audit --list", "", "0 0 75 75 2 1", nil},
	{"check", "", "0 75 75 75 2 75", map[string]string{idle: `(?m)^ok +inbox desk@firm\.example: logged in to .* and opened INBOX$`, unreached: `(?m)^FAILED +relay: `}},
	{"migrate", "", "0 0 0 0 2 1", nil},
	{"migrate --status", "", "0 0 0 0 2 1", nil},
	{"recipient", "", "0 0 0 0 0 0", nil},
	{"recipient list", "", "0 0 0 0 2 1", map[string]string{idle: `^No recipient has bounced too often\.\n$`}},
	{"recipient resume gone@other.example", "", "1 1 1 1 2 1", map[string]string{idle: `gone@other\.example is not suspended; `}},
	{"event", "", "0 0 0 0 0 0", nil},
	{"event list", "", "0 0 0 0 2 1", map[string]string{idle: `^There are no events\. The sections events and after`}},
	{"event show 1", "", "1 1 1 1 2 1", map[string]string{idle: `^postrider: there is no event 1; `}},
	{"event retry 1", "", "1 1 1 1 2 1", map[string]string{idle: `event 1: not changed, there is no such event`}},
	{"event skip --destination imap", "", "0 0 0 0 2 1", map[string]string{idle: `^No event matches; nothing was changed\.\n$`}},
	{"event skip --destination crm", "", "2 2 2 2 2 1", map[string]string{idle: `there is no destination "crm"`}},
	{"event purge --status waiting", "", "2 2 2 2 2 2", map[string]string{idle: `is not for events that are waiting, but for done, dead or skipped`}},
	{"event enable crm", "", "2 2 2 2 2 1", map[string]string{idle: `^postrider: there is no destination "crm", neither in the configuration nor among the events`}},
	{"inbox add new@firm.example --host 127.0.0.1 --security none --no-check", "sesame\r", "0 0 0 0 2 1", map[string]string{idle: `Added new@firm\.example\.`}},
	{"inbox add new@firm.example", "", "2 2 2 2 2 1", map[string]string{idle: `^postrider: no IMAP server was found for firm\.example \(no MX record; .*\); give it with --host HOST\n$`}},
	{"inbox login desk@firm.example", "", "2 2 2 2 2 1", map[string]string{idle: `^postrider: inbox desk@firm\.example logs in with a password; to use OAuth2: `}},
	{"smtp login", "", "2 2 2 2 2 1", map[string]string{idle: `^postrider: the relay does not log in with OAuth2; set smtp\.auth to oauth`}},
	{"serve --listen 0.0.0.0:0", "", "2 2 2 2 2 2", map[string]string{idle: `^postrider: 0\.0\.0\.0:0 can be reached from other hosts, and no login would be needed;`}},
	{"inbox list", "", "0 0 0 0 2 1", nil},
	{"inbox show desk@firm.example", "", "0 0 0 0 2 1", nil},
	{"inbox show deks@firm.example", "", "2 2 2 2 2 1", map[string]string{idle: `did you mean desk@firm\.example\?`}},
	{"inbox set desk@firm.example --description new", "", "0 0 0 0 2 1", map[string]string{idle: `^Changed desk@firm\.example\.`}},
	{"inbox enable desk@firm.example", "", "0 0 0 0 2 1", map[string]string{idle: `^Enabled `}},
	{"inbox disable desk@firm.example", "", "0 0 0 0 2 1", map[string]string{idle: `^Disabled `}},
	{"inbox remove desk@firm.example", "y\r", "0 0 0 0 2 1", map[string]string{idle: `Removed desk@firm\.example with its 2 tasks`}},
	{"inbox check desk@firm.example", "", "0 0 1 1 2 1", map[string]string{idle: `the cursor is at UID 2 with 0 messages above it`}},
	{"inbox rewind desk@firm.example --to-start", "y\r", "0 0 1 1 2 1", map[string]string{
		idle:     `(?s)Rewind inbox desk@firm\.example\? .*Done: the cursor of desk@firm\.example INBOX is at UID 0\. All messages above it are registered already`,
		working:  `The next run registers 3 messages`,
		badLogin: `^postrider: .*the server refused the password`,
	}},
	{"inbox import FOLDER/inboxes.csv", "y\r", "0 0 0 0 2 1", map[string]string{idle: `Done: 1 new, 0 changed, 0 unchanged\.\n$`}},
	{"inbox import --from fetchmailrc FOLDER/fetchmailrc", "y\r", "2 2 2 2 2 2", map[string]string{idle: `^postrider: import inboxes: nothing was changed:\nopen .*fetchmailrc: no such file`}},
	{"inbox export", "", "0 0 0 0 2 1", map[string]string{idle: `^address,host,port,security,`}},
	{"task list", "", "0 0 0 0 2 1", map[string]string{working: `(?m)│ dead +│|^state +dead$`}},
	{"task list --from clerk@ --to intake --subject ONE --since 1d", "", "0 0 0 0 2 1", map[string]string{idle: `(?m)│ forwarded +│|^state +forwarded$`}},
	{"task list --status uncertain", "", "0 0 0 0 2 1", map[string]string{idle: `^No message matches;`}},
	{"task show 1", "", "0 0 0 0 2 1", nil},
	{"task show 99", "", "1 1 1 1 2 1", map[string]string{idle: `^postrider: there is no task 99;`}},
	{"task retry 2", "", "1 0 0 0 2 1", map[string]string{idle: `^task 2: not changed, it is forwarded`, working: `^task 2: requeued`}},
	{"task skip --status dead", "y\r", "0 0 0 0 2 1", map[string]string{idle: `^No task matches; nothing was changed\.\n$`, working: `1 task changed\.\n$`}},
	{"task resolve 2 --delivered", "", "1 1 1 1 2 1", nil},
	{"task purge --older-than 0s", "y\r", "0 0 0 0 2 1", map[string]string{idle: `2 tasks deleted\.\n$`}},
	{"contact add Ann --email ann@firm.example", "", "0 0 0 0 2 1", map[string]string{idle: `^Added Ann <ann@firm\.example>\.\n$`}},
	{"contact list", "", "0 0 0 0 2 1", nil},
	{"contact remove Bob", "y\r", "0 0 0 0 2 1", map[string]string{idle: `Removed Bob\.\n$`}},
	{"contact import FOLDER/people.csv", "y\r", "0 0 0 0 2 1", map[string]string{idle: `Done: 1 new, `}},
	{"route test FOLDER/mail.eml --no-dns", "", "0 0 0 0 2 0", nil},
	{"route test FOLDER/nowhere.eml", "", "2 2 2 2 2 2", nil},
	{"route replay", "", "0 0 75 75 2 1", nil},
	{"srs decode x@firm.example", "", "2 2 2 2 2 2", nil},
	{"init", "", "2 2 2 2 2 2", map[string]string{idle: `^postrider: .*postrider\.yaml exists already, and init never replaces a file; edit it,`}},
	{"init --output FOLDER/new.yaml --smtp-host 127.0.0.1 --smtp-port 1 --smtp-security none --smtp-username none --from a@firm.example --to b@firm.example", "y\r", "0 0 0 0 0 0", map[string]string{
		idle: `(?s)\nFAILED  relay: .*The relay failed its test\. Write .*new\.yaml all the same\? .*Wrote .*new\.yaml\. To add an inbox:\npostrider -c .*new\.yaml inbox add ADDR\n$`,
	}},
	{"version", "", "0 0 0 0 0 0", nil},
	{"completion", "", "0 0 0 0 0 0", nil},
	{"completion bash", "", "0 0 0 0 0 0", nil},
	{"completion zsh", "", "0 0 0 0 0 0", nil},
	{"completion fish", "", "0 0 0 0 0 0", nil},
	{"completion powershell", "", "0 0 0 0 0 0", nil},
	{"help run", "", "0 0 0 0 0 0", nil},
	{"", "", "0 0 0 0 0 0", nil},
	{"inbox", "", "0 0 0 0 0 0", nil},
	{"task", "", "0 0 0 0 0 0", nil},
	{"contact", "", "0 0 0 0 0 0", nil},
	{"route", "", "0 0 0 0 0 0", nil},
	{"srs", "", "0 0 0 0 0 0", nil},
	{"smtp", "", "0 0 0 0 0 0", nil},
	{"nonsense", "", "2 2 2 2 2 2", map[string]string{idle: "^postrider: unknown command \"nonsense\""}},
	{"run --foo", "", "2 2 2 2 2 2", map[string]string{idle: "^postrider: unknown flag: --foo; see `postrider run --help`\n$"}},
}

// elsewhere are commands that have a test of their own: they start processes of this program.
var elsewhere = []string{"demo"}

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
		"mail.eml":    string(testserver.Mail("clerk@court.example", deskUser, "a hearing for Bob \x1b[2J", "The body.")),
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
		files["postrider.yaml"] = strings.ReplaceAll(strings.ReplaceAll(files["postrider.yaml"], "nobody@", "second@"), "later@", "third@")
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
			if _, err := imap.Append(deskUser, "INBOX", testserver.Mail("clerk@court.example", deskUser, s, "The body.")); err != nil {
				t.Fatal(err)
			}
		}
	}
	quietly := func(want int, args ...string) {
		var out strings.Builder
		a := &app{in: strings.NewReader("sesame"), out: &out, err: &out, env: func(string) (string, bool) { return "", false }}
		if code := a.run(t.Context(), append([]string{"-c", filepath.Join(dir, "postrider.yaml")}, args...)); code != want {
			t.Fatalf("`%s` ends with %d, want %d: %s", strings.Join(args, " "), code, want, &out)
		}
	}
	if err := imap.AddUser(deskUser, deskPassword); err != nil {
		t.Fatal(err)
	}
	quietly(0, "inbox", "add", deskUser, "--host", "127.0.0.1", "--port", strconv.Itoa(imap.Port()), "--security", "none", "--password-stdin", "--start", "all")
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
