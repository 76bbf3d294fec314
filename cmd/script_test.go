package cmd

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/inbox"
	"postrider/internal/tasks"
	"postrider/internal/tasks/sqlqueue"
	"postrider/internal/testserver"
	"postrider/internal/testserver/memimap"
	"postrider/internal/testserver/smtpsink"
)

func TestMain(m *testing.M) {
	testscript.Main(testserver.M{TestingM: m}, map[string]func(){
		"postrider": func() { os.Exit(Main()) },
		"terminal":  func() { os.Exit(atPTY(os.Args[1:])) },
	})
}

// TestScripts runs testdata/script: each script in a folder of its own, with an IMAP server and a
// relay of its own. The account is desk@firm.example with the password "sesame".
func TestScripts(t *testing.T) {
	dns := testserver.NameServer(t, nil)
	dns.SetMX(t, "customer.example", "aspmx.l.google.com", 1)
	dns.SetSRV(t, "_imaps._tcp.hosted.example", "imap.provider.example", 993, 0, 0)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("POSTRIDER_DNS_SERVER", dns.Address) // nothing is asked outside of this process
			return setup(env)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "mail": mail, "sunk": sunk, "arrived": lastArrived, "busy": busy, "mode": mode,
			"uidvalidity": uidValidity, "forget": forget, "audited": audited, "expunge": expunge,
			"delete": deleteTasks, "became": became, "key": newKey, "sql": sqlCommand, "fill": fill,
		},
	})
}

const (
	deskUser     = "desk@firm.example"
	deskPassword = "sesame"
)

// servers are what a script has to itself.
type servers struct {
	imap *memimap.Server
	sink *smtpsink.Server
}

const scriptConfig = `
smtp: {host: 127.0.0.1, security: none} # the port comes from the environment
forward: {from: forwarder@firm.example}
routes:
  - name: all
    match: {}
    to: [intake@firm.example]
`

func setup(env *testscript.Env) error {
	imap, err := memimap.Start(memimap.Options{})
	if err != nil {
		return err
	}
	env.Defer(imap.Close)
	sink, err := smtpsink.Start(smtpsink.Options{Reply: reply, KeepData: true})
	if err != nil {
		return err
	}
	env.Defer(sink.Close)
	if err := errors.Join(imap.AddUser(deskUser, deskPassword), imap.CreateFolder(deskUser, "Junk")); err != nil {
		return err
	}
	env.Values["servers"] = servers{imap, sink}
	env.Setenv("IMAP_PORT", strconv.Itoa(imap.Port()))
	env.Setenv("POSTRIDER_SMTP_PORT", strconv.Itoa(sink.Port()))
	env.Setenv("SINK_PORT", strconv.Itoa(sink.Port()))
	env.Setenv("GORACE", "atexit_sleep_ms=0") // a second for each command otherwise
	for _, name := range []string{
		"TZ", "LC_ALL", "FAKETIME", "FAKETIME_DONT_FAKE_MONOTONIC", "FAKETIME_FORCE_MONOTONIC_FIX", "LD_PRELOAD",
	} {
		if value, ok := os.LookupEnv(name); ok { // as in the test's own process: scripts/clocks sets them
			env.Setenv(name, value)
		}
	}
	file := filepath.Join(env.WorkDir, "postrider.yaml")
	if _, err := os.Stat(file); err == nil {
		return nil // the script has one of its own
	}
	return os.WriteFile(file, []byte(scriptConfig), 0o600)
}

// reply is the relay's: few are refused, and with lost the connection breaks after the final dot.
func reply(e smtpsink.Event) smtpsink.Action {
	switch {
	case e.Stage == "mail" && e.Arg == "foreign@firm.example":
		return smtpsink.Action{Code: 553, Text: "5.7.1 not yours"}
	case e.Stage == "rcpt" && e.Message.From == "rcpt-foreign@firm.example":
		return smtpsink.Action{Code: 553, Text: "5.7.1 Sender address rejected: not owned by user"}
	case e.Stage == "rcpt" && e.Message.From == "" && e.Arg == "no-null@firm.example":
		return smtpsink.Action{Code: 550, Text: "5.7.1 null sender refused"}
	case e.Stage == "mail" && e.Arg == "sender-later@firm.example":
		return smtpsink.Action{Code: 450, Text: "4.7.1 too fast"}
	case e.Stage == "rcpt" && e.Arg == "nobody@firm.example":
		return smtpsink.Action{Code: 550, Text: "5.1.1 no such user"}
	case e.Stage == "rcpt" && e.Arg == "later@firm.example":
		return smtpsink.Action{Code: 451, Text: "4.2.0 later"}
	case e.Stage == "rcpt" && e.Arg == "strict@firm.example":
		return smtpsink.Action{Code: 450, Text: "4.7.1 <box>: Helo command rejected: Host not found"}
	case e.Stage == "dot" && e.Message.To[0] == "lost@firm.example":
		return smtpsink.Action{AcceptAndDrop: true}
	}
	return smtpsink.Action{}
}

// exits CODE COMMAND ARG...: runs it and wants that exit code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// clerkMail is a message to the desk.
func clerkMail(subject string) []byte {
	return testserver.Mail("clerk@court.example", deskUser, subject, strings.Repeat("The body.\n", 100))
}

// mail FOLDER SUBJECT...: a message for each subject.
func mail(ts *testscript.TestScript, _ bool, args []string) {
	for _, subject := range args[1:] {
		_, err := ts.Value("servers").(servers).imap.Append(deskUser, args[0], clerkMail(subject))
		ts.Check(err)
	}
}

// expunge FOLDER UID...: they are gone.
func expunge(ts *testscript.TestScript, _ bool, args []string) {
	for _, arg := range args[1:] {
		uid, err := strconv.ParseUint(arg, 10, 32)
		ts.Check(err)
		ts.Check(ts.Value("servers").(servers).imap.Expunge(deskUser, args[0], uint32(uid)))
	}
}

// uidvalidity FOLDER N: the server changes its mind about a folder.
func uidValidity(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.ParseUint(args[1], 10, 32)
	ts.Check(err)
	ts.Check(ts.Value("servers").(servers).imap.SetUIDValidity(deskUser, args[0], uint32(n)))
}

// sunk SUBJECT...: exactly these messages have reached the relay since the script began, in any
// order.
func sunk(ts *testscript.TestScript, _ bool, args []string) {
	want := map[string]int{}
	for _, subject := range args {
		want[subject]++
	}
	for _, m := range ts.Value("servers").(servers).sink.Messages() {
		_, rest, _ := strings.Cut(string(m.Header), "\r\nSubject: ")
		subject, _, _ := strings.Cut(rest, "\r\n")
		want[subject]--
	}
	for subject, n := range want {
		if n != 0 {
			ts.Fatalf("message %q reached the relay %+d times more than it should", subject, -n)
		}
	}
}

// lastArrived is arrived TEXT: the last message that has reached the relay has it.
func lastArrived(ts *testscript.TestScript, _ bool, args []string) {
	all := ts.Value("servers").(servers).sink.Messages()
	if len(all) == 0 || !strings.Contains(string(all[len(all)-1].Data), args[0]) {
		ts.Fatalf("of %d messages that reached the relay the last one is without %q", len(all), args[0])
	}
}

// newKey is key FILE [rsa]: a key to sign with, Ed25519 or RSA.
func newKey(ts *testscript.TestScript, _ bool, args []string) {
	_, ed, err := ed25519.GenerateKey(nil)
	ts.Check(err)
	var key any = ed
	if len(args) > 1 {
		key, err = rsa.GenerateKey(rand.Reader, 2048)
		ts.Check(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
}

// busy ADDR: somebody works on that inbox.
func busy(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	d, err := db.Open(ctx, db.Config{Driver: db.SQLite, Path: ts.MkAbs("postrider.db")})
	ts.Check(err)
	defer func() { _ = d.Close() }()
	store := inbox.New(d, inbox.OpenSealer(ts.MkAbs("postrider.key")))
	in, err := store.Get(ctx, args[0])
	ts.Check(err)
	_, _, err = store.AcquireScan(ctx, in.ID, "another run", time.Hour)
	ts.Check(err)
}

// sqlCommand is sql STATEMENT: something other than postrider changes the database.
func sqlCommand(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	d, err := db.Open(ctx, db.Config{Driver: db.SQLite, Path: ts.MkAbs("postrider.db")})
	ts.Check(err)
	defer func() { _ = d.Close() }()
	ts.Check(d.Tx(ctx, func(tx *gorm.DB) error { return tx.Exec(strings.Join(args, "")).Error }))
}

// became ID RECIPIENT STATUS: what a report says of a delivery.
func became(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	d, err := db.Open(ctx, db.Config{Driver: db.SQLite, Path: ts.MkAbs("postrider.db")})
	ts.Check(err)
	defer func() { _ = d.Close() }()
	id, err := strconv.ParseInt(args[0], 10, 64)
	ts.Check(err)
	changed, err := sqlqueue.New(d).Arrived(ctx, "reports", id, args[1], tasks.Arrival{
		Status: tasks.ArrivalStatus(args[2]), Code: 550, Enhanced: "5.1.1", Reply: "no such user",
		Remote: "mx.other.example",
	})
	if ts.Check(err); !changed {
		ts.Fatalf("%s of the delivery of task %d to %s changed nothing", args[2], id, args[1])
	}
}

// fill FILE: variables in the file get their values.
func fill(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(os.Expand(ts.ReadFile(args[0]), ts.Getenv)), 0o600))
}

// mode FILE MODE: the file's permissions.
func mode(ts *testscript.TestScript, _ bool, args []string) {
	info, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	if got := fmt.Sprintf("%04o", info.Mode().Perm()); got != args[1] {
		ts.Fatalf("%s has mode %s, want %s", args[0], got, args[1])
	}
}
