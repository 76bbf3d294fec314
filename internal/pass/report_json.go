package pass

import "encoding/json"

// head is what the JSON of one inbox begins with. Its counters stand beside it, on the same level.
type head struct {
	Email string `json:"email"`
	Error string `json:"error"`
	Busy  string `json:"busy,omitempty"`

	Labels map[string]string `json:"labels,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (r InboxReport) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		head
		Counters
	}{head{r.Email, r.Error, r.Busy, r.Labels}, r.Counters})
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *InboxReport) UnmarshalJSON(data []byte) error {
	var h head
	if err := json.Unmarshal(data, &h); err != nil {
		return err
	}
	r.Email, r.Error, r.Busy, r.Labels = h.Email, h.Error, h.Busy, h.Labels
	return json.Unmarshal(data, &r.Counters)
}

// MarshalJSON implements json.Marshaler.
func (r InboxReplay) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		head
		ReplayCounts
	}{head{Email: r.Email, Error: r.Error}, r.Counts})
}
