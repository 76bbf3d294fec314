package health

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Limits are the greatest numbers of an inbox that raise no alert. nil is no limit.
type Limits struct {
	Backlog       *int           `yaml:"backlog"`
	Due           *int           `yaml:"due"`
	OldestWaiting *time.Duration `yaml:"oldest_waiting"`
	InError       *int           `yaml:"in_error"`
	Dead          *int           `yaml:"dead"`
	Uncertain     *int           `yaml:"uncertain"`
	Conflicts     *int           `yaml:"conflicts"`
	RetryRate     *Share         `yaml:"retry_rate"`
	LastScan      *time.Duration `yaml:"last_scan"`
}

// Set reports whether there is any limit.
func (l Limits) Set() bool { return l != Limits{} }

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
		return fmt.Errorf("%q is no share; write it from 0%% to 100%%, or from 0 to 1, such as 20%% or 0.2", b)
	}
	*s = Share(f)
	return nil
}

// String returns the share in percent.
func (s Share) String() string { return strconv.FormatFloat(float64(s)*100, 'g', 3, 64) + "%" }
