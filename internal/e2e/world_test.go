// Package e2e proves the main job through the built binary, on real servers.
package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	_ "postrider/cmd" // so that a cached test result is not used after a change of the program
	"postrider/internal/db"
	"postrider/internal/oauth"
	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

// binary is postrider, built once for all tests of the package.
var binary string

func TestMain(m *testing.M) { testserver.Main(program{m}) }

// program builds the binary before the tests and removes it after them.
type program struct{ *testing.M }

func (p program) Run() int {
	dir, err := os.MkdirTemp("", "postrider-e2e-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if binary, err = testserver.BuildPostrider(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return p.M.Run()
}

// databases are the kinds that a test runs on. Each returns the section database of a
// configuration.
var databases = map[string]func(t *testing.T, dir string) string{
	"sqlite": func(_ *testing.T, dir string) string {
		return "driver: sqlite, path: '" + filepath.Join(dir, "postrider.db") + "'"
	},
	"mariadb": func(t *testing.T, _ string) string {
		return "driver: mysql, dsn: \"" + testserver.MariaDB(t).NewDatabase(t) + "\""
	},
	"mysql": func(t *testing.T, _ string) string {
		return "driver: mysql, dsn: \"" + testserver.MySQL(t).NewDatabase(t) + "\""
	},
	"galera": func(t *testing.T, _ string) string { // its first node
		return "driver: mysql, dsn: \"" + testserver.GaleraCluster(t).NewDatabase(t)[0] + "\""
	},
	"balancer": func(t *testing.T, _ string) string { // in front of all nodes
		g := testserver.GaleraCluster(t)
		return "driver: mysql, dsn: \"" + g.Balancer(t, g.NewDatabase(t)[0]) + "\""
	},
}

// onEach runs a test on every kind of database, in parallel: each kind has its own server.
func onEach(t *testing.T, kinds []string, test func(t *testing.T, w *world)) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, newWorld(t, kind))
		})
	}
}

var all = []string{"sqlite", "mariadb", "mysql"}

// world is one installation of postrider with its servers.
type world struct {
	t        *testing.T
	dir      string
	imap     *testserver.IMAP
	sink     *smtpsink.Server
	database string               // the section of the configuration
	imapPort int                  // where inboxes connect: Dovecot, or a proxy in front of it
	proxy    *testserver.CutProxy // that proxy; nil for none
	smtpPort int
	smtp     string // section smtp, if it is not a relay on smtpPort without TLS and login
	extra    string // more configuration
	routes   string
	app      *oauth.App    // that the inbox logs in with
	patience time.Duration // of a program that is started; 0: 3 minutes
	output   *os.File      // of programs that are started, in place of what a result has
}

const password = "correct horse"

func newWorld(t *testing.T, kind string) *world {
	t.Helper()
	w := &world{
		t: t, dir: t.TempDir(), imap: testserver.Dovecot(t),
		routes: "  - {name: all, match: {}, to: [intake@firm.example]}\n",
	}
	w.database = databases[kind](t, w.dir)
	w.imapPort = w.imap.Port
	w.startSink(nil)
	w.configure()
	w.must(0, "migrate")
	return w
}

// startSink starts a relay that answers as reply says, and makes it the one in the configuration.
func (w *world) startSink(reply func(smtpsink.Event) smtpsink.Action) {
	w.t.Helper()
	sink, err := smtpsink.Start(smtpsink.Options{
		Extensions: []string{"8BITMIME", "SMTPUTF8", "PIPELINING", "SIZE 104857600"}, KeepData: true, Reply: reply,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(sink.Close)
	w.sink, w.smtpPort = sink, sink.Port()
}

// holdFirst starts a relay that holds back its reply to the first content: at is closed when it has
// the content, and it replies when answer is closed.
func (w *world) holdFirst() (at, answer chan struct{}) {
	w.t.Helper()
	at, answer = make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	w.startSink(func(e smtpsink.Event) smtpsink.Action {
		if e.Stage != "dot" || !once.CompareAndSwap(false, true) {
			return smtpsink.Action{}
		}
		close(at)
		return smtpsink.Action{Block: answer}
	})
	return at, answer
}

// configure writes the configuration file.
func (w *world) configure() {
	w.t.Helper()
	smtp := cmp.Or(w.smtp, fmt.Sprintf("host: 127.0.0.1, port: %d, security: none", w.smtpPort))
	text := fmt.Sprintf(`database: {%s}
smtp: {%s}
forward: {from: forwarder@firm.example}
secrets: {key_file: postrider.key}
%s
routes:
%s`, w.database, smtp, w.extra, w.routes)
	w.write("postrider.yaml", text)
}

// write replaces a file in one step: a process that runs may be reading it.
func (w *world) write(name, text string) {
	w.t.Helper()
	path := w.path(name)
	if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

// addInbox makes an account on the server and an inbox for it.
func (w *world) addInbox(address string, flags ...string) {
	w.t.Helper()
	w.imap.AddUser(w.t, address, password)
	args := append([]string{
		"inbox", "add", address, "--host", "127.0.0.1", "--port", fmt.Sprint(w.imapPort),
		"--security", "none", "--no-check", "--password-stdin",
	}, flags...)
	res := w.start(strings.NewReader(password+"\n"), args...).wait()
	if res.code != 0 {
		w.t.Fatalf("postrider %s: exit %d\n%s%s", strings.Join(args, " "), res.code, res.stdout, res.stderr)
	}
}

// result is the result of one run of the program.
type result struct {
	code           int
	stdout, stderr string
}

// process is the program while it runs.
type process struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr output
	over           chan struct{} // closed when it has ended
	err            error         // how it ended
}

func (w *world) start(stdin *strings.Reader, args ...string) *process {
	w.t.Helper()
	if stdin == nil {
		return w.startReading(nil, args...)
	}
	return w.startReading(stdin, args...)
}

func (w *world) startReading(stdin io.Reader, args ...string) *process {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(w.patience, 3*time.Minute))
	w.t.Cleanup(cancel)
	args = append([]string{"-c", w.path("postrider.yaml")}, args...)
	p := &process{t: w.t, over: make(chan struct{}), cmd: exec.CommandContext(ctx, binary, args...)}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if w.output != nil {
		p.cmd.Stdout, p.cmd.Stderr = w.output, w.output
	}
	p.cmd.Dir = w.dir
	if stdin != nil {
		p.cmd.Stdin = stdin
	}
	if err := p.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.over)
	}()
	return p
}

// ended is closed when the program has ended.
func (p *process) ended() <-chan struct{} { return p.over }

func (p *process) wait() result {
	p.t.Helper()
	<-p.over
	var exit *exec.ExitError
	if p.err != nil && !errors.As(p.err, &exit) {
		p.t.Fatal(p.err)
	}
	return result{p.cmd.ProcessState.ExitCode(), p.stdout.String(), p.stderr.String()}
}

// must runs the program and expects an exit code.
func (w *world) must(code int, args ...string) result {
	w.t.Helper()
	res := w.start(nil, args...).wait()
	if res.code != code {
		w.t.Fatalf("postrider %s: exit %d, want %d\nstdout: %s\nstderr: %s",
			strings.Join(args, " "), res.code, code, res.stdout, res.stderr)
	}
	if strings.Contains(res.stdout+res.stderr, password) {
		w.t.Errorf("postrider %s printed the password", strings.Join(args, " "))
	}
	return res
}

// report is what `run --json` prints, as a script reads it.
type report struct {
	StartedAt  time.Time `json:"started_at"`
	DurationMS int64     `json:"duration_ms"`
	RelayError string    `json:"relay_error"`
	Totals     counters  `json:"totals"`
	Inboxes    []struct {
		Email string `json:"email"`
		Error string `json:"error"`
		counters
	} `json:"inboxes"`
}

type counters struct {
	Registered     int `json:"registered"`
	Forwarded      int `json:"forwarded"`
	SkippedNoMatch int `json:"skipped_no_match"`
	Skipped        int `json:"skipped"`
	Retry          int `json:"retry"`
	Dead           int `json:"dead"`
	Uncertain      int `json:"uncertain"`
	Backlog        int `json:"backlog"`
}

// pass runs `run --json` and expects an exit code.
func (w *world) pass(code int, args ...string) (report, result) {
	w.t.Helper()
	res := w.must(code, append([]string{"run", "--json"}, args...)...)
	var r report
	if err := json.Unmarshal([]byte(res.stdout), &r); err != nil {
		w.t.Fatalf("run --json printed %q: %v", res.stdout, err)
	}
	return r, res
}

// task is a line of `task list --json`.
type task struct {
	ID         int64  `json:"id"`
	Inbox      string `json:"inbox"`
	Folder     string `json:"folder"`
	UID        uint32 `json:"uid"`
	MessageID  string `json:"message_id"`
	Subject    string `json:"subject"`
	Status     string `json:"status"`
	Attempts   int    `json:"attempt_count"`
	Route      string `json:"route"`
	Reason     string `json:"error_message"`
	Deliveries []struct {
		Recipient string `json:"recipient"`
		Status    string `json:"status"`
		Code      int    `json:"code"`
		Reply     string `json:"reply"`
	} `json:"deliveries"`
}

func (w *world) tasks(args ...string) []task {
	w.t.Helper()
	var out []task
	for line := range strings.Lines(w.must(0, append([]string{"task", "list", "--json"}, args...)...).stdout) {
		var one task
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			w.t.Fatalf("task list --json printed %q: %v", line, err)
		}
		out = append(out, one)
	}
	return out
}

// sql changes the database directly, because the tests cannot wait for hours.
func (w *world) sql(query string) {
	w.t.Helper()
	w.behind(func(tx *gorm.DB) error { return tx.Exec(query).Error })
}

// behind is sql for more than one statement.
func (w *world) behind(change func(tx *gorm.DB) error) {
	w.t.Helper()
	cfg := db.Config{Driver: db.SQLite, Path: w.path("postrider.db")}
	if _, dsn, ok := strings.Cut(strings.TrimSuffix(w.database, `"`), `dsn: "`); ok {
		cfg = db.Config{Driver: db.MySQL, DSN: dsn}
	}
	d, err := db.Open(w.t.Context(), cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	if err := d.Tx(w.t.Context(), change); err != nil {
		w.t.Fatal(err)
	}
}
