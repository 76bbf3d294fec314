package config

import (
	"fmt"
	"path/filepath"
	"slices"

	"postrider/internal/metrics"
)

// maxMetricLabels keeps the lines of metrics readable.
const maxMetricLabels = 8

// metrics checks the file by its name only: its directory may be on another host than this one.
func (r *reader) metrics(m Metrics) {
	if m.TextFile != "" && filepath.Ext(m.TextFile) != ".prom" {
		r.refuse("metrics.textfile", "%q does not end in .prom; node_exporter reads no other files", m.TextFile)
	}
	if len(m.Labels) > maxMetricLabels {
		r.refuse("metrics.labels", "has %d labels; up to %d are allowed", len(m.Labels), maxMetricLabels)
	}
	var names []string
	for i, label := range m.Labels {
		key := fmt.Sprintf("metrics.labels[%d]", i)
		name, err := metrics.LabelName(label)
		switch {
		case err != nil:
			r.refuse(key, "%v", err)
		case slices.Contains(names, name):
			r.refuse(key, "%q is there twice, as %s in Prometheus", label, name)
		}
		names = append(names, name)
	}
}
