// Package metrics prints what package status knows, for Prometheus.
//
// All numbers come from the database, and so cover all hosts and processes: whoever scrapes several
// hosts gets the same numbers several times, and has to take the maximum, not the sum. Counters
// never fall when tasks are deleted, nor when a process ends. Times are absolute, in seconds since
// 1970: an age that is computed from them goes on growing when no pass runs any more.
//
// The number of series is bounded: by the number of inboxes, times a constant.
package metrics

// The types of metrics.
const (
	Counter   = "counter"
	Gauge     = "gauge"
	Histogram = "histogram"
)

// Metric is one of the metrics. A metric with the label inbox also has the labels that
// Options.Labels names.
type Metric struct {
	Name, Type string
	Help       string
	Labels     []string
}

var (
	ofInbox       = []string{labelInbox}
	ofDestination = []string{labelDestination}
)

const (
	labelDestination = "destination"

	labelInbox  = "inbox"
	labelStatus = "status"
	labelResult = "result"
	labelReply  = "reply"
)

// Names of the metrics.
const (
	buildInfo        = "postrider_build_info"
	lastPass         = "postrider_last_pass_timestamp_seconds"
	passSeconds      = "postrider_pass_duration_seconds"
	deliverySeconds  = "postrider_delivery_duration_seconds"
	noticesWaiting   = "postrider_notices_waiting"
	events           = "postrider_events"
	eventsOldest     = "postrider_events_oldest_waiting_timestamp_seconds"
	eventsUp         = "postrider_events_destination_up"
	relayUp          = "postrider_relay_up"
	relayLogin       = "postrider_relay_needs_login"
	relayCertificate = "postrider_relay_certificate_expiry_timestamp_seconds"
	relayLimit       = "postrider_relay_limit_reached"
	inboxUp          = "postrider_inbox_up"
	inboxScan        = "postrider_inbox_last_scan_timestamp_seconds"
	inboxLogin       = "postrider_inbox_needs_login"
	inboxCertificate = "postrider_inbox_certificate_expiry_timestamp_seconds"
	inboxBacklog     = "postrider_inbox_backlog_messages"
	inboxDue         = "postrider_inbox_due_messages"
	inboxOldest      = "postrider_inbox_oldest_waiting_timestamp_seconds"
	inboxTasks       = "postrider_inbox_tasks"
	inboxArrivals    = "postrider_inbox_arrivals"
	inboxDeliveries  = "postrider_inbox_deliveries_total"
	inboxLeases      = "postrider_inbox_leases_lost_total"
)

// all are in the order in which the documentation has them.
var all = []Metric{
	{buildInfo, Gauge, "Always 1; the label has the version of this binary.", []string{"version"}},
	{lastPass, Gauge, "When the last pass on any host ended, or watch last reported.", nil},
	{passSeconds, Histogram, "How long passes took.", nil},
	{
		deliverySeconds, Histogram,
		"Time from the registration of a message to the relay's acceptance, for each recipient.", nil,
	},
	{noticesWaiting, Gauge, "Failures that could not be reported yet (notify, hook).", nil},
	{
		events, Gauge,
		"Events for other systems, by destination and status; falls when they are deleted.",
		[]string{labelDestination, labelStatus},
	},
	{eventsOldest, Gauge, "When the longest waiting event was made; absent when none waits.", ofDestination},
	{
		eventsUp, Gauge,
		"0: the destination failed when it was last tried. Refusing an event is not a failure.", ofDestination,
	},
	{relayUp, Gauge, "Whether the relay took mail when it was last tried.", nil},
	{relayLogin, Gauge, "Whether a person has to log in to the relay (OAuth2).", nil},
	{relayCertificate, Gauge, "When the certificate of the relay expires, as seen at the last login.", nil},
	{relayLimit, Gauge, "Whether due messages wait for smtp.limits.", nil},
	{inboxUp, Gauge, "Whether the last scan of the inbox succeeded.", ofInbox},
	{inboxScan, Gauge, "When the inbox was last scanned successfully.", ofInbox},
	{inboxLogin, Gauge, "Whether a person has to log in to the inbox (OAuth2).", ofInbox},
	{
		inboxCertificate, Gauge,
		"When the certificate of the inbox's server expires, as seen at the last login.", ofInbox,
	},
	{inboxBacklog, Gauge, "Registered messages that have not ended: received, in_progress or error.", ofInbox},
	{inboxDue, Gauge, "Messages of the backlog that a pass would claim now.", ofInbox},
	{
		inboxOldest, Gauge,
		"When the longest waiting message of the backlog was registered or requeued; absent without a backlog.",
		ofInbox,
	},
	{
		inboxTasks, Gauge,
		"Registered messages by status; falls when tasks are purged.",
		[]string{labelInbox, labelStatus},
	},
	{
		inboxArrivals, Gauge,
		"Deliveries by what became of them after the relay had accepted them; " +
			"falls when tasks are purged or retried.",
		[]string{labelInbox, labelStatus},
	},
	{
		inboxDeliveries, Counter,
		"Attempts to deliver a message to a recipient, by result and class of the relay's reply.",
		[]string{labelInbox, labelResult, labelReply},
	},
	{inboxLeases, Counter, "Times that a worker found that it had lost the lease of a task.", ofInbox},
}
