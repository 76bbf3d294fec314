package tasks

import (
	"testing"
	"time"
)

func TestLike(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC)
	was := Stated{at, 400}
	zone := time.FixedZone("", 3600)
	for _, tt := range []struct {
		name     string
		now      Stated
		read     Likeness // when the content is known
		outlined Likeness // when it is not
	}{
		{"the same", was, Same, Same},
		{"the same second in another zone", Stated{at.Add(time.Millisecond).In(zone), 400}, Same, Same},
		{"another size", Stated{at, 401}, Doubtful, Same},
		{"another date", Stated{at.Add(time.Hour), 400}, Doubtful, Same},
		{"another size and date", Stated{at.Add(time.Second), 401}, Doubtful, Another},
		{"no size", Stated{at, 0}, Same, Same},
		{"no date, another size", Stated{time.Time{}, 401}, Doubtful, Same},
		{"nothing", Stated{}, Same, Same},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := (Noted{Fingerprint: hash("content"), Stated: was}).Like(tt.now); got != tt.read {
				t.Errorf("the content is known: %d, want %d", got, tt.read)
			}
			if got := (Noted{Fingerprint: was.Outline(), Stated: was}).Like(tt.now); got != tt.outlined {
				t.Errorf("the content is not known: %d, want %d", got, tt.outlined)
			}
		})
	}
	if got := (Noted{Fingerprint: hash("content")}).Like(was); got != Same {
		t.Errorf("nothing was stated before: %d, want the same", got)
	}
}
