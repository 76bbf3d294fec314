package measure

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"postrider/internal/tasks"
)

// Numbers are what all processes measured so far.
type Numbers struct {
	Deliveries   map[int64][]Deliveries // by inbox, sorted
	LeasesLost   map[int64]int          // by inbox
	Certificates map[int64]time.Time    // until when they are valid, by inbox; that of the relay is at 0
	RelayUp      *bool                  // whether the relay took mail when it was last tried; nil before
	LastPassAt   *time.Time             // when the last pass ended; nil before

	DeliverySeconds Histogram // from the registration of a message to the relay's acceptance
	PassSeconds     Histogram
}

// Deliveries counts attempts to deliver a message to a recipient.
type Deliveries struct {
	Result string `json:"result"` // delivered, failed, retry, unknown
	Reply  string `json:"reply"`  // 2xx, 4xx, 5xx; none without a reply
	Count  int    `json:"count"`
}

// results are the results of an attempt, by how the delivery stands after it.
var results = map[tasks.DeliveryStatus]string{
	tasks.Delivered: "delivered", tasks.Failed: "failed", tasks.Pending: "retry", tasks.Sending: "unknown",
}

// outcome is one attempt that left a delivery like this.
func outcome(d tasks.Delivery) Deliveries {
	reply := "none"
	if class := d.Code / 100; class > 0 && class < 10 {
		reply = strconv.Itoa(class) + "xx"
	}
	return Deliveries{results[d.Status], reply, 1}
}

func (d Deliveries) label() string { return d.Result + " " + d.Reply }

// Histogram counts durations.
type Histogram struct {
	Bounds []float64 // of the buckets, in seconds, ascending; the last bucket has none
	Counts []int     // of each bucket alone; one more than Bounds
	Sum    float64   // of all durations, in seconds
}

var (
	deliveryBuckets = []float64{0.5, 1, 2, 5, 10, 30, 60, 120, 300, 900, 3600, 4 * 3600, 24 * 3600}
	passBuckets     = []float64{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}
)

func newHistogram(bounds []float64) Histogram {
	return Histogram{Bounds: bounds, Counts: make([]int, len(bounds)+1)}
}

// Count is the number of durations.
func (h Histogram) Count() int {
	n := 0
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// add adds a row. A bucket of another version counts for the next larger one of this version.
func (h *Histogram) add(label string, value float64) {
	if label == sumLabel {
		h.Sum = value
		return
	}
	upTo, err := strconv.ParseFloat(label, 64)
	if err != nil {
		upTo = math.Inf(1)
	}
	i, _ := slices.BinarySearch(h.Bounds, upTo)
	h.Counts[i] += int(value)
}

func newNumbers() Numbers {
	return Numbers{
		Deliveries: map[int64][]Deliveries{}, LeasesLost: map[int64]int{}, Certificates: map[int64]time.Time{},
		DeliverySeconds: newHistogram(deliveryBuckets), PassSeconds: newHistogram(passBuckets),
	}
}

// add adds a row of the database. One of another version is left out.
func (n *Numbers) add(r row) {
	switch r.key.name {
	case deliveries:
		result, reply, _ := strings.Cut(r.key.label, " ")
		n.Deliveries[r.key.inboxID] = append(n.Deliveries[r.key.inboxID], Deliveries{result, reply, int(r.value)})
	case leasesLost:
		n.LeasesLost[r.key.inboxID] = int(r.value)
	case certificate:
		n.Certificates[r.key.inboxID] = at(r.value)
	case relayUp:
		up := r.value > 0
		n.RelayUp = &up
	case lastPass:
		ended := at(r.value)
		n.LastPassAt = &ended
	case deliverySeconds:
		n.DeliverySeconds.add(r.key.label, r.value)
	case passSeconds:
		n.PassSeconds.add(r.key.label, r.value)
	}
}

// at is a time in seconds since 1970.
func at(seconds float64) time.Time { return time.UnixMicro(int64(seconds * 1e6)).UTC() }

func (d Deliveries) compare(o Deliveries) int {
	return cmp.Or(strings.Compare(d.Result, o.Result), strings.Compare(d.Reply, o.Reply))
}
