package route

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// twoHundred are rules of which only the last matches, each with every kind of pattern.
func twoHundred() []Rule {
	var rules []Rule
	for i := range 199 {
		rules = append(rules, Rule{
			Name: fmt.Sprint("r", i), To: []string{"a@x.example"},
			Match: Match{
				From:      []string{"*@sender.example"},
				Recipient: []string{fmt.Sprintf("*@d%d.example", i), "team*@x.example"},
				Subject: []string{
					fmt.Sprintf("number %d", i), fmt.Sprintf(`/\bcase (no\.?|number) %dx\d+/`, i), "court",
				},
				Header: map[string][]string{"X-Mailer": {fmt.Sprintf("/^station %d$/", i)}},
			},
		})
	}
	return append(rules, Rule{Name: "last", To: []string{"a@x.example"}})
}

// twoHundredOnText are rules that all look through the text, each in several ways.
func twoHundredOnText() []Rule {
	var rules []Rule
	for i := range 199 {
		rules = append(rules, Rule{
			Name: fmt.Sprint("r", i), To: []string{"a@x.example"},
			Match: Match{
				Body: []string{
					fmt.Sprintf("client number %d", 10_000+i),
					fmt.Sprintf(`/\bfile (no\.?|number) (?P<file>%d-\d+)/`, 20_000+i),
					fmt.Sprintf("第%d号案件", i),
				},
				Not: &Match{Attachment: []string{"*.ics"}},
			},
		})
	}
	return append(rules, Rule{Name: "last", To: []string{"a@x.example"}})
}

// benchMail has a text of 50 KiB, in three scripts.
func benchMail() string {
	const words = "The hearing in file number 4711-26, client number 12345, is put off, " +
		"as München and 東京地方裁判所 have agreed; the parties will be told. "
	return "From: Someone <a@sender.example>\nTo: team-a@x.example, b@y.example\nCc: c@z.example\n" +
		"Subject: =?utf-8?Q?Hearing_in_case_no._12x34_before_the_court_of_M=C3=BCnchen?=\nX-Mailer: Station 9000\n" +
		"Content-Type: text/plain; charset=utf-8\n\n" + strings.Repeat(words, 50<<10/len(words))
}

// BenchmarkDecide200 fails above 5 ms a message.
func BenchmarkDecide200(b *testing.B) {
	for name, rules := range map[string][]Rule{"header": twoHundred(), "text": twoHundredOnText()} {
		b.Run(name, func(b *testing.B) {
			table, m := compile(b, rules...), mailOf(b, benchMail())
			if got := table.Decide(b.Context(), m).Route; got != "last" {
				b.Fatalf("decided for route %q, want last:\n%s", got, explain(table, m))
			}
			for b.Loop() {
				table.Decide(b.Context(), m)
			}
			if each := b.Elapsed() / time.Duration(b.N); each > 5*time.Millisecond {
				b.Errorf("200 rules took %v a message, want at most 5ms", each)
			}
		})
	}
}
