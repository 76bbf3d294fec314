package testserver

import (
	"embed"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"text/template"
	"time"
)

//go:embed postfix_main.cf postfix_master.cf
var postfixConfigs embed.FS

// PostfixOptions is what a test wants of its relay.
type PostfixOptions struct {
	AuthPort int               // of the Dovecot that knows its users (IMAP.AuthPort)
	Next     int               // the port on loopback that everything it accepts is handed to
	Settings []string          // lines of main.cf, which replace those of postfix_main.cf
	Files    map[string]string // by name, beside main.cf: `regexp:$config_directory/NAME`
	Services []string          // more lines of master.cf
}

// SMTP is a running Postfix: a submission service with AUTH only after STARTTLS, which hands all
// it accepts to one port on loopback and looks nothing up in DNS.
type SMTP struct {
	Host   string // 127.0.0.1, which the certificate names
	Port   int
	CAFile string // the certificate to trust, in PEM

	dir    string
	master string // the binary
	proc   *process
}

// Postfix starts a server of the test's own, and stops it when the test is over; when the test
// failed, its log is shown. Its master process has to run as root, and not every machine can have
// the package: without them the test is skipped, whatever is required.
func Postfix(t testing.TB, opts PostfixOptions) *SMTP {
	t.Helper()
	postconf := findBinary("postconf")
	switch {
	case postconf == "":
		t.Skip("Postfix is not installed: as root, run scripts/test, or apt-get install postfix")
	case os.Getuid() != 0:
		t.Skip("Postfix has to be started by root: run the tests as root")
	}
	daemons, err := exec.Command(postconf, "-d", "-h", "daemon_directory").Output()
	if err != nil {
		t.Fatalf("ask %s where its programs are: %v", postconf, err)
	}
	s := &SMTP{Host: loopback, master: filepath.Join(strings.TrimSpace(string(daemons)), "master")}
	if err := s.prepare(t, opts); err != nil {
		t.Fatalf("prepare a Postfix: %v", err)
	}
	s.Start(t)
	t.Cleanup(func() {
		s.Stop(t)
		if log, err := os.ReadFile(s.logFile()); t.Failed() && err == nil {
			t.Logf("Postfix logged:\n%s", log)
		}
	})
	return s
}

// longestTest is when a server ends by itself, in seconds. It changes its effective user for a
// moment, after which the kernel does not end it any more when the test process is killed
// (prctl(2), PR_SET_PDEATHSIG).
const longestTest = "1800"

// Start starts the server again, on the same port and queue, and returns when it takes connections.
func (s *SMTP) Start(t testing.TB) {
	t.Helper()
	// The program `postfix` is left out: it looks after files of the installed package.
	proc, err := startProcess(s.logFile(), nil, s.master, "-d", "-c", s.dir, "-e", longestTest)
	if err == nil {
		s.proc = proc
		err = proc.waitListening(s.Port)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Drain waits until all that was accepted has been handed on.
func (s *SMTP) Drain(t testing.TB) {
	t.Helper()
	for deadline := time.Now().Add(stopTimeout); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if s.queued() == 0 {
			return
		}
	}
	t.Errorf("Postfix still has %d messages in its queue after %v", s.queued(), stopTimeout)
}

func (s *SMTP) queued() int {
	n := 0
	for _, queue := range []string{"incoming", "active", "deferred"} {
		files, _ := filepath.Glob(filepath.Join(s.dir, "queue", queue, "*"))
		for _, file := range files {
			// A file that is not executable yet is not complete.
			if info, err := os.Stat(file); err == nil && info.Mode()&0o100 != 0 {
				n++
			}
		}
	}
	return n
}

// Stop ends the server at once, with all its connections, and returns when its port is free. What
// it was handing on at that moment may arrive twice.
func (s *SMTP) Stop(t testing.TB) {
	s.proc.kill()
	for deadline := time.Now().Add(stopTimeout); time.Now().Before(deadline); {
		conn, err := net.DialTimeout("tcp", address(s.Port), time.Second)
		if err != nil {
			return
		}
		_ = conn.Close()
	}
	t.Errorf("Postfix still listens %v after it was stopped", stopTimeout)
}

// Kill ends the server's child processes of that name, such as smtpd, as a crash would. It returns
// when they are gone. Only Linux shows which those are.
func (s *SMTP) Kill(t testing.TB, name string) {
	t.Helper()
	killed := 0
	statuses, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range statuses {
		text, _ := os.ReadFile(file) // gone, when it fails
		pid, parent, of := parseStat(string(text))
		if of != name || parent != s.proc.cmd.Process.Pid {
			continue
		}
		if p, err := os.FindProcess(pid); err != nil || p.Kill() != nil {
			t.Errorf("kill Postfix's %s (process %d)", name, pid)
			continue
		}
		killed++
		s.waitGone(t, file)
	}
	if killed == 0 {
		t.Errorf("kill Postfix's %s: there is none", name)
	}
}

// parseStat reads /proc/PID/stat: `PID (NAME) STATE PARENT ...`.
func parseStat(text string) (pid, parent int, name string) {
	head, rest, _ := strings.Cut(text, ") ")
	id, name, _ := strings.Cut(head, " (")
	fields := strings.Fields(rest)
	if len(fields) < 2 {
		return 0, 0, ""
	}
	pid, _ = strconv.Atoi(id)
	parent, _ = strconv.Atoi(fields[1])
	return pid, parent, name
}

func (s *SMTP) waitGone(t testing.TB, file string) {
	for deadline := time.Now().Add(stopTimeout); time.Now().Before(deadline); {
		if _, err := os.Stat(file); err != nil {
			return
		}
	}
	t.Errorf("a killed process of Postfix is still there after %v", stopTimeout)
}

func (s *SMTP) logFile() string { return filepath.Join(s.dir, "log") }

// prepare makes the server's folder with its configuration, its queue and its data.
func (s *SMTP) prepare(t testing.TB, opts PostfixOptions) error {
	dir, err := newDir("postfix")
	if err != nil {
		return err
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the folder of a Postfix: %v", err)
		}
	})
	s.dir, s.CAFile = dir, filepath.Join(dir, "cert.pem")
	if s.Port, err = freePort(); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // most of its programs run as its own user
		return err
	}
	if err := makeQueue(dir); err != nil {
		return err
	}
	certPEM, keyPEM, err := certificatePEM()
	if err != nil {
		return err
	}
	files := map[string]string{"cert.pem": string(certPEM), "key.pem": string(keyPEM), "log": ""}
	for name, text := range opts.Files {
		files[name] = text
	}
	for _, name := range []string{"main.cf", "master.cf"} {
		if files[name], err = s.config(name, opts); err != nil {
			return err
		}
	}
	// Postfix waits for seconds when a file was changed just now: it may be incomplete.
	stable := time.Now().Add(-time.Hour)
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
		if err := os.Chtimes(path, stable, stable); err != nil {
			return err
		}
	}
	return nil
}

// config fills the template of a file in. In main.cf a setting takes the place of the template's
// line: of two lines for one parameter every process warns, and when all of them do at once, the
// one that writes the log waits for itself.
func (s *SMTP) config(name string, opts PostfixOptions) (string, error) {
	tmpl, err := template.ParseFS(postfixConfigs, "postfix_"+name)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	err = tmpl.Execute(&text, map[string]any{
		"Dir": s.dir, "Port": s.Port, "AuthPort": opts.AuthPort, "Next": opts.Next,
	})
	if name != "main.cf" {
		return text.String() + strings.Join(opts.Services, "\n") + "\n", err
	}
	parameter := func(line string) string {
		name, _, _ := strings.Cut(line, "=")
		return strings.TrimSpace(name)
	}
	set := map[string]bool{}
	for _, line := range opts.Settings {
		set[parameter(line)] = true
	}
	var out strings.Builder
	for line := range strings.Lines(text.String()) {
		if !set[parameter(line)] {
			out.WriteString(line)
		}
	}
	return out.String() + strings.Join(opts.Settings, "\n") + "\n", err
}

// makeQueue makes the folders that `postfix check` would, owned by the users that Postfix runs as.
func makeQueue(dir string) error {
	owner, err := user.Lookup("postfix")
	if err != nil {
		return fmt.Errorf("find the user to run Postfix as: %w", err)
	}
	uid, err := strconv.Atoi(owner.Uid)
	if err != nil {
		return fmt.Errorf("find the user to run Postfix as: %w", err)
	}
	for _, sub := range []string{
		"data",
		"queue/active", "queue/bounce", "queue/corrupt", "queue/defer", "queue/deferred", "queue/flush", "queue/hold",
		"queue/incoming", "queue/private", "queue/public", "queue/saved", "queue/trace", "queue/maildrop",
	} {
		path := filepath.Join(dir, sub)
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		if err := os.Chown(path, uid, -1); err != nil {
			return err
		}
	}
	return os.MkdirAll(filepath.Join(dir, "queue/pid"), 0o755) // root's
}
