package route

import (
	"strings"
	"testing"
)

// TestUndecided: neither a condition on what cannot be read holds, nor its negation; what was found
// counts.
func TestUndecided(t *testing.T) {
	yes := true
	const (
		broken  = "Content-Type: multipart/mixed; boundary=b\n\n--b\n\nseen\n--b\nno header\n\nhidden\n--b--\n"
		strange = "Content-Type: text/plain; charset=x-none\n\nseen \xe9"
	)
	no := false
	tests := []struct {
		name  string
		match Match
		mail  string
		want  bool
		why   string
	}{
		{
			"not found",
			Match{Body: []string{"hidden"}},
			broken, false,
			"body is undecided: its parts cannot be separated",
		},
		{
			"its negation",
			Match{Not: &Match{Body: []string{"hidden"}}},
			broken, false,
			"not is undecided: one of its conditions is",
		},
		{"found before that", Match{Body: []string{"seen"}}, broken, true, "matched"},
		{"found, negated", Match{Not: &Match{Body: []string{"seen"}}}, broken, false, "not: failed"},
		{
			"beside what fails, negated",
			Match{Not: &Match{Body: []string{"hidden"}, Subject: []string{"x"}}},
			broken, true, "matched",
		},
		{
			"beside what holds, as a choice",
			Match{Any: []Match{{Body: []string{"hidden"}}, {Folder: []string{"INBOX"}}}},
			broken, true,
			"matched",
		},
		{
			"beside what fails, as a choice",
			Match{Any: []Match{{Body: []string{"hidden"}}, {Subject: []string{"x"}}}},
			broken, false,
			"any is undecided",
		},
		{"has_attachment", Match{HasAttachment: &yes}, broken, false, "has_attachment is undecided"},
		{"when", Match{When: `body contains "seen"`}, broken, false, "when is undecided: its parts"},
		{
			"has_attachment, found",
			Match{HasAttachment: &yes},
			strings.Replace(broken, "\n\nseen", "\nContent-Disposition: attachment\n\nseen", 1), true, "matched",
		},
		{"has_attachment, beside text in a strange charset", Match{HasAttachment: &no}, strange, true, "matched"},
		{"attachment, beside such text", Match{Not: &Match{Attachment: []string{"*.exe"}}}, strange, true, "matched"},
		{"when, attachments beside such text", Match{When: "not has_attachment"}, strange, true, "matched"},
		{"when, such text", Match{When: `body contains "seen"`}, strange, false, "when is undecided: its charset"},
		{"body, such text", Match{Not: &Match{Body: []string{"x"}}}, strange, false, "not is undecided"},
		{"body, found in such text", Match{Body: []string{"seen"}}, strange, true, "matched"},
		{
			"too long",
			Match{Not: &Match{Body: []string{"x"}}},
			"Subject: a\n\n" + strings.Repeat("a ", 300<<10), false, "not is undecided",
		},
		{"no message", Match{Not: &Match{Subject: []string{"x"}}}, "", false, "not is undecided"},
		{"no message, but its place", Match{Not: &Match{Folder: []string{"Junk"}}}, "", true, "matched"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := Mail{Inbox: "office@firm.example", Folder: "INBOX"}
			if tt.mail != "" {
				m = mailOf(t, tt.mail)
			}
			got, why := only(t, tt.match, m)
			if got != tt.want || !strings.Contains(why, tt.why) {
				t.Errorf("matched = %v, want %v; explained as\n%s, want %q in it", got, tt.want, why, tt.why)
			}
		})
	}
	m := mailOf(t, "Subject: x")
	m.Inbox = ""
	if got, why := only(t, Match{Not: &Match{Inbox: []string{"a@*"}}}, m); got {
		t.Errorf("matched without an inbox, want it undecided:\n%s", why)
	}
}
