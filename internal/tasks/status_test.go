package tasks

import (
	"slices"
	"testing"
)

// TestAllowed spells the state machine out: a row says where a task may go from there.
func TestAllowed(t *testing.T) {
	want := map[Status][]Status{
		"":             {Received, Skipped, SkippedNoMatch},
		Received:       {InProgress, Skipped},
		InProgress:     {Received, InProgress, Error, Uncertain, Dead, Forwarded, SkippedNoMatch, Skipped},
		Error:          {Received, InProgress, Skipped},
		Uncertain:      {Received, Forwarded, Skipped},
		Dead:           {Received, Skipped},
		Forwarded:      {Received},
		SkippedNoMatch: {Received},
		Skipped:        {Received},
		"nonsense":     {},
	}
	for from, tos := range want {
		for _, to := range append([]Status{"", "nonsense"}, Statuses...) {
			if got := Allowed(from, to); got != slices.Contains(tos, to) {
				t.Errorf("from %q to %q: allowed %t, want %t", from, to, got, !got)
			}
		}
	}
}

func TestFrom(t *testing.T) {
	for to, want := range map[Status][]Status{
		Forwarded:  {InProgress, Uncertain},
		InProgress: {Received, InProgress, Error},
		Dead:       {InProgress},
		Received:   {InProgress, Error, Uncertain, Dead, Forwarded, SkippedNoMatch, Skipped},
		"nonsense": nil,
	} {
		if got := From(to); !slices.Equal(got, want) {
			t.Errorf("to %q lead %q, want %q", to, got, want)
		}
	}
}

func TestEnded(t *testing.T) {
	for _, s := range Statuses {
		live := slices.Contains([]Status{Received, InProgress, Error}, s)
		if s.Ended() == live {
			t.Errorf("%s: ended %t, want %t", s, s.Ended(), !live)
		}
	}
}

func TestUIDValidity(t *testing.T) {
	if got := (Task{Epoch: 5<<32 | 4_294_967_295}).UIDValidity(); got != 4_294_967_295 {
		t.Errorf("UIDVALIDITY %d, want the low 32 bits, 4294967295", got)
	}
}
