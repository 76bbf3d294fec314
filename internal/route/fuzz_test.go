package route

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"postrider/internal/address"
)

// FuzzDecide: rules of any words either compile or tell what is wrong, and every message gets one
// fate that Explain agrees with.
func FuzzDecide(f *testing.F) {
	const mail = "From: =?utf-8?Q?J=C3=B6rg?= <a@bücher.example>\nTo: b@y.example\n" +
		"Subject: Hearing\nList-Id: A <a.lists.example>\n\nx"
	for _, p := range []string{
		"*@court.example", "/a|b/", "hearing", "//", "?*", "a@xn--", "\xff",
		"*.lists.example", "/(?i:x{1000}){1000}/", "", "ß",
	} {
		f.Add("court+1", p, "intake@firm.example", "X-A", mail, uint(0))
	}
	f.Add("a\nb", "*", "a@x.example>\r\nDATA", "X A:", "\x00\xff", uint(1<<7-1))
	f.Add("a\nb", "*@*", "a@x.example", "X-A", mail, uint(1))
	f.Add("r", "*@*", "second@X.example", "X-A", mail, uint(1))
	f.Add("r", "*@*", "second@X.example", "X-A", mail, uint(1+8+64))
	f.Add("r", "/(?P<w>\\w+)/", "${w}@x.example", "X-A", mail, uint(8))
	f.Add("r", "/(?P<w>.*)/", "${w}", "X-A", mail, uint(12))
	f.Add("r", `from[1] == subject or int(subject) > 1`, "a@x.example", "X-A", mail, uint(10))
	f.Add("r", `any(split(body, ""), # matches "x") and age > duration("1h")`, "a@x.example", "X-A", mail, uint(11))
	files, _ := filepath.Glob("../../../shared/corpus/*/*/*.eml")
	for _, name := range files {
		if raw, err := os.ReadFile(name); err == nil && len(raw) < 4<<10 {
			f.Add("r", "*@*", "a@x.example", "Received", string(raw), uint(1))
		}
	}
	f.Fuzz(func(t *testing.T, name, pattern, to, field, raw string, bits uint) {
		rules := []Rule{
			ruleOf(name, pattern, to, field, bits),
			{
				Name: "second", To: []string{"second@x.example", to}, Continue: bits&64 != 0,
				Match: Match{From: []string{pattern}},
			},
			{Name: "rest", To: []string{"rest@x.example"}},
		}
		table, err := Compile(rules)
		if err != nil {
			checkErrors(t, err, len(rules))
			return
		}
		m := mailOf(t, raw)
		m.Inbox, m.Folder = to, name
		checkDecision(t, table, m)
		checkSure(t, table, m)
		m.Message = nil
		checkDecision(t, table, m)
	})
}

// ruleOf is a rule with one key of its match, chosen by bits, and some of the rest.
func ruleOf(name, pattern, to, field string, bits uint) Rule {
	any, yes := []string{pattern}, bits&2 != 0
	m := []Match{
		{Subject: any},
		{From: any},
		{To: any, Cc: any},
		{Recipient: any},
		{ListID: any},
		{Inbox: any, Folder: any},
		{Header: map[string][]string{field: any}},
		{HasAttachment: &yes, Larger: Size(bits)},
		{Body: any, Attachment: any},
		{Any: []Match{{Body: any}, {Not: &Match{Subject: any}}}},
		{When: pattern},
		{Not: &Match{When: pattern, Header: map[string][]string{field: any}}},
	}[bits%12]
	r := Rule{Name: name, Match: m, Continue: bits&8 != 0, Skip: bits&16 != 0}
	if !r.Skip || bits&128 != 0 {
		r.To = []string{to}
	}
	if bits&32 != 0 {
		r.Priority = High
	}
	return r
}

func checkErrors(t *testing.T, err error, rules int) {
	t.Helper()
	var errs Errors
	if !errors.As(err, &errs) || len(errs) == 0 {
		t.Fatalf("Compile = %v, want Errors", err)
	}
	for _, e := range errs {
		if e.Index < 0 || e.Index >= rules || e.Key == "" || e.Problem == "" {
			t.Errorf("Compile = %+v, want the rule, the key and the problem", e)
		}
	}
}

func checkDecision(t *testing.T, table *Table, m Mail) {
	t.Helper()
	d, steps := table.Decide(t.Context(), m), table.Explain(t.Context(), m)
	var matched []string
	on := true
	for i, s := range steps {
		if (s.Outcome == NotReached) == on {
			t.Errorf("%q is %s, want a rule to be reached until one matches that does not continue", s.Route, s.Outcome)
		}
		if s.Outcome == Matched {
			matched = append(matched, s.Route)
			on = table.rules[i].Continue
		}
		if strings.ContainsFunc(s.String(), unicode.IsControl) {
			t.Errorf("a step is %q, want one line", s)
		}
	}
	if len(steps) != len(table.rules) || !slices.Equal(d.Matched, matched) {
		t.Errorf("Decide says %q, Explain %q of %d rules, want the same, and all rules", d.Matched, matched, len(steps))
	}
	if len(matched) == 0 || d.Skip == (len(d.To) > 0) || d.Priority != Normal && d.Priority != High {
		t.Errorf("%+v, want a fate: the last rule takes every message", d)
	}
	if utf8.RuneCountInString(d.Route) > 255 || strings.ContainsFunc(d.Route+d.Reason, unicode.IsControl) {
		t.Errorf("route %q, reason %q, want one line each, and at most 255 characters", d.Route, d.Reason)
	}
	seen := map[string]bool{}
	for _, to := range d.To {
		if seen[address.Mailbox(to)] || address.Check(to) != nil {
			t.Errorf("recipients are %q, want addresses, and each mailbox once", d.To)
		}
		seen[address.Mailbox(to)] = true
	}
}

// FuzzSize: a size that is read prints as one that reads the same.
func FuzzSize(f *testing.F) {
	for _, s := range []string{
		"1", "50MiB", "500 kb", "1gb", "", "0", "-1", "9223372036854775807KB", "10 Mi B", "١",
		"+5", "0x10", "1_000",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var s, again Size
		if err := s.UnmarshalText([]byte(text)); err != nil {
			return
		}
		if err := again.UnmarshalText([]byte(s.String())); err != nil || s <= 0 || again != s {
			t.Errorf("%q is %d, and prints as %q, which is %d (%v); want a size above 0 that stays the same",
				text, s, s, again, err)
		}
	})
}
