package metrics

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"

	"postrider/internal/inbox"
	"postrider/internal/measure"
	"postrider/internal/notify"
	"postrider/internal/outbox"
	"postrider/internal/status"
	"postrider/internal/tasks"
)

var update = flag.Bool("update", false, "rewrite golden files")

var (
	noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	yes  = true
	opts = Options{Labels: []string{"tenant", "cost-centre"}, Version: "1.2.3"}
)

// report has a value for each metric.
func report() status.Report {
	histogram := measure.Histogram{Bounds: []float64{1, 10}, Counts: []int{3, 2, 1}, Sum: 42.5}
	return status.Report{
		Inboxes: []status.Inbox{
			{
				Email: "desk@firm.example", Active: true,
				Labels:  inbox.Labels{"tenant": "acme", "cost-centre": "7", "secret": "no"},
				Backlog: 3, Due: 1,
				Counts:        map[tasks.Status]int{tasks.Received: 2, tasks.Error: 1, tasks.Forwarded: 40},
				LastScannedAt: &noon, OldestWaitingAt: &noon, CertificateUntil: &noon, LeasesLost: 2,
				Deliveries: []measure.Deliveries{
					{Result: "delivered", Reply: "2xx", Count: 40},
					{Result: "retry", Reply: "none", Count: 1},
				},
			},
			{Email: "new@firm.example", Active: true, NeedsLogin: "never"},
			{Email: "failing@firm.example", Active: true, LastError: "refused"},
			{Email: "off@firm.example", LastError: "refused", NeedsLogin: "never"},
		},
		Notices: []notify.Waiting{{Waiting: 2}, {Waiting: 1}},
		Events: []outbox.Standing{
			{Name: "bus", Counts: map[outbox.Status]int{outbox.Done: 7}},
			{
				Name: "crm", Counts: map[outbox.Status]int{outbox.Waiting: 2, outbox.DeadLetter: 1},
				OldestWaitingAt: &noon, LastError: "refused",
			},
			{Name: outbox.Server, Counts: map[outbox.Status]int{outbox.Waiting: 1}},
		},
		LastPassAt: &noon, RelayUp: &yes, RelayCertificateUntil: &noon, RelayNeedsLogin: "expired",
		LimitReached: "per_hour", DeliverySeconds: histogram, PassSeconds: histogram,
	}
}

func text(t *testing.T, format expfmt.FormatType) string {
	t.Helper()
	var b bytes.Buffer
	check(t, encode(&b, report(), opts, expfmt.NewFormat(format)))
	return b.String()
}

// TestGolden: the names, types, labels and values of all metrics. Dashboards depend on them.
func TestGolden(t *testing.T) {
	got := text(t, expfmt.TypeTextPlain)
	golden := filepath.Join("testdata", "metrics.prom")
	if *update {
		check(t, os.MkdirAll("testdata", 0o755))
		check(t, os.WriteFile(golden, []byte(got), 0o600))
	}
	want, err := os.ReadFile(golden)
	check(t, err)
	if got != string(want) {
		t.Errorf("the metrics are\n%s\nwant those of %s (-update rewrites it)", got, golden)
	}
}

// TestLint: names and units are as Prometheus asks.
func TestLint(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	check(t, registry.Register(newCollector(report(), opts)))
	problems, err := testutil.GatherAndLint(registry)
	check(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed (Debian: prometheus); the metrics are checked without it")
	}
	cmd := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	cmd.Stdin = strings.NewReader(text(t, expfmt.TypeTextPlain))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

// TestEveryMetric: each metric that is described has a value in a report with everything.
func TestEveryMetric(t *testing.T) {
	registry := prometheus.NewRegistry()
	check(t, registry.Register(newCollector(report(), opts)))
	families, err := registry.Gather()
	check(t, err)
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
	}
	for _, m := range all {
		if !slices.Contains(names, m.Name) {
			t.Errorf("%s has no value", m.Name)
		}
	}
	if len(names) != len(all) {
		t.Errorf("%d metrics are shown, want all %d: %q", len(names), len(all), names)
	}
}

// TestNothingKnown: a fresh database has no value for what is not known yet.
func TestNothingKnown(t *testing.T) {
	var b bytes.Buffer
	check(t, Print(&b, status.Report{}, Options{}))
	for _, name := range []string{lastPass, relayUp, relayCertificate, inboxUp} {
		if strings.Contains(b.String(), "\n"+name) {
			t.Errorf("%s has a value, want none:\n%s", name, &b)
		}
	}
}

func TestOpenMetrics(t *testing.T) {
	var b bytes.Buffer
	check(t, Print(&b, report(), opts))
	if !strings.HasSuffix(b.String(), "\n# EOF\n") ||
		!strings.Contains(b.String(), "# TYPE postrider_inbox_deliveries counter\n") {
		t.Errorf("it prints\n%s\nwant OpenMetrics", &b)
	}
}

func TestLabelName(t *testing.T) {
	for label, want := range map[string]string{
		"tenant": "tenant", "cost-centre": "cost_centre", "a.b": "a_b",
		"9to5": "", "inbox": "", "le": "", "__name__": "", "--a": "",
	} {
		got, err := LabelName(label)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("LabelName(%q) is %q, %v; want %q", label, got, err, want)
		}
	}
}

func TestHandler(t *testing.T) {
	broken := false
	h := Handler(func(context.Context) (status.Report, error) {
		if broken {
			return status.Report{}, errors.New("root:secret@tcp(db) is away")
		}
		return report(), nil
	}, opts)
	get := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
		return w
	}
	const up = `postrider_inbox_up{cost_centre="7",inbox="desk@firm.example",tenant="acme"} 1`
	for range 2 { // twice: nothing is registered for ever
		if w := get(); w.Code != 200 || !strings.Contains(w.Body.String(), up) ||
			!strings.Contains(w.Body.String(), "\ngo_goroutines ") {
			t.Errorf("it answers %d:\n%s\nwant the metrics of the database and of the process", w.Code, w.Body)
		}
	}
	broken = true
	if w := get(); w.Code != 503 || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("without a database it answers %d %q, want 503 without the reason", w.Code, w.Body)
	}
}

// TestWriteFile: the file is replaced, can be read by all, and nothing else is left.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "postrider.prom")
	stale, fresh := filepath.Join(dir, ".postrider.prom.1.tmp"), filepath.Join(dir, ".postrider.prom.2.tmp")
	for _, name := range []string{stale, fresh} {
		check(t, os.WriteFile(name, nil, 0o600))
	}
	check(t, os.Chtimes(stale, time.Time{}, time.Now().Add(-2*time.Hour)))
	check(t, os.Chtimes(fresh, time.Time{}, time.Now())) // the file system may have another clock
	for range 2 {
		check(t, WriteFile(path, report(), opts))
	}
	got, err := os.ReadFile(path)
	check(t, err)
	if string(got) != text(t, expfmt.TypeTextPlain) {
		t.Errorf("the file has\n%s\nwant the metrics", got)
	}
	info, err := os.Stat(path)
	check(t, err)
	if info.Mode().Perm() != 0o644 {
		t.Errorf("the file's mode is %v, want 0644: node_exporter is another user", info.Mode())
	}
	left, err := filepath.Glob(filepath.Join(dir, "[^.]*"))
	check(t, err)
	hidden, err := filepath.Glob(filepath.Join(dir, ".*.tmp"))
	check(t, err)
	if len(left) != 1 || !slices.Equal(hidden, []string{fresh}) {
		t.Errorf("beside the file there are %q and %q, want only what another process may be writing", left, hidden)
	}
}

func TestFileThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	nowhere := filepath.Join(dir, "nowhere", "postrider.prom")
	if err := CheckFile(nowhere); err == nil || !strings.Contains(err.Error(), "does not exist; create it") {
		t.Errorf("CheckFile returns %v, want that the directory does not exist", err)
	}
	if err := WriteFile(nowhere, report(), opts); err == nil {
		t.Error("WriteFile writes into a directory that does not exist")
	}
	file := filepath.Join(dir, "file")
	check(t, os.WriteFile(file, nil, 0o600))
	if err := CheckFile(filepath.Join(file, "postrider.prom")); err == nil {
		t.Error("CheckFile takes a file for a directory")
	}
	if err := CheckFile(filepath.Join(dir, "postrider.prom")); err != nil {
		t.Errorf("CheckFile returns %v for a directory, want no error", err)
	}
	long := filepath.Join(dir, strings.Repeat("x", 250)+".prom") // no room for the name of a temporary file
	for _, err := range []error{CheckFile(long), WriteFile(long, report(), opts)} {
		if err == nil || !strings.Contains(err.Error(), "in a sandbox of systemd add ReadWritePaths=-"+dir) {
			t.Errorf("for a directory that cannot be written the error is %v, want what to do", err)
		}
	}
	check(t, os.Mkdir(filepath.Join(dir, "taken.prom"), 0o700))
	if err := WriteFile(filepath.Join(dir, "taken.prom"), report(), opts); err == nil {
		t.Error("WriteFile replaces a directory")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*.tmp")); len(left) > 0 {
		t.Errorf("temporary files are left: %q", left)
	}
}

// TestCheckFileNames: a directory is refused, and what is wrong is named by its absolute path.
func TestCheckFileNames(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for path, want := range map[string]string{
		".":                   dir + " is a directory; name the file in it",
		"none/postrider.prom": filepath.Join(dir, "none") + " does not exist",
	} {
		if err := CheckFile(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("CheckFile returns %v for %s, want %q", err, path, want)
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
