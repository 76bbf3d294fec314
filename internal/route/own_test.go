package route

import (
	"slices"
	"strings"
	"testing"
)

// TestOwnAddress: who is left out, and what is said of it. See also testdata/routes/own.yaml.
func TestOwnAddress(t *testing.T) {
	const own, ann = "Office@firm.example", "ann@firm.example"
	const left = own + " is left out: it is the inbox's own address, which has the message already (if the relay knows another mailbox by it, say own_address: forward)"
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
		{"a rule that says nothing", []Rule{a, b}, nil, `loop: own address: route "a" has no other recipient; ` + left},
		{"a rule that skips it", []Rule{with(a, "skip", false), b}, nil, `loop: own address: route "a" has no other recipient; ` + left},
		{"a rule that forwards", []Rule{with(a, "forward", false), b}, []string{own}, "matches route a"},
		{"each rule has its own way", []Rule{with(a, "skip", true), with(Rule{Name: "c", To: a.To}, "forward", false)}, []string{own}, "matches route a, c"},
		{"each rule has its own way, in the other order", []Rule{with(a, "forward", true), with(Rule{Name: "c", To: a.To}, "skip", false)}, []string{own}, "matches route a, c"},
		{"others get it by the next rule", []Rule{with(a, "", true), b}, []string{ann}, "matches route a, b; " + left},
		{"the next rule skips", []Rule{with(a, "", true), {Name: "s", Skip: true}}, nil, `by_route: route "s" skips it; ` + left},
		{"the next rule takes nothing of programs", []Rule{with(a, "", true), robot}, nil, `automated: its reverse-path is null, as that of a bounce, and route "b" skips such mail; ` + left},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := mailOf(t, "Return-Path: <>\nSubject: x\n\n")
			table := compile(t, tt.rules...)
			d := table.Decide(m)
			if !slices.Equal(d.To, tt.to) || d.Reason != tt.reason || d.Skip != (tt.to == nil) {
				t.Errorf("decided %+v\nwant recipients %q, reason %q, Skip %v", d, tt.to, tt.reason, tt.to == nil)
			}
			if d.Skip && !Decided(d.Reason) {
				t.Errorf("%q does not count as the reason of a decision, want it to", d.Reason)
			}
			if (d.LeftOut != "") != strings.Contains(tt.reason, "left out") || d.LeftOut == "" && d.Note() != "" {
				t.Errorf("left out is %q, with the note %q; want what the reason says", d.LeftOut, d.Note())
			}
			first := table.Explain(m)[0]
			if skips := tt.rules[0].OwnAddress != ForwardOwnAddress; (first.LeftOut == own) != skips || first.Outcome != Matched {
				t.Errorf("the first rule is explained as %+v, want it to match, and left out: %v", first, skips)
			}
		})
	}
	if d := compile(t, a).Decide(Mail{}); d.Skip {
		t.Errorf("in an inbox that nobody knows: decided %+v, want it forwarded", d)
	}
}
