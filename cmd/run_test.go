package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/pass"
	"postrider/internal/tasks"
)

// TestRunStoppedBeforeItBegan opens a database that never answers, and is stopped meanwhile.
func TestRunStoppedBeforeItBegan(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		stop bool // as a signal does
	}{
		{"by a signal", []string{"run"}, true},
		{"by --timeout", []string{"run", "--timeout", "50ms"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			go func() {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				if tt.stop {
					cancel()
				}
				<-ctx.Done()
				_ = conn.Close()
			}()
			code, stderr := runWith(ctx, t, "user:hunter2@tcp("+l.Addr().String()+")/mail", tt.args...)
			if line := "postrider: stopped before it began\n"; code != exitRetry || stderr != line {
				t.Errorf("exit code %d, standard error %q; want %d and %q", code, stderr, exitRetry, line)
			}
		})
	}
	t.Run("a fault of the configuration is one, stopped or not", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if code, stderr := runWith(ctx, t, "nonsense", "run"); code != exitUsage {
			t.Errorf("exit code %d, standard error %q; want %d", code, stderr, exitUsage)
		}
	})
}

// runWith runs a command with that DSN, and returns its exit code and what it said on standard
// error.
func runWith(ctx context.Context, t *testing.T, dsn string, args ...string) (code int, stderr string) {
	t.Helper()
	env := map[string]string{"POSTRIDER_DATABASE_DRIVER": "mysql", "POSTRIDER_DATABASE_DSN": dsn}
	return runIn(ctx, t, env, args...)
}

// noEnv is an environment without variables.
func noEnv(string) (string, bool) { return "", false }

// runIn runs a command with these environment variables.
func runIn(ctx context.Context, t *testing.T, env map[string]string, args ...string) (code int, stderr string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "postrider.yaml")
	if err := os.WriteFile(file, []byte(scriptConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	a := &app{out: &out, err: &errs, env: func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}}
	code = a.run(ctx, append([]string{"-c", file}, args...))
	return code, errs.String()
}

// TestDryRunJSON: what a dry run prints while it goes on and at its end is one JSON object.
func TestDryRunJSON(t *testing.T) {
	for found := range 3 {
		var out bytes.Buffer
		o := (&app{out: &out}).observer("", runOptions{dryRun: true, json: true})
		for uid := range found {
			o.Would(&pass.Would{Inbox: deskUser, UID: uint32(uid), Subject: "a < b\n\x1b[2J"}, tasks.Task{})
		}
		if err := o.printDryRun(passReport{Report: pass.Report{DurationMS: 7}}); err != nil {
			t.Fatal(err)
		}
		var got struct {
			Would    []pass.Would
			Duration int `json:"duration_ms"`
		}
		if err := json.Unmarshal(out.Bytes(), &got); err != nil || len(got.Would) != found || got.Duration != 7 {
			t.Errorf("%d findings: %v in %s, want one object with all of them and the report", found, err, &out)
		}
		if bytes.ContainsRune(out.Bytes(), '\x1b') || bytes.Count(out.Bytes(), []byte("\n")) != 1 {
			t.Errorf("%d findings: it is %q, want one line without control characters", found, &out)
		}
	}
}

// TestDryRunOfDueTasks: what happens on the server is shown only for a task that each recipient may
// get.
func TestDryRunOfDueTasks(t *testing.T) {
	got := tasks.Delivery{Recipient: "a@firm.example", Status: tasks.Delivered}
	open := tasks.Delivery{Recipient: "b@firm.example", Status: tasks.Pending}
	refused := tasks.Delivery{Recipient: "c@firm.example", Status: tasks.Failed}
	unknown := tasks.Delivery{Recipient: "c@firm.example", Status: tasks.Sending}
	bounced, waits := got, open
	bounced.Arrival = &tasks.Arrival{Status: tasks.Bounced}
	waits.DuplicateOf = 7
	for _, c := range []struct {
		name string
		task tasks.Task
		told bool
	}{
		{"open", tasks.Task{Deliveries: []tasks.Delivery{got, open}}, true},
		{"the inbox's own copy", tasks.Task{Keep: tasks.KeepOwnCopy, Deliveries: []tasks.Delivery{open}}, false},
		{"a notice", tasks.Task{Form: tasks.Form{Mode: "notice"}, Deliveries: []tasks.Delivery{open}}, false},
		{"refused", tasks.Task{Deliveries: []tasks.Delivery{refused, open}}, false},
		{"unknown", tasks.Task{Deliveries: []tasks.Delivery{unknown}}, false},
		{"bounced", tasks.Task{Deliveries: []tasks.Delivery{bounced, open}}, false},
		{"waits for another task", tasks.Task{Deliveries: []tasks.Delivery{waits, open}}, false},
	} {
		var out bytes.Buffer
		o := (&app{out: &out}).observer("", runOptions{dryRun: true})
		o.then = func(*pass.Would) string { return "; then more" }
		o.Would(&pass.Would{}, c.task)
		if told := strings.HasSuffix(out.String(), "; then more\n"); told != c.told {
			t.Errorf("%s: a dry run prints %q, want what follows: %v", c.name, &out, c.told)
		}
	}
}

// TestSignalWhileHeld: a signal ends the waiting for an SQLite file that another program holds.
func TestSignalWhileHeld(t *testing.T) {
	t.Parallel()
	cfg := db.Config{Driver: db.SQLite, Path: filepath.Join(t.TempDir(), "p.db")}
	open := func() *db.DB {
		d, err := db.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		return d
	}
	s, patient := &services{db: open()}, context.WithoutCancel(t.Context())
	err := open().Tx(t.Context(), func(*gorm.DB) error {
		ctx, signal := context.WithCancel(t.Context())
		signal()
		_, stop := s.untilSignal(ctx)
		defer stop()
		err := s.db.Tx(patient, func(*gorm.DB) error { return nil })
		if err == nil || !strings.Contains(err.Error(), "asked to stop") {
			t.Errorf("got %v, want that the process was asked to stop", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
