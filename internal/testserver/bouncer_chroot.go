package testserver

import (
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"text/template"
	"time"
)

//go:embed exim.conf opensmtpd.conf
var bouncerConfigs embed.FS

// BouncingExim starts an Exim as a Bouncer. It needs root, and what scripts/test unpacks.
func BouncingExim(t testing.TB, next int) *Bouncer {
	t.Helper()
	r := newRoot(t, "exim4-daemon-light", "usr/sbin/exim4")
	r.user("Debian-exim", 901, "var/spool/exim4", "var/log")
	b := r.start(next, "exim.conf", "etc/exim4/exim4.conf", "/usr/sbin/exim4", "-bdf", "-q1s")
	b.retry = func(testing.TB) {} // it tries every second
	return b
}

// BouncingOpenSMTPD starts an OpenSMTPD as a Bouncer. It needs root, and what scripts/test unpacks.
func BouncingOpenSMTPD(t testing.TB, next int) *Bouncer {
	t.Helper()
	r := newRoot(t, "opensmtpd", "usr/sbin/smtpd", "usr/sbin/smtpctl", "usr/libexec/opensmtpd/mail.maildir")
	r.user("opensmtpd", 902)
	r.user("opensmtpq", 903)
	for _, dir := range []string{"var/lib/opensmtpd/empty", "var/spool", "run", "var/run"} {
		r.mkdir(dir, 0, 0o711)
	}
	ctl := filepath.Join(r.dir, "usr/sbin/smtpctl")
	r.check(os.Chown(ctl, 0, 903))
	r.check(os.Chmod(ctl, 0o755|os.ModeSetgid))
	b := r.start(next, "opensmtpd.conf", "etc/smtpd.conf", "/usr/sbin/smtpd", "-d")
	b.retry = func(t testing.TB) {
		t.Helper()
		schedule := exec.Command("chroot", r.dir, "/usr/sbin/smtpctl", "schedule", "all")
		if out, err := schedule.CombinedOutput(); err != nil {
			t.Errorf("have OpenSMTPD try again: %v\n%s", err, out)
		}
	}
	return b
}

// root is a folder that a server takes for the whole system (chroot): its package conflicts with
// Postfix's, and its paths and users are fixed when it is built.
type root struct {
	t     testing.TB
	name  string // of the package
	dir   string
	users []string
}

// newRoot makes one with some programs of a package and the libraries that they need.
func newRoot(t testing.TB, pkg string, programs ...string) *root {
	t.Helper()
	from := filepath.Join(cacheDir(), pkg+"-root")
	if _, err := os.Stat(from); err != nil {
		t.Skipf("%s is not here: CI=true scripts/test gets it", pkg)
	}
	if os.Getuid() != 0 {
		t.Skipf("%s has to be started by root: run the tests as root", pkg)
	}
	dir, err := newDir(pkg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		endWithin(dir)
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the folder of %s: %v", pkg, err)
		}
	})
	r := &root{t: t, name: pkg, dir: dir}
	r.mkdir("", 0, 0o755)
	r.mkdir("tmp", 0, 0o777)
	r.mkdir("dev/shm", 0, 0o777) // for libfaketime, see scripts/clocks
	for _, program := range append(programs, "/bin/sh") {
		file := program
		if !filepath.IsAbs(program) {
			file = filepath.Join(from, program)
		}
		r.install(file, program)
		for _, library := range r.libraries(file) {
			r.install(library, library)
		}
	}
	r.write("dev/null", "", 0o666) // not every machine lets root make a device
	return r
}

// endWithin kills what still runs with this root: deliveries of Exim outlive it.
func endWithin(dir string) {
	for found := true; found; {
		found = false
		roots, _ := filepath.Glob("/proc/[0-9]*/root")
		for _, root := range roots {
			if of, err := os.Readlink(root); err != nil || of != dir {
				continue
			}
			found = true
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(root)))
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill()
			}
		}
		if found {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func (r *root) check(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatalf("prepare %s: %v", r.name, err)
	}
}

// mkdir makes a folder, and gives it to a user.
func (r *root) mkdir(name string, uid int, mode os.FileMode) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	r.check(os.MkdirAll(path, 0o755))
	r.check(os.Chmod(path, mode))
	r.check(os.Chown(path, uid, uid))
}

func (r *root) write(name, text string, mode os.FileMode) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	r.check(os.MkdirAll(filepath.Dir(path), 0o755))
	r.check(os.WriteFile(path, []byte(text), mode))
	r.check(os.Chmod(path, mode))
}

// install copies a program or a library.
func (r *root) install(from, name string) {
	r.t.Helper()
	data, err := os.ReadFile(from)
	r.check(err)
	r.write(name, string(data), 0o755)
}

var library = regexp.MustCompile(`(/\S+) \(0x`)

func (r *root) libraries(program string) (files []string) {
	r.t.Helper()
	out, err := exec.Command("ldd", program).Output()
	r.check(err)
	if strings.Contains(string(out), "not found") {
		r.t.Skipf("%s lacks libraries: CI=true scripts/test gets them:\n%s", r.name, out)
	}
	for _, m := range library.FindAllStringSubmatch(string(out), -1) {
		files = append(files, m[1])
	}
	return files
}

// user makes a user, and folders of his.
func (r *root) user(name string, uid int, dirs ...string) {
	r.t.Helper()
	r.users = append(r.users, fmt.Sprintf("%s:x:%d:", name, uid))
	for _, dir := range dirs {
		r.mkdir(dir, uid, 0o750)
	}
}

// start starts the server with its configuration, and stops it when the test is over; when the test
// failed, its log is shown.
func (r *root) start(next int, conf, at string, argv ...string) *Bouncer {
	r.t.Helper()
	port, err := freePort()
	r.check(err)
	var text strings.Builder
	tmpl, err := template.ParseFS(bouncerConfigs, conf)
	r.check(err)
	r.check(tmpl.Execute(&text, map[string]any{
		"Port": port, "Next": next, "Name": bouncerName, "Local": BouncerLocal, "Host": BouncerNext,
	}))
	r.write(at, text.String(), 0o644)
	var passwd, group strings.Builder
	for _, u := range append(r.users, "root:x:0:") {
		fmt.Fprintf(&group, "%s\n", u)
		fmt.Fprintf(&passwd, "%s%s:/:/bin/sh\n", u, u[strings.Index(u, ":x:")+len(":x:"):])
	}
	r.write("etc/passwd", passwd.String(), 0o644)
	r.write("etc/group", group.String(), 0o644)
	r.write("etc/mailname", bouncerName+"\n", 0o644)
	r.write("etc/hosts", "127.0.0.1 "+BouncerNext+" localhost\n", 0o644)
	r.check(os.MkdirAll(filepath.Join(r.dir, "var/log"), 0o755))
	log := filepath.Join(r.dir, "var/log/output")
	// timeout stays root's, and so ends with the test: the server changes its user (see
	// longestTest) The folder has no time zones: with the name of one, OpenSMTPD ends at its first
	// message.
	argv = append([]string{"timeout", longestTest, "env", "TZ=UTC", "chroot", r.dir}, argv...)
	proc, err := startProcess(log, nil, argv...)
	r.check(err)
	r.t.Cleanup(func() {
		proc.kill()
		logs, _ := filepath.Glob(filepath.Join(r.dir, "var/log/*"))
		for _, file := range logs {
			if words, err := os.ReadFile(file); r.t.Failed() && err == nil {
				r.t.Logf("%s logged:\n%s", r.name, words)
			}
		}
	})
	r.check(proc.waitListening(port))
	return &Bouncer{Host: loopback, Port: port, Name: bouncerName}
}
