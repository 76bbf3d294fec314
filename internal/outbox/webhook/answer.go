package webhook

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"postrider/internal/outbox"
)

// LongestLater is how long an answer can pause a destination at most.
const LongestLater = 24 * time.Hour

// judge returns what an answer means, nil if the event has arrived.
func (p *Publisher) judge(resp *http.Response) error {
	if resp.StatusCode/100 == 2 {
		return nil
	}
	err := fmt.Errorf("%s answered %d %s", p.to.Host, resp.StatusCode, http.StatusText(resp.StatusCode))
	switch resp.StatusCode {
	case http.StatusGone:
		return fmt.Errorf("%w: %w", outbox.ErrGone, err)
	case http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return &outbox.Refused{Err: err}
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if after, ok := retryAfter(resp.Header.Get("Retry-After"), p.now()); ok {
			return &outbox.Later{After: after, Err: err}
		}
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden:
		// Many answer 400 to a wrong signature.
		return fmt.Errorf("%w; check the secret and the url", err)
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return fmt.Errorf("%w; check the url", err)
	}
	return err
}

// retryAfter reads the header Retry-After, seconds or a date (RFC 9110 10.2.3). It returns at most
// 24 hours, in whole seconds, and false for what is neither or is over.
func retryAfter(value string, now time.Time) (time.Duration, bool) {
	if seconds, err := strconv.ParseUint(value, 10, 63); err == nil {
		if seconds > uint64(LongestLater/time.Second) {
			return LongestLater, true
		}
		return time.Duration(seconds) * time.Second, seconds > 0
	}
	at, err := http.ParseTime(value)
	if err != nil || !at.After(now) {
		return 0, false
	}
	return (min(at.Sub(now), LongestLater) + time.Second - 1).Truncate(time.Second), true
}
