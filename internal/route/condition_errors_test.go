package route

import (
	"errors"
	"strings"
	"testing"
)

func TestCompileConditionErrors(t *testing.T) {
	deep := Match{Subject: []string{"x"}}
	for range maxGroups + 1 {
		deep = Match{Any: []Match{deep}}
	}
	tests := []struct {
		name string
		rule Rule
		want string // a part of the only error
	}{
		{"regexp for the body", Rule{Match: Match{Body: []string{"/(/"}}}, "match.body[0]: "},
		{"no attachment", Rule{Match: Match{Attachment: []string{}}}, "match.attachment: is an empty list"},
		{"empty age", Rule{Match: Match{Age: &Age{}}}, "match.age: needs over or under"},
		{"impossible age", Rule{Match: Match{Age: &Age{Over: 2, Under: 1}}}, "match.age: matches nothing"},
		{
			"no zone",
			Rule{Match: Match{Hours: []string{"8:00-9:00"}}},
			"match.time_zone: weekday and hours need time_zone",
		},
		{"wrong zone", Rule{Match: Match{TimeZone: "Berlin"}}, `match.time_zone: "Berlin" is not a time zone`},
		{"the zone of this host", Rule{Match: Match{TimeZone: "Local"}}, `match.time_zone: "Local" is not a time zone`},
		{
			"wrong day",
			Rule{Match: Match{TimeZone: "UTC", Weekday: []string{"mon", "fri-holiday"}}},
			`match.weekday[1]: "fri-holiday" is not a day of the week`,
		},
		{
			"wrong hours",
			Rule{Match: Match{TimeZone: "UTC", Hours: []string{"8-18"}}},
			`match.hours[0]: "8-18" is not a span of hours`,
		},
		{
			"hours past midnight",
			Rule{Match: Match{TimeZone: "UTC", Hours: []string{"18:00-25:00"}}},
			`match.hours[0]: "18:00-25:00" is not a span`,
		},
		{
			"hours without end",
			Rule{Match: Match{TimeZone: "UTC", Hours: []string{"08:00-08:00"}}},
			"begins when it ends",
		},
		{"no choice", Rule{Match: Match{Any: []Match{}}}, "match.any: is an empty list"},
		{
			"a choice that is everything",
			Rule{Match: Match{Any: []Match{{Subject: []string{"x"}}, {}}}},
			"match.any[1]: has no conditions, and would match everything",
		},
		{
			"not everything",
			Rule{Match: Match{Not: &Match{}}},
			"match.not: has no conditions, and would match nothing",
		},
		{
			"a error in a group",
			Rule{Match: Match{Any: []Match{{Not: &Match{Subject: []string{"x", "/(/"}}}}}},
			"match.any[0].not.subject[1]: ",
		},
		{"groups too deep", Rule{Match: deep}, "groups are nested more than 10 deep"},
		{
			"a capture that is not there",
			Rule{To: []string{"${file}@x.example"}},
			"to[0]: ${file} is not captured; match needs a regular expression with a group of that name",
		},
		{
			"a capture of a negation",
			Rule{To: []string{"${f}@x.example"}, Match: Match{Not: &Match{Subject: []string{"/(?P<f>a)/"}}}},
			"to[0]: ${f} is not captured",
		},
		{"a placeholder without end", Rule{To: []string{"${f@x.example"}}, "has ${ without a name and } behind it"},
		{
			"no address, whatever is captured",
			Rule{To: []string{"${f}@"}, Match: Match{Subject: []string{"/(?P<f>a)/"}}},
			"is not an address, whatever is captured",
		},
		{"a priority that is not captured", Rule{Priority: "${p}"}, "priority: ${p} is not captured"},
		{
			"a error of the expression hides no names",
			Rule{To: []string{"${f}@x.example"}, Match: Match{Subject: []string{"/(?P<f>a/"}}},
			"match.subject[0]: ",
		},
		{"when, grammar", Rule{Match: Match{When: "subject =="}}, "match.when: unexpected token EOF"},
		{
			"when, name",
			Rule{Match: Match{When: "subjcet == 'x'"}},
			"match.when: unknown name subjcet; there are inbox, folder,",
		},
		{
			"when, type",
			Rule{Match: Match{When: "size > 'x'"}},
			"match.when: invalid operation: > (mismatched types int and string)",
		},
		{"when, not a truth", Rule{Match: Match{When: "subject"}}, "match.when: expected bool, but got string"},
		{"when, the time of day", Rule{Match: Match{When: "now().Hour() > 3"}}, "match.when: "},
		{
			"when, a regexp from the message",
			Rule{Match: Match{When: `subject matches header("X")`}},
			"match.when: the regular expression after matches has to be written out",
		},
		{
			"when, a text for each letter",
			Rule{Match: Match{When: `len(replace(body, "a", subject)) > 5`}},
			"match.when: what replace puts in has to be written out",
		},
		{
			"when, a text between all words",
			Rule{Match: Match{When: `join(split(body, " "), subject) == ""`}},
			"match.when: what join puts in has to be written out",
		},
		{
			"when, a function that is not there",
			Rule{Match: Match{When: `reduce(to, #acc + #) == ""`}},
			"match.when: unknown name reduce; there are the functions header, headers, split, all,",
		},
		{
			"when, a function of the library that is refused",
			Rule{Match: Match{When: `sort(to)[0] == ""`}},
			"match.when: unknown name sort; there are the functions header, headers, split, all,",
		},
		{
			"when, days",
			Rule{Match: Match{When: `age > duration("30d")`}},
			`match.when: duration: time: unknown unit "d" in duration "30d"; ` +
				`write hours and minutes, such as duration("720h") for 30 days`,
		},
		{
			"when, a time zone that is none",
			Rule{Match: Match{When: `arrived.In(timezone("Europe/Berln")).Hour() > 3`}},
			"match.when: timezone: unknown time zone Europe/Berln; write",
		},
		{
			"when, a date in another form",
			Rule{Match: Match{When: `arrived > date("01.02.2026")`}},
			"match.when: date: invalid date 01.02.2026; write",
		},
		{
			"when, a date that its layout does not read",
			Rule{Match: Match{When: `arrived > date("2026-02-01", "02.01.2006")`}},
			"match.when: date: parsing time",
		},
		{
			"when, a date that there is not, in a time zone",
			Rule{Match: Match{When: `arrived > date(timezone("Europe/Berlin"), "2026-02-31")`}},
			"match.when: date: invalid date 2026-02-31; write",
		},
		{
			"when, a duration of nothing",
			Rule{Match: Match{When: `age > duration()`}},
			"match.when: not enough arguments",
		},
		{"when, a regexp that is none", Rule{Match: Match{When: `subject matches "("`}}, "match.when: "},
		{"when, what is inside", Rule{Match: Match{When: `$env["body"] == ""`}}, "match.when: unknown name $env"},
		{"when, too long", Rule{Match: Match{When: "true" + strings.Repeat(" and true", maxNodes)}}, "match.when: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.rule.Name = "r"
			if tt.rule.To == nil {
				tt.rule.To = []string{"a@x.example"}
			}
			_, err := Compile([]Rule{tt.rule})
			var errs Errors
			if !errors.As(err, &errs) || len(errs) != 1 {
				t.Fatalf("Compile = %v, want one error", err)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Compile = %q, want %q in it", err, tt.want)
			}
		})
	}
}
