package config

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestMetrics(t *testing.T) {
	for _, tt := range []struct{ name, yaml, wants string }{
		{"none", "metrics: {}", ""},
		{"a file and labels", "metrics: {textfile: postrider.prom, labels: [tenant, cost-centre]}", ""},
		{"a file that node_exporter does not read", "metrics: {textfile: postrider.txt}", "metrics.textfile"},
		{"not a label of Prometheus", "metrics: {labels: [9to5]}", "metrics.labels[0]"},
		{"a label that metrics have", "metrics: {labels: [tenant, inbox]}", "metrics.labels[1]"},
		{"twice", "metrics: {labels: [a.b, a-b]}", "is there twice, as a_b"},
		{"too many", "metrics: {labels: [a, b, c, d, e, f, g, h, i]}", "up to 8"},
	} {
		path := write(t, minimal+tt.yaml+"\n")
		c, err := loadFile(path, variables())
		switch {
		case tt.wants == "" && err != nil:
			t.Errorf("%s: %v, want no error", tt.name, err)
		case tt.wants != "" && (err == nil || !strings.Contains(err.Error(), tt.wants)):
			t.Errorf("%s: the error is %v, want one with %s", tt.name, err, tt.wants)
		case tt.wants == "" && c.Metrics.TextFile != "" &&
			c.Metrics.TextFile != filepath.Join(filepath.Dir(path), "postrider.prom"):
			t.Errorf("%s: the file is %s, want it relative to the configuration", tt.name, c.Metrics.TextFile)
		}
	}
}
