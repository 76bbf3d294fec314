package route

import (
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC) // a Tuesday

// only decides by one match.
func only(t *testing.T, match Match, m Mail) (matched bool, why string) {
	t.Helper()
	table := compile(t, Rule{Name: "r", Match: match, To: []string{"d@x.example"}})
	return len(table.Decide(t.Context(), m).To) > 0, explain(table, m)
}

func TestConditions(t *testing.T) {
	const received = "Received: by mx; Tue, 3 Mar 2026 07:30:00 +0000\n"
	utc := func(m Match) Match { m.TimeZone = "UTC"; return m }
	tests := []struct {
		name  string
		match Match
		mail  string
		want  bool
	}{
		{"body, part", Match{Body: []string{"HEARING on"}}, "Subject: x\n\nThe hearing\non Monday", true},
		{
			"subject, invisible characters",
			Match{Subject: []string{"hearing"}},
			"Subject: hea\u00adri=?utf-8?q?=E2=80=8B?=ng", true,
		},
		{
			"subject, invisible characters in both",
			Match{Subject: []string{"hea\u00adring"}},
			"Subject: hea\u00adring", true,
		},
		{
			"subject, invisible characters in a regexp",
			Match{Subject: []string{"/^hea\u00adring/"}},
			"Subject: hea\u00adring", true,
		},
		{
			"attachment, invisible characters",
			Match{Attachment: []string{"hea\u00ad*.pdf"}},
			"Content-Type: x/y; name*=utf-8''hea%C2%ADring.p%E2%80%8Bdf", true,
		},
		{
			"field, invisible characters",
			Match{Header: map[string][]string{"X": {"/^hearing$/"}}},
			"X: =?utf-8?q?he=C2=ADaring=E2=80=8B?=", true,
		},
		{
			"from, quoted",
			Match{From: []string{`"Ann Smith"@x.example`}},
			"From: A <\"ann smith\"@x.example>", true,
		},
		{
			"from, a quoted glob",
			Match{From: []string{`"ann *"@x.example`}},
			"From: A <\"ann smith\"@x.example>", true,
		},
		{
			"from, quotes that are not needed",
			Match{From: []string{`"ann"@x.example`}},
			"From: A <ann@x.example>", true,
		},
		{"body is not the subject", Match{Body: []string{"hearing"}}, "Subject: hearing\n\nx", false},
		{
			"body, regexp over a line end",
			Match{Body: []string{`/hearing on/`}},
			"Subject: x\n\nThe hearing\non Monday", true,
		},
		{
			"body, regexp at a line's beginning",
			Match{Body: []string{`/(?m)^on/`}},
			"Subject: x\n\nThe hearing\non Monday", true,
		},
		{
			"body, regexp of a whole line",
			Match{Body: []string{`/(?m)^on Monday$/`}},
			"Subject: x\n\nThe hearing\non Monday\nat ten", true,
		},
		{
			"body, regexp at the end",
			Match{Body: []string{`/Monday$/`}},
			"Subject: x\n\nThe hearing\non Monday\n\n", true,
		},
		{
			"body, long, regexp",
			Match{Body: []string{`/case (no\.|number) \d+ [a-z]/`}},
			"Subject: x\n\n" + strings.Repeat("text 11 ", 1000) + "Case No. 7 x", true,
		},
		{
			"body, long, part",
			Match{Body: []string{`KLÄGER`}},
			"Content-Type: text/plain; charset=utf-8\n\n" + strings.Repeat("text ", 1000) + "der Kläger",
			true,
		},
		{"no body", Match{Body: []string{"/^/"}}, "Subject: x", false},
		{
			"attachment, part",
			Match{Attachment: []string{"invoice"}},
			"Content-Type: application/pdf; name=The-Invoice.pdf\n\n", true,
		},
		{
			"attachment, glob covers all",
			Match{Attachment: []string{"invoice*"}},
			"Content-Type: application/pdf; name=The-Invoice.pdf\n\n", false,
		},
		{
			"attachment, glob, angle brackets",
			Match{Attachment: []string{"*.exe"}},
			"Content-Disposition: attachment; filename=\"a<b>.exe\"\n\n", true,
		},
		{"attachment, none", Match{Attachment: []string{"*"}}, "Subject: x\n\n", false},
		{"age over", Match{Age: &Age{Over: 4 * time.Hour}}, received, true},
		{"age not over", Match{Age: &Age{Over: 5 * time.Hour}}, received, false},
		{"age under", Match{Age: &Age{Under: 5 * time.Hour}}, received, true},
		{"age between", Match{Age: &Age{Over: time.Hour, Under: 4 * time.Hour}}, received, false},
		{
			"age by Date, without Received",
			Match{Age: &Age{Over: time.Hour}},
			"Date: Tue, 3 Mar 2026 07:30:00 +0000", true,
		},
		{
			"age of what comes from the future",
			Match{Age: &Age{Under: time.Second}},
			"Date: Tue, 3 Mar 2099 07:30:00 +0000", true,
		},
		{"age without any date", Match{Age: &Age{Under: time.Second}}, "Subject: x", true},
		{"weekday", utc(Match{Weekday: []string{"Tue"}}), received, true},
		{"weekday, long name", utc(Match{Weekday: []string{"tuesday"}}), received, true},
		{"weekday, span over Sunday", utc(Match{Weekday: []string{"sat-mon"}}), received, false},
		{"weekday, span", utc(Match{Weekday: []string{"sat", "mon-fri"}}), received, true},
		{
			"weekday, in Auckland it is later",
			Match{Weekday: []string{"wed"}, TimeZone: "Pacific/Auckland"},
			"Received: x; Tue, 3 Mar 2026 11:30:00 +0000", true,
		},
		{"hours", utc(Match{Hours: []string{"07:30-08:00"}}), received, true},
		{"hours end before their end", utc(Match{Hours: []string{"07:00-07:30"}}), received, false},
		{"hours over midnight", utc(Match{Hours: []string{"18:00-8:00"}}), received, true},
		{"hours to the end of the day", utc(Match{Hours: []string{"00:00-24:00"}}), received, true},
		{
			"hours, in summer time",
			Match{Hours: []string{"09:00-10:00"}, TimeZone: "Europe/Berlin"},
			"Received: x; Tue, 3 Jun 2025 07:30:00 +0000", true,
		},
		{
			"hours that a clock shows twice, the first time",
			Match{Hours: []string{"02:00-03:00"}, TimeZone: "Europe/Berlin"},
			"Received: x; Sun, 26 Oct 2025 00:30:00 +0000", true,
		},
		{
			"hours that a clock shows twice, the second time",
			Match{Hours: []string{"02:00-03:00"}, TimeZone: "Europe/Berlin"},
			"Received: x; Sun, 26 Oct 2025 01:30:00 +0000", true,
		},
		{
			"hours that a clock leaves out",
			Match{Hours: []string{"02:00-03:00"}, TimeZone: "Europe/Berlin"},
			"Received: x; Sun, 30 Mar 2025 01:00:00 +0000", false,
		},
		{
			"hours behind those that a clock leaves out",
			Match{Hours: []string{"03:00-04:00"}, TimeZone: "Europe/Berlin"},
			"Received: x; Sun, 30 Mar 2025 01:00:00 +0000", true,
		},
		{
			"hours over midnight, their last second", utc(Match{Hours: []string{"18:00-08:00"}}),
			"Received: x; Tue, 3 Mar 2026 07:59:59 +0000", true,
		},
		{
			"hours over midnight, a second later", utc(Match{Hours: []string{"18:00-08:00"}}),
			"Received: x; Tue, 3 Mar 2026 08:00:00 +0000", false,
		},
		{
			"hours from midnight", utc(Match{Hours: []string{"24:00-08:00"}}),
			"Received: x; Tue, 3 Mar 2026 00:00:00 +0000", true,
		},
		{
			"hours up to midnight", utc(Match{Hours: []string{"18:00-00:00"}}),
			"Received: x; Tue, 3 Mar 2026 00:00:00 +0000", false,
		},
		{
			"the night of a Friday ends on that day",
			utc(Match{Weekday: []string{"fri"}, Hours: []string{"18:00-08:00"}}),
			"Received: x; Sat, 7 Mar 2026 02:00:00 +0000", false,
		},
		{
			"hours of what comes from the future", utc(Match{Hours: []string{"12:00-12:01"}}),
			"Received: x; Tue, 3 Mar 2099 07:30:00 +0000", true,
		},
		{
			"zone of the match around",
			Match{TimeZone: "Asia/Tokyo", Any: []Match{{Hours: []string{"16:00-17:00"}}}},
			received, true,
		},
		{
			"attachment, written from right to left",
			Match{Attachment: []string{"*.exe"}},
			"Content-Disposition: attachment; filename*=utf-8''invoice%E2%80%AEfdp.exe\n\n", true,
		},
		{
			"attachment, as it looks from right to left",
			Match{Attachment: []string{"*.pdf"}},
			"Content-Disposition: attachment; filename*=utf-8''invoice%E2%80%AEfdp.exe\n\n", false,
		},
		{
			"body, that other expressions do not come to the end of",
			Match{Body: []string{`/(a+)+$/`, `/(a|aa)+b/`}},
			"Subject: x\n\n" + strings.Repeat("a", 500<<10) + "!", false,
		},
		{"any", Match{Any: []Match{{Subject: []string{"a"}}, {Subject: []string{"b"}}}}, "Subject: b", true},
		{"any, none", Match{Any: []Match{{Subject: []string{"a"}}, {Subject: []string{"b"}}}}, "Subject: c", false},
		{
			"any beside a key",
			Match{From: []string{"a@*"}, Any: []Match{{Subject: []string{"b"}}}},
			"Subject: b", false,
		},
		{"not", Match{Not: &Match{Subject: []string{"a"}}}, "Subject: b", true},
		{"not, it is", Match{Not: &Match{Subject: []string{"a"}}}, "Subject: a", false},
		{
			"not all of its keys",
			Match{Not: &Match{Subject: []string{"a"}, From: []string{"a@*"}}},
			"Subject: a", true,
		},
		{
			"neither",
			Match{Not: &Match{Any: []Match{{Subject: []string{"a"}}, {From: []string{"a@*"}}}}},
			"Subject: a", false,
		},
		{"not not", Match{Not: &Match{Not: &Match{Subject: []string{"a"}}}}, "Subject: a", true},
		{
			"when, addresses are in lower case",
			Match{When: `"a@münchen.example" in from`},
			"From: A@xn--mnchen-3ya.EXAMPLE", true,
		},
		{"when, a field", Match{When: `int(header("X-Score")) > 5`}, "X-Score: 7", true},
		{"when, all fields", Match{When: `len(headers("Received")) == 2`}, "Received: a\nReceived: b", true},
		{"when, body", Match{When: `lower(body) contains "hearing"`}, "Subject: x\n\nHearing", true},
		{
			"when, lines of the body",
			Match{When: `any(split(body, "\n"), # == "Case: A-12") and body endsWith "bye"`},
			"Subject: x\n\nCase: A-12\nbye\n", true,
		},
		{
			"when, attachments",
			Match{When: `any(attachments, # matches "(?i)\\.pdf$") and has_attachment`},
			"Content-Type: application/pdf; name=a.PDF\n\n", true,
		},
		{
			"when, times",
			Match{When: `arrived.Hour() == 16 and age > duration("4h") and sent.Year() == 1`, TimeZone: "Asia/Tokyo"},
			received, true,
		},
		{
			"when, the rest",
			Match{When: `inbox == "office@firm.example" and folder == "INBOX" and size > 0 ` +
				`and list_id == "" and len(recipients) == 1`},
			"X-Original-To: a@b.example", true,
		},
		{
			"when, loops of all kinds",
			Match{When: `sum(map(to, len(#))) == 22 and count(to, # contains "b") == 1 ` +
				`and find(to, # startsWith "b") == "b@x.example" ` +
				`and filter(to, any(from, # == "z")) == [] and len(to) == sum(to, 1)`},
			"To: a@x.example, b@x.example", true,
		},
		{
			"when, loops in loops",
			Match{When: strings.Repeat("any(to, ", 30) + `# != ""` + strings.Repeat(")", 30)},
			"To: a@x.example", true,
		},
		{
			"when, texts put in",
			Match{When: `replace(subject, "-", "") == "M4711" and join(to, "+") == "a@x.example+b@x.example"`},
			"Subject: M-4711\nTo: a@x.example, b@x.example", true,
		},
		{"when fails", Match{When: `from[0] == "a"`}, "Subject: x", false},
		{"when fails under not", Match{Not: &Match{When: `from[0] == "a"`}}, "Subject: x", false},
		{
			"when adds texts",
			Match{When: `subject + "-" + folder + "-" + inbox + "-" + list_id + "-" + trim(body) + "-" + subject ` +
				`== "x-INBOX-office@firm.example--y-x"`},
			"Subject: x\n\ny", true,
		},
		{
			"when goes through the text now and then",
			Match{When: `all(split(subject, ""), body contains #)`},
			"Subject: " + strings.Repeat("x", 100) + "\n\n" + strings.Repeat("x", 300<<10), true,
		},
		{
			"when, more addresses than it can be told of",
			Match{When: `"z@x.example" not in to`},
			"To: a@x.example" + strings.Repeat(", a@x.example", maxList), false,
		},
		{
			"when, more of them than it asks for",
			Match{When: `"z@x.example" not in cc`},
			"Cc: a@x.example\nTo: a@x.example" + strings.Repeat(", a@x.example", maxList), true,
		},
		{
			"when, more fields than it can be told of",
			Match{When: `len(headers("X")) < 2000`},
			strings.Repeat("X: y\n", maxList+1), false,
		},
		{
			"when goes through the lines of a long text",
			Match{When: `count(split(body, "\n"), # startsWith "x") == 2000`},
			"Subject: x\n\n" + strings.Repeat("x\n", 2000), true,
		},
		{
			"when compares all with all",
			Match{When: `all(to, all(to, # != ""))`},
			"To: a@x.example" + strings.Repeat(", a@x.example", 300), true,
		},
		{"when splits once", Match{When: `split(subject, "-", 2) == ["a", "b-c"]`}, "Subject: a-b-c", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := mailOf(t, tt.mail)
			m.At = noon
			if got, why := only(t, tt.match, m); got != tt.want {
				t.Errorf("matched = %v, want %v; explained as\n%s", got, tt.want, why)
			}
		})
	}
}
