package health

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"postrider/internal/inbox"
)

// Limits are the greatest numbers of an inbox, or of a destination of events, that raise no alert.
// nil is no limit.
type Limits struct {
	Backlog       *int           `yaml:"backlog"`
	Due           *int           `yaml:"due"`
	OldestWaiting *time.Duration `yaml:"oldest_waiting"`
	InError       *int           `yaml:"in_error"`
	Dead          *int           `yaml:"dead"`
	Uncertain     *int           `yaml:"uncertain"`
	Bounced       *int           `yaml:"bounced"`
	Conflicts     *int           `yaml:"conflicts"`
	RetryRate     *Share         `yaml:"retry_rate"`
	LastScan      *time.Duration `yaml:"last_scan"`

	// Of a destination of events:
	EventsWaiting *time.Duration `yaml:"events_waiting"`
	EventsDead    *int           `yaml:"events_dead"`

	// Labels are the limits of inboxes with a label (name=value, or name with any value), in place
	// of those above. If several labels of an inbox say a limit, the smallest counts.
	Labels map[string]Limits `yaml:"labels"`
}

// LateAfter is how long after its last complete scan an inbox has trouble.
func (l Limits) LateAfter() time.Duration { return *cmp.Or(l.LastScan, new(time.Hour)) }

// Set reports whether there is any limit.
func (l Limits) Set() bool { return !reflect.ValueOf(l).IsZero() }

// Of are the limits of an inbox with these labels.
func (l Limits) Of(labels inbox.Labels) Limits {
	var own Limits
	for label, by := range l.Labels {
		if labels.Has(label) {
			own = own.smallest(by)
		}
	}
	return Limits{
		Backlog:       cmp.Or(own.Backlog, l.Backlog),
		Due:           cmp.Or(own.Due, l.Due),
		OldestWaiting: cmp.Or(own.OldestWaiting, l.OldestWaiting),
		InError:       cmp.Or(own.InError, l.InError),
		Dead:          cmp.Or(own.Dead, l.Dead),
		Uncertain:     cmp.Or(own.Uncertain, l.Uncertain),
		Bounced:       cmp.Or(own.Bounced, l.Bounced),
		Conflicts:     cmp.Or(own.Conflicts, l.Conflicts),
		RetryRate:     cmp.Or(own.RetryRate, l.RetryRate),
		LastScan:      cmp.Or(own.LastScan, l.LastScan),
	}
}

func (l Limits) smallest(o Limits) Limits {
	return Limits{
		Backlog:       smaller(l.Backlog, o.Backlog),
		Due:           smaller(l.Due, o.Due),
		OldestWaiting: smaller(l.OldestWaiting, o.OldestWaiting),
		InError:       smaller(l.InError, o.InError),
		Dead:          smaller(l.Dead, o.Dead),
		Uncertain:     smaller(l.Uncertain, o.Uncertain),
		Bounced:       smaller(l.Bounced, o.Bounced),
		Conflicts:     smaller(l.Conflicts, o.Conflicts),
		RetryRate:     smaller(l.RetryRate, o.RetryRate),
		LastScan:      smaller(l.LastScan, o.LastScan),
	}
}

// smaller is the smaller one of two limits; nil is none.
func smaller[T cmp.Ordered](a, b *T) *T {
	if a == nil || b != nil && *b < *a {
		return b
	}
	return a
}

// Share is a part of a whole, from 0 to 1.
type Share float64

// UnmarshalText reads a share written as 20% or 0.2.
func (s *Share) UnmarshalText(b []byte) error {
	text, percent := strings.CutSuffix(string(b), "%")
	f, err := strconv.ParseFloat(text, 64)
	if percent {
		f /= 100
	}
	if err != nil || !(f >= 0 && f <= 1) { // also refuses NaN
		return fmt.Errorf("%q is not a share; write it from 0%% to 100%%, or from 0 to 1, such as 20%% or 0.2", b)
	}
	*s = Share(f)
	return nil
}

// String returns the share in percent, to one decimal. Only zero is shown as 0%.
func (s Share) String() string {
	percent := math.Round(float64(s)*1000) / 10
	if s > 0 {
		percent = max(percent, 0.1)
	}
	return strconv.FormatFloat(percent, 'f', -1, 64) + "%"
}
