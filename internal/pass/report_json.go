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
	return together(head{r.Email, r.Error, r.Busy, r.Labels}, r.Counters)
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
	return together(head{Email: r.Email, Error: r.Error}, r.Counts)
}

// together is one JSON object with the keys of two.
func together(a, b any) ([]byte, error) {
	first, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	second, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	return append(append(first[:len(first)-1], ','), second[1:]...), nil
}
