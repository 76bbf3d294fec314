package metrics

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var packaging = filepath.Join("..", "..", "packaging")

func file(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	check(t, err)
	return string(text)
}

// named are the metrics that a text names, each once and sorted. Those of a histogram count for it.
func named(text string) []string {
	var names []string
	for _, name := range regexp.MustCompile(`\bpostrider_[a-z_]+`).FindAllString(text, -1) {
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			base, ok := strings.CutSuffix(name, suffix)
			is := func(m Metric) bool { return m.Name == base && m.Type == Histogram }
			if ok && slices.ContainsFunc(all, is) {
				name = base
			}
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func known() []string {
	var names []string
	for _, m := range all {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return names
}

// TestNames: the documentation and the dashboard name every metric, the rules those that they need,
// and none of them names another.
func TestNames(t *testing.T) {
	docs := file(t, "..", "..", "docs", "metrics.md")
	for where, text := range map[string]string{
		"docs/metrics.md":                  docs,
		"packaging/grafana/postrider.json": file(t, packaging, "grafana", "postrider.json"),
	} {
		if got := named(text); !slices.Equal(got, known()) {
			t.Errorf("%s names the metrics\n%q\nwant\n%q", where, got, known())
		}
	}
	for _, name := range []string{"postrider.rules.yaml", "postrider.rules.test.yaml"} {
		for _, metric := range named(file(t, packaging, "prometheus", name)) {
			if !slices.Contains(known(), metric) {
				t.Errorf("%s names %s, and there is no such metric", name, metric)
			}
		}
	}
	for _, m := range all { // with the type
		if !strings.Contains(docs, "| `"+m.Name+"` | "+m.Type+" |") {
			t.Errorf("docs/metrics.md has no row for the %s %s", m.Type, m.Name)
		}
	}
}

// TestAlertsAreDocumented: each alert has a section, which its runbook names, and a test.
func TestAlertsAreDocumented(t *testing.T) {
	rules := file(t, packaging, "prometheus", "postrider.rules.yaml")
	tests := file(t, packaging, "prometheus", "postrider.rules.test.yaml")
	docs := file(t, "..", "..", "docs", "metrics.md")
	alerts := regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(rules, -1)
	for _, m := range alerts {
		name := m[1]
		if !strings.Contains(docs, "\n### "+name+"\n") {
			t.Errorf("docs/metrics.md has no section %s", name)
		}
		if !strings.Contains(rules, "runbook: docs/metrics.md#"+strings.ToLower(name)+"\n") {
			t.Errorf("the alert %s has no runbook", name)
		}
		if strings.Count(tests, "alertname: "+name) < 2 {
			t.Errorf("the alert %s has no test that it fires and that it does not", name)
		}
	}
	if sections := strings.Count(docs, "\n### Postrider"); sections != len(alerts) || len(alerts) == 0 {
		t.Errorf("docs/metrics.md has %d sections for %d alerts", sections, len(alerts))
	}
}

// TestRules has promtool check the rules and run their tests.
func TestRules(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed (Debian: prometheus); the alert rules are not tried")
	}
	for _, args := range [][]string{
		{"check", "rules", "postrider.rules.yaml"}, {"test", "rules", "postrider.rules.test.yaml"},
	} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = filepath.Join(packaging, "prometheus")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// TestDashboard: Grafana can read it, and each panel has a query.
func TestDashboard(t *testing.T) {
	var d struct {
		Title, UID string
		Panels     []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	check(t, json.Unmarshal([]byte(file(t, packaging, "grafana", "postrider.json")), &d))
	if d.Title == "" || d.UID == "" || len(d.Panels) < 10 {
		t.Errorf("the dashboard is %+v, want a title, a UID and its panels", d)
	}
	namesNone := func(q struct{ Expr string }) bool { return len(named(q.Expr)) == 0 }
	for _, p := range d.Panels {
		if len(p.Targets) == 0 || slices.ContainsFunc(p.Targets, namesNone) {
			t.Errorf("a query of the panel %q names no metric", p.Title)
		}
	}
}
