package metrics

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"postrider/internal/measure"
	"postrider/internal/outbox"
	"postrider/internal/status"
	"postrider/internal/tasks"
)

// Options say what is shown besides the numbers.
type Options struct {
	Labels  []string // of inboxes, that become labels of the metrics; see LabelName
	Version string   // of this binary
}

var (
	labelPattern = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)
	reserved     = []string{labelInbox, labelStatus, labelResult, labelReply, "le", "version", "job", "instance"}
)

// LabelName is the Prometheus label for a label of inboxes: dots and dashes become underscores. It
// fails for one that Prometheus would not take, or that has a meaning already.
func LabelName(label string) (string, error) {
	name := strings.NewReplacer(".", "_", "-", "_").Replace(label)
	switch {
	case !labelPattern.MatchString(name) || strings.HasPrefix(name, "__"):
		return "", fmt.Errorf("%q cannot be a label in Prometheus: "+
			"it begins with a to z, and has a to z, digits, dots, dashes and underscores", label)
	case slices.Contains(reserved, name):
		return "", fmt.Errorf("%q has a meaning already in the metrics; choose another label", label)
	}
	return name, nil
}

// collector shows one report.
type collector struct {
	report status.Report
	opts   Options
	descs  map[string]*prometheus.Desc
}

func newCollector(r status.Report, opts Options) *collector {
	c := &collector{report: r, opts: opts, descs: map[string]*prometheus.Desc{}}
	for _, m := range all {
		labels := m.Labels
		if slices.Contains(labels, labelInbox) {
			labels = slices.Concat(ofInbox, c.extra(), labels[1:])
		}
		c.descs[m.Name] = prometheus.NewDesc(m.Name, m.Help, labels, nil)
	}
	return c
}

// extra are the names of the labels that the configuration chose.
func (c *collector) extra() []string {
	var names []string
	for _, label := range c.opts.Labels {
		if name, err := LabelName(label); err == nil {
			names = append(names, name)
		}
	}
	return names
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	e := emitter{c, ch}
	r := c.report
	e.gauge(buildInfo, 1, c.opts.Version)
	e.time(lastPass, r.LastPassAt)
	e.histogram(passSeconds, r.PassSeconds)
	e.histogram(deliverySeconds, r.DeliverySeconds)
	waiting := 0
	for _, w := range r.Notices {
		waiting += w.Waiting
	}
	e.gauge(noticesWaiting, float64(waiting))
	for _, d := range r.Events {
		for _, s := range outbox.Statuses {
			e.gauge(events, float64(d.Counts[s]), d.Name, string(s))
		}
		e.time(eventsOldest, d.OldestWaitingAt, d.Name)
		if d.Name != outbox.Server { // its actions go to many servers
			e.gauge(eventsUp, number(d.LastError == ""), d.Name)
		}
	}
	e.state(relayUp, r.RelayUp)
	e.gauge(relayLogin, number(r.RelayNeedsLogin != ""))
	e.time(relayCertificate, r.RelayCertificateUntil)
	e.gauge(relayLimit, number(r.LimitReached != ""))
	for _, in := range r.Inboxes {
		e.inbox(in, e.labelsOf(in))
	}
}

// emitter sends the metrics of one collector.
type emitter struct {
	collector *collector
	to        chan<- prometheus.Metric
}

func (e emitter) inbox(in status.Inbox, labels []string) {
	e.state(inboxUp, in.Up(), labels...)
	e.time(inboxScan, in.LastScannedAt, labels...)
	e.gauge(inboxLogin, number(in.Active && in.NeedsLogin != ""), labels...)
	e.time(inboxCertificate, in.CertificateUntil, labels...)
	e.gauge(inboxBacklog, float64(in.Backlog), labels...)
	e.gauge(inboxDue, float64(in.Due), labels...)
	e.time(inboxOldest, in.OldestWaitingAt, labels...)
	for _, s := range tasks.Statuses {
		e.gauge(inboxTasks, float64(in.Counts[s]), slices.Concat(labels, []string{string(s)})...)
	}
	for _, s := range tasks.Troubles {
		e.gauge(inboxArrivals, float64(in.Arrivals[s]), slices.Concat(labels, []string{string(s)})...)
	}
	for _, d := range withZeros(in.Deliveries) {
		e.send(inboxDeliveries, prometheus.CounterValue, float64(d.Count),
			slices.Concat(labels, []string{d.Result, d.Reply}))
	}
	e.send(inboxLeases, prometheus.CounterValue, float64(in.LeasesLost), labels)
}

// withZeros adds the usual results at zero: Prometheus sees no increase from a series that is not
// there to 1.
func withZeros(ds []measure.Deliveries) []measure.Deliveries {
	for _, usual := range []measure.Deliveries{
		{Result: "delivered", Reply: "2xx"}, {Result: "failed", Reply: "5xx"}, {Result: "retry", Reply: "4xx"},
	} {
		same := func(d measure.Deliveries) bool { return d.Result == usual.Result && d.Reply == usual.Reply }
		if !slices.ContainsFunc(ds, same) {
			ds = append(slices.Clip(ds), usual)
		}
	}
	return ds
}

// labelsOf are the values of the labels of an inbox's metrics; a label that it does not have is
// empty.
func (e emitter) labelsOf(in status.Inbox) []string {
	values := []string{in.Email}
	for _, label := range e.collector.opts.Labels {
		if _, err := LabelName(label); err == nil {
			values = append(values, in.Labels[label])
		}
	}
	return values
}

func (e emitter) gauge(name string, value float64, labels ...string) {
	e.send(name, prometheus.GaugeValue, value, labels)
}

// state is 1 or 0; what is not known is left out.
func (e emitter) state(name string, is *bool, labels ...string) {
	if is != nil {
		e.gauge(name, number(*is), labels...)
	}
}

// time is in seconds since 1970; what is not known is left out.
func (e emitter) time(name string, t *time.Time, labels ...string) {
	if t != nil {
		e.gauge(name, float64(t.UnixMilli())/1000, labels...)
	}
}

func (e emitter) send(name string, kind prometheus.ValueType, value float64, labels []string) {
	e.to <- prometheus.MustNewConstMetric(e.collector.descs[name], kind, value, labels...)
}

func (e emitter) histogram(name string, h measure.Histogram) {
	buckets, below := map[float64]uint64{}, uint64(0)
	for i, upTo := range h.Bounds {
		below += uint64(h.Counts[i])
		buckets[upTo] = below
	}
	e.to <- prometheus.MustNewConstHistogram(e.collector.descs[name], uint64(h.Count()), h.Sum, buckets)
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
