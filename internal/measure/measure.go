// Package measure counts what passes do, and keeps the sums in the database.
//
// A pass that cron starts ends after seconds, and its counters with it. So each process adds what
// its Meter counted to rows of the database, at the end of a pass. The sums are those of all
// processes on all hosts. They never fall: deleting tasks does not change them.
//
// Keep adds everything in one transaction. A process that is killed loses what it counted since its
// last Keep. If the connection to the database breaks during the commit, the same numbers may be
// added twice. That is good enough for rates and percentiles; what became of each message is in the
// registry (package tasks).
package measure

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"
)

// The names of the numbers, as in the database.
const (
	deliveries      = "deliveries"       // label: result and reply class
	leasesLost      = "leases_lost"      //
	deliverySeconds = "delivery_seconds" // label: a bucket, or sum
	passSeconds     = "pass_seconds"     // likewise
	lastPass        = "last_pass"        // seconds since 1970
	relayUp         = "relay_up"         // 1 or 0
	certificate     = "certificate_ends" // seconds since 1970; of the relay for inbox 0
)

// key is the primary key of a number.
type key struct {
	name    string
	inboxID int64
	label   string
}

// Meter has what this process counted and did not add to the database yet. It is safe for
// concurrent use.
type Meter struct {
	mu    sync.Mutex
	added map[key]float64 // to be added to the sums
	set   map[key]float64 // to replace what is there
	ended bool            // a pass
}

// NewMeter is a Meter at zero.
func NewMeter() *Meter { return &Meter{added: map[key]float64{}, set: map[key]float64{}} }

// PassEnded counts a pass. relay says whether the relay took mail; nil when none was sent.
func (m *Meter) PassEnded(took time.Duration, relay *bool) {
	m.Working(relay)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.observe(passSeconds, passBuckets, took)
}

// Working notes that inboxes are worked on, as at the end of a pass. A process that stays up calls
// it from time to time.
func (m *Meter) Working(relay *bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
	if relay != nil {
		m.set[key{relayUp, 0, ""}] = number(*relay)
	}
}

// Certificate notes until when the certificate of a server is valid, of the relay for inbox 0.
func (m *Meter) Certificate(inboxID int64, ends time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.set[key{certificate, inboxID, ""}] = float64(ends.Unix())
}

// attempted counts attempts to deliver a message to a recipient.
func (m *Meter) attempted(inboxID int64, d Deliveries) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.added[key{deliveries, inboxID, d.label()}] += float64(d.Count)
}

func (m *Meter) tookUntilDelivered(took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.observe(deliverySeconds, deliveryBuckets, took)
}

func (m *Meter) leaseLost(inboxID int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.added[key{leasesLost, inboxID, ""}]++
}

// observe adds to a histogram: the count of its bucket, and the sum.
func (m *Meter) observe(name string, buckets []float64, took time.Duration) {
	seconds := max(0, took.Seconds())
	i, _ := slices.BinarySearch(buckets, seconds) // a bound belongs to its bucket
	m.added[key{name, 0, bound(buckets, i)}]++
	m.added[key{name, 0, sumLabel}] += seconds
}

const (
	sumLabel = "sum"
	infinite = "+Inf"
)

func bound(buckets []float64, i int) string {
	if i == len(buckets) {
		return infinite
	}
	return strconv.FormatFloat(buckets[i], 'g', -1, 64)
}

// take empties the meter.
func (m *Meter) take() (added, set map[key]float64, ended bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	added, set, ended = m.added, m.set, m.ended
	m.added, m.set, m.ended = map[key]float64{}, map[key]float64{}, false
	return added, set, ended
}

// putBack undoes take, when the numbers could not be kept.
func (m *Meter) putBack(added, set map[key]float64, ended bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, v := range added {
		m.added[k] += v
	}
	maps.Copy(set, m.set) // what came meanwhile is newer
	m.set = set
	m.ended = m.ended || ended
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
