package route

import (
	"errors"
	"strings"
	"testing"

	"postrider/internal/message"
)

func TestCompileErrors(t *testing.T) {
	to := []string{"a@x.example"}
	tests := []struct {
		name string
		rule Rule
		want string // a part of the only error
	}{
		{"no name", Rule{To: to}, "route number 1: name: is missing"},
		{"long name", Rule{Name: strings.Repeat("x", 65), To: to}, "name: is longer than 64"},
		{"plus in the name", Rule{Name: "a+b", To: to}, "name: must not contain +"},
		{"the mark of a cut as a name", Rule{Name: "…", To: to}, "name: must not be … alone"},
		{"uncertain", Rule{Name: "r", To: to, Uncertain: "maybe"}, `uncertain: "maybe" is not one of retry, hold`},
		{"automated", Rule{Name: "r", To: to, Automated: "drop"}, `automated: "drop" is not one of forward, skip`},
		{"skip with automated", Rule{Name: "r", Skip: true, Automated: SkipAutomated}, "skip: contradicts automated"},
		{
			"own address",
			Rule{Name: "r", To: to, OwnAddress: "drop"},
			`own_address: "drop" is not one of skip, forward`,
		},
		{
			"skip with own address",
			Rule{Name: "r", Skip: true, OwnAddress: SkipOwnAddress},
			"skip: contradicts own_address",
		},
		{"skip with uncertain", Rule{Name: "r", Skip: true, Uncertain: Hold}, "skip: contradicts uncertain"},
		{"no recipient", Rule{Name: "r"}, `route "r": to: is missing`},
		{"skip with priority", Rule{Name: "r", Skip: true, Priority: High}, "skip: contradicts priority"},
		{"skip with recipients", Rule{Name: "r", Skip: true, To: to}, "skip: contradicts to"},
		{"skip and continue", Rule{Name: "r", Skip: true, Continue: true}, "skip: contradicts continue"},
		{"priority", Rule{Name: "r", To: to, Priority: "urgent"}, `priority: "urgent" is not one of high, normal`},
		{"recipient", Rule{Name: "r", To: []string{"a@x.example", "b"}}, `to[1]: "b" is not an address`},
		{"recipient with a name", Rule{Name: "r", To: []string{"B <b@x.example>"}}, "write only b@x.example"},
		{
			"recipient with a line end",
			Rule{Name: "r", To: []string{"b@x.example\r\nRCPT TO:<c@x.example>"}},
			"to[0]:",
		},
		{
			"recipient with a quote behind",
			Rule{Name: "r", To: []string{"b@x.example'"}},
			"its domain has a character that no domain has",
		},
		{"empty recipient", Rule{Name: "r", To: []string{""}}, "to[0]: an address is missing"},
		{"long recipient", Rule{Name: "r", To: []string{strings.Repeat("x", 65) + "@x.example"}}, "to[0]: "},
		{"empty list", Rule{Name: "r", To: to, Match: Match{From: []string{}}}, "match.from: is an empty list"},
		{
			"empty list for a field",
			Rule{Name: "r", To: to, Match: Match{Header: map[string][]string{"X-A": nil}}},
			"match.header.X-A: is an empty list",
		},
		{"no field", Rule{Name: "r", To: to, Match: Match{Header: map[string][]string{}}}, "match.header: is empty"},
		{"blank name", Rule{Name: "  ", To: to}, "name: is missing"},
		{"empty text", Rule{Name: "r", To: to, Match: Match{Subject: []string{" "}}}, "match.subject[0]: is empty"},
		{"empty glob", Rule{Name: "r", To: to, Match: Match{Folder: []string{""}}}, "match.folder[0]: is empty"},
		{"empty address", Rule{Name: "r", To: to, Match: Match{From: []string{""}}}, "match.from[0]: is empty"},
		{"address without @", Rule{Name: "r", To: to, Match: Match{From: []string{"x.example"}}}, `"*@x.example"`},
		{
			"address without a local part",
			Rule{Name: "r", To: to, Match: Match{From: []string{"@x.example"}}},
			`"*@x.example"`,
		},
		{
			"address with a name",
			Rule{Name: "r", To: to, Match: Match{To: []string{"A <a@x.example>"}}},
			"match.to[0]: ",
		},
		{
			"two addresses in one",
			Rule{Name: "r", To: to, Match: Match{Cc: []string{"a@x.example, b@x.example"}}},
			"as a list",
		},
		{
			"regexp",
			Rule{Name: "r", To: to, Match: Match{Subject: []string{"/a(/"}}},
			`match.subject[0]: "/a(/" is not a regular expression (RE2): ` +
				"error parsing regexp: missing closing ): `a(`",
		},
		{
			"regexp that RE2 has not",
			Rule{Name: "r", To: to, Match: Match{Subject: []string{"/(?=a)/"}}},
			"match.subject[0]: ",
		},
		{"empty regexp", Rule{Name: "r", To: to, Match: Match{Subject: []string{"//"}}}, "is empty"},
		{
			"regexp with flags behind",
			Rule{Name: "r", To: to, Match: Match{Subject: []string{"/a/i"}}},
			"flags go inside",
		},
		{
			"field name",
			Rule{Name: "r", To: to, Match: Match{Header: map[string][]string{"X A:": {"b"}}}},
			"match.header.X A:: is not the name",
		},
		{
			"no size",
			Rule{Name: "r", To: to, Match: Match{Larger: 9, Smaller: 10}},
			"match.smaller: matches nothing: it has to be above larger",
		},
		{"negative size", Rule{Name: "r", To: to, Match: Match{Larger: -1}}, "match.larger: has to be above 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
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

func TestCompileTellsAll(t *testing.T) {
	_, err := Compile([]Rule{
		{Name: "a", Match: Match{Subject: []string{"ok", "/(/"}}, To: []string{"x"}},
		{Name: "b", Skip: true},
		{Name: "a", Skip: true},
	})
	const want = `route "a": to[0]: "x" is not an address; write it like name@domain.example
route "a": match.subject[1]: "/(/" is not a regular expression (RE2): ` +
		"error parsing regexp: missing closing ): `(`" + `
route "a": name: is the name of route number 1 too; names have to differ`
	if err == nil || err.Error() != want {
		t.Errorf("Compile =\n%v\nwant\n%s", err, want)
	}
}

func TestSize(t *testing.T) {
	good := map[string]Size{
		"1": 1, "1024": 1024, "7B": 7, "500KB": 500_000, "500 kb": 500_000, "10KiB": 10 << 10, "50MiB": 50 << 20,
		"2MB": 2_000_000, "1GiB": 1 << 30, "1gb": 1_000_000_000,
	}
	for in, want := range good {
		var s Size
		if err := s.UnmarshalText([]byte(in)); err != nil || s != want {
			t.Errorf("size %q = %d, %v; want %d", in, s, err, want)
		}
		var again Size
		if err := again.UnmarshalText([]byte(s.String())); err != nil || again != s {
			t.Errorf("size %q prints as %q, which reads as %d, %v", in, s, again, err)
		}
	}
	for _, in := range []string{
		"", "MiB", "0", "-1", "1.5MiB", "10 bananas", "10M", "10 Mi B",
		"9223372036854775807KB", "99999999999999999999", "1e3", "١",
	} {
		var s Size
		if err := s.UnmarshalText([]byte(in)); err == nil {
			t.Errorf("size %q = %d, want an error", in, s)
		}
	}
	if got := Size(0).String(); got != "0B" {
		t.Errorf("no size prints as %q, want 0B", got)
	}
}

func FuzzPattern(f *testing.F) {
	for _, s := range []string{"*@x.example", "/a|b/", "ß", "//", "/", "?*", "@", "a@xn--", "\xff", "*.lists <"} {
		f.Add(s, "Straße <a@x.example>")
	}
	kinds := []func(string) (*pattern, error){textPattern, namePattern, addressPattern, listPattern}
	f.Fuzz(func(t *testing.T, p, s string) {
		for _, compile := range kinds {
			if p, err := compile(p); err == nil {
				p.holds(newText(s))
				p.holds(newAddress(s))
			}
		}
		if p, err := textPattern(s); err == nil && !isRegexp(s) && !p.holds(newText(" "+message.Visible(s)+" ")) {
			t.Errorf("%q does not contain what a message shows of it", s)
		}
	})
}
