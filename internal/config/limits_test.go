package config

import (
	"strings"
	"testing"
)

func TestLimits(t *testing.T) {
	if got := load(t, minimal).SMTP.Limits; got != (Limits{}) {
		t.Errorf("limits are %+v, want none", got)
	}
	const ofFile = "{host: smtp.example.com, limits: {per_minute: 1, per_connection: 20, per_day: 7}}"
	text := strings.Replace(minimal, "{host: smtp.example.com}", ofFile, 1)
	l := load(t, text, "POSTRIDER_SMTP_LIMITS_PER_HOUR", "500", "POSTRIDER_SMTP_LIMITS_PER_DAY", "2000").SMTP.Limits
	if l.PerMinute == nil || l.PerHour == nil || l.PerDay == nil || l.PerConnection == nil {
		t.Fatalf("limits are %+v, want all four", l)
	}
	if *l.PerMinute != 1 || *l.PerHour != 500 || *l.PerDay != 2000 || *l.PerConnection != 20 {
		t.Errorf("limits are %d, %d, %d, %d; want 1, 500, 2000, 20",
			*l.PerMinute, *l.PerHour, *l.PerDay, *l.PerConnection)
	}
}
