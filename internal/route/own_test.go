package route

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestOwnAddress: who is left out, and what is said of it. See also testdata/routes/own.yaml.
func TestOwnAddress(t *testing.T) {
	const own, ann = "Office@firm.example", "ann@firm.example"
	const left = own + " is left out: it is the inbox's own address, which has the message already " +
		"(if this address is another mailbox at the relay, set own_address: forward)"
	const loop = `loop: the only recipient of route "a" is the inbox's own address, ` + own +
		"; if that is another mailbox at the relay, set own_address: forward"
	a := Rule{Name: "a", To: []string{own}}
	b := Rule{Name: "b", To: []string{ann}}
	with := func(r Rule, w OwnAddress, goOn bool) Rule {
		r.OwnAddress, r.Continue = w, goOn
		return r
	}
	robot := with(b, "", false)
	robot.Automated = SkipAutomated
	tests := []struct {
		name   string
		rules  []Rule
		to     []string
		reason string
	}{
		{
			"a rule that says nothing",
			[]Rule{a, b},
			nil,
			loop,
		},
		{
			"a rule that skips it",
			[]Rule{with(a, "skip", false), b},
			nil,
			loop,
		},
		{"a rule that forwards", []Rule{with(a, "forward", false), b}, []string{own}, "matches route a"},
		{
			"each rule has its own way",
			[]Rule{with(a, "skip", true), with(Rule{Name: "c", To: a.To}, "forward", false)},
			[]string{own},
			"matches route a, c",
		},
		{
			"each rule has its own way, in the other order",
			[]Rule{with(a, "forward", true), with(Rule{Name: "c", To: a.To}, "skip", false)},
			[]string{own},
			"matches route a, c",
		},
		{
			"others get it by the next rule",
			[]Rule{with(a, "", true), b},
			[]string{ann},
			"matches route a, b; " + left,
		},
		{
			"the next rule skips",
			[]Rule{with(a, "", true), {Name: "s", Skip: true}},
			nil,
			`by_route: route "s" skips it; ` + left,
		},
		{
			"the next rule takes nothing of programs",
			[]Rule{with(a, "", true), robot},
			nil,
			"automated: its reverse-path is null, as that of a bounce, " +
				`and automated: skip applies to route "b"; ` + left,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := mailOf(t, "Return-Path: <>\nSubject: x\n\n")
			table := compile(t, tt.rules...)
			d := table.Decide(t.Context(), m)
			if !slices.Equal(d.To, tt.to) || d.Reason != tt.reason || d.Skip != (tt.to == nil) {
				t.Errorf("decided %+v\nwant recipients %q, reason %q, Skip %v", d, tt.to, tt.reason, tt.to == nil)
			}
			if d.Loop != strings.HasPrefix(tt.reason, "loop:") {
				t.Errorf("loops: %t with the reason %q, want what the reason says", d.Loop, tt.reason)
			}
			leaves := d.Loop || strings.Contains(tt.reason, "left out")
			if (d.LeftOut != "") != leaves || d.LeftOut == "" && d.Note() != "" {
				t.Errorf("left out is %q, with the note %q; want what the reason says", d.LeftOut, d.Note())
			}
			first := table.Explain(t.Context(), m)[0]
			skips := tt.rules[0].OwnAddress != ForwardOwnAddress
			if (first.LeftOut == own) != skips || first.Outcome != Matched {
				t.Errorf("the first rule is explained as %+v, want it to match, and left out: %v", first, skips)
			}
		})
	}
	if d := compile(t, a).Decide(t.Context(), Mail{}); d.Skip {
		t.Errorf("in an inbox that nobody knows: decided %+v, want it forwarded", d)
	}
}

// TestOwnAddressAmongContacts: that the inbox has the message already is no reason to pass over
// somebody else who is named, or may be.
func TestOwnAddressAmongContacts(t *testing.T) {
	directory := NewDirectory([]Contact{
		{Name: "Front Office", Email: "office@firm.example"},
		{Name: "Ann Miller", Email: "ann@firm.example"},
		{Name: "Mute"},
	})
	people := Rule{Name: "people", ToContacts: &ToContacts{In: []string{"subject", "body"}}}
	besides, rest := people, Rule{Name: "rest", To: []string{"desk@firm.example"}}
	besides.To = []string{"office@firm.example"}
	long := "\n\n" + strings.Repeat("word ", 600<<10/5)
	tests := []struct {
		name, mail string
		first      Rule
		decided    string // the routes that match, and the recipients
	}{
		{"the inbox alone", "Subject: Front Office", people, "[people] []"},
		{"the inbox and another", "Subject: Front Office, Ann Miller", people, "[people] [ann@firm.example]"},
		{"nobody beside the inbox", "Subject: x", besides, "[people] []"},
		{
			"the inbox, and one without an address", "Subject: Front Office, Mute", people,
			"[rest] [desk@firm.example]",
		},
		{"one without an address beside the inbox", "Subject: Mute", besides, "[rest] [desk@firm.example]"},
		{
			"the inbox, in a text that cannot be read to its end", "Subject: Front Office" + long, people,
			"[rest] [desk@firm.example]",
		},
		{
			"another, in a text that cannot be read to its end", "Subject: Front Office, Ann Miller" + long,
			people, "[people] [ann@firm.example]",
		},
		{
			"nobody beside the inbox, in a text that cannot be read to its end", "Subject: x" + long, besides,
			"[rest] [desk@firm.example]",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table, m := compile(t, tt.first, rest).With(directory), mailOf(t, tt.mail)
			checkSure(t, table, m)
			if d := table.Decide(t.Context(), m); fmt.Sprint(d.Matched, d.To) != tt.decided {
				t.Errorf("decided %v to %v, want %s\n%s", d.Matched, d.To, tt.decided, explain(table, m))
			}
		})
	}
}

// TestOwnAddressSpelt: an address is the inbox's in all its spellings, and another one's in none.
func TestOwnAddressSpelt(t *testing.T) {
	tests := []struct {
		name, inbox, to string
		own             bool
	}{
		{"in any case", "Desk@Firm.Example", "dESK@fIRM.eXAMPLE", true},
		{"international domain", "desk@MÜNCHEN.example", "desk@xn--mnchen-3ya.EXAMPLE", true},
		{"international local part", "JÖRG@münchen.example", "jörg@xn--mnchen-3ya.example", true},
		{"full stop of another script", "desk@例え。example", "desk@xn--r8jz45g.example", true},
		{"quotes that say nothing", "desk@firm.example", `"Desk"@firm.example`, true},
		{"backslashes that say nothing", `"front\ desk"@firm.example`, `"Front desk"@firm.example`, true},
		{"quotes that say something", "front.desk@firm.example", `"front desk"@firm.example`, false},
		{"sub-address", "desk@firm.example", "desk+x@firm.example", false},
		{"another domain", "desk@firm.example", "desk@münchen.example", false},
		{"an inbox that is not an address", "Desk", "desk@firm.example", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := compile(t, Rule{Name: "r", To: []string{tt.to}}).Decide(t.Context(), Mail{Inbox: tt.inbox})
			if own := d.LeftOut == tt.to && len(d.To) == 0; own != tt.own {
				t.Errorf("in the inbox %s it is decided %+v; want %s left out: %v", tt.inbox, d, tt.to, tt.own)
			}
		})
	}
}
