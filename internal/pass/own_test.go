package pass

import (
	"slices"
	"strings"
	"testing"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/route"
	"postrider/internal/tasks"
	"postrider/internal/testserver/smtpsink"
)

// trail is the audit trail of the only task, one "event: detail" on each line.
func (r *rig) trail() []string {
	r.t.Helper()
	events, err := r.queue.Events(r.t.Context(), r.tasks()[0].ID)
	check(r.t, err)
	var out []string
	for _, e := range events {
		out = append(out, e.Event+": "+e.Detail)
	}
	return out
}

// routes sets the routes of the next pass.
func (r *rig) routes(rules ...route.Rule) {
	r.t.Helper()
	table, err := route.Compile(rules)
	check(r.t, err)
	r.Routes = table
}

// recipients are those of the only task, with the states of their deliveries.
func (r *rig) recipients() string {
	r.t.Helper()
	var out []string
	for _, d := range r.tasks()[0].Deliveries {
		out = append(out, d.Recipient+" "+string(d.Status))
	}
	return strings.Join(out, ", ")
}

// TestOwnAddressAlone: no recipient is left, and the pass goes on as if a route had skipped the
// message. With own_address: forward it goes out, and what comes back is a loop.
func TestOwnAddressAlone(t *testing.T) {
	rule := route.Rule{Name: "self", To: []string{"Desk@firm.example"}}
	r := newRig(t, nil, rule, route.Rule{Name: "rest", To: []string{"team@firm.example"}})
	r.add(inbox.StartAll, "INBOX")
	msgs := mails(1)
	r.put("INBOX", msgs...)
	r.want(r.run(), Counters{Registered: 1, Skipped: 1})
	r.wantTask(tasks.Skipped,
		`loop: the only recipient of route "self" is the inbox's own address, Desk@firm.example; `)
	r.wantArrived()
	rule.OwnAddress = route.ForwardOwnAddress
	r.routes(rule)
	r.wantReplay(ReplayOptions{}, ReplayCounts{Elsewhere: 1},
		"message 0: self to [] -> self to [Desk@firm.example] forwarded", rule)
	if _, err := r.queue.Requeue(t.Context(), tasks.By{Who: "ann"}, r.tasks()[0].ID); err != nil {
		t.Fatal(err)
	}
	r.want(r.run(), Counters{Forwarded: 1})
	r.wantArrived(msgs)
	r.put("INBOX", r.sink.Messages()[0].Data) // it comes back
	r.want(r.run(), Counters{Registered: 1, Skipped: 1})
	r.wantArrived(msgs)
}

// TestOwnAddressBesideOthers: the others get it. The trail says once which address was left out,
// however many attempts there are.
func TestOwnAddressBesideOthers(t *testing.T) {
	rule := route.Rule{Name: "all", To: []string{address, "team@firm.example"}}
	for name, first := range map[string]struct {
		stage  string
		action smtpsink.Action
	}{
		"at once":                     {"none", smtpsink.Action{}},
		"the relay is down":           {"ehlo", smtpsink.Action{Code: 421}},
		"no one is accepted for now":  {"rcpt", smtpsink.Action{Code: 450}},
		"it is not taken for now":     {"dot", smtpsink.Action{Code: 451}},
		"the outcome is not known":    {"dot", smtpsink.Action{AcceptAndDrop: true}},
		"the sender is not taken now": {"mail", smtpsink.Action{Code: 451}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, on(first.stage, 1, first.action), rule)
			r.add(inbox.StartAll, "INBOX")
			r.put("INBOX", mails(1)...)
			r.run()
			r.clock.advance(time.Hour)
			r.run()
			if got := r.wantTask(tasks.Forwarded, ""); r.recipients() != "team@firm.example delivered" {
				t.Errorf("the task is %+v, want it delivered only to team", got)
			}
			for _, m := range r.sink.Messages() {
				if !slices.Equal(m.To, []string{"team@firm.example"}) {
					t.Errorf("the relay got the recipients %q, want only team", m.To)
				}
			}
			notes := slices.DeleteFunc(r.trail(), func(line string) bool {
				return !strings.HasPrefix(line, "left_out: ")
			})
			const own = "left_out: " + address + " is left out: it is the inbox's own address"
			if len(notes) != 1 || !strings.HasPrefix(notes[0], own) {
				t.Errorf("the trail is %q, want one line that says which address is left out", r.trail())
			}
		})
	}
}

// TestOwnAddressIsDecidedAgain: while no recipient has the message, changed routes decide again.
func TestOwnAddressIsDecidedAgain(t *testing.T) {
	rule := route.Rule{Name: "all", To: []string{address, "team@firm.example"}}
	before := rule
	before.OwnAddress = route.ForwardOwnAddress // as every route was in earlier versions
	for _, tt := range []struct {
		name   string
		to     []string
		counts Counters
		want   string
	}{
		{"with others", rule.To, Counters{Forwarded: 1}, "team@firm.example delivered"},
		{"alone", rule.To[:1], Counters{Skipped: 1}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, rule := before, rule
			before.To, rule.To = tt.to, tt.to
			r := newRig(t, on("dot", 1, smtpsink.Action{Code: 451}), before)
			r.add(inbox.StartAll, "INBOX")
			r.put("INBOX", mails(1)...)
			r.want(r.run(), Counters{Registered: 1, Retry: 1})
			r.routes(rule)
			r.clock.advance(time.Hour)
			r.want(r.run(), tt.counts)
			if got := r.recipients(); got != tt.want {
				t.Errorf("its recipients are %s, want %s", got, tt.want)
			}
		})
	}
}

// TestOwnAddressPutBack: a requeued task goes by the current setting, unless someone got the
// message by the earlier one.
func TestOwnAddressPutBack(t *testing.T) {
	refuses := func(who ...string) func(smtpsink.Event) smtpsink.Action {
		return func(e smtpsink.Event) smtpsink.Action {
			if e.Stage == "rcpt" && slices.Contains(who, e.Arg) {
				return smtpsink.Action{Code: 550}
			}
			return smtpsink.Action{}
		}
	}
	const ann, team = "ann@firm.example", "team@firm.example"
	tests := []struct {
		name          string
		to, refused   []string
		before, after route.OwnAddress
		want          string
	}{
		{
			name: "left out no more", to: []string{address, team}, refused: []string{team},
			before: route.SkipOwnAddress, after: route.ForwardOwnAddress,
			want: address + " delivered, " + team + " failed",
		},
		{
			name: "left out from now on", to: []string{address, team}, refused: []string{address, team},
			before: route.ForwardOwnAddress, after: route.SkipOwnAddress,
			want: team + " failed",
		},
		{
			name: "left out, and somebody has it", to: []string{address, ann, team}, refused: []string{team},
			before: route.SkipOwnAddress, after: route.ForwardOwnAddress,
			want: ann + " delivered, " + team + " failed",
		},
		{
			name: "refused, and somebody has it", to: []string{address, ann}, refused: []string{address},
			before: route.ForwardOwnAddress, after: route.SkipOwnAddress,
			want: ann + " delivered, " + address + " failed",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rule := route.Rule{Name: "all", To: tt.to, OwnAddress: tt.before}
			r := newRig(t, refuses(tt.refused...), rule)
			r.add(inbox.StartAll, "INBOX")
			r.put("INBOX", mails(1)...)
			r.want(r.run(), Counters{Registered: 1, Dead: 1})
			rule.OwnAddress = tt.after
			r.routes(rule)
			if _, err := r.queue.Requeue(t.Context(), tasks.By{Who: "ann"}, r.tasks()[0].ID); err != nil {
				t.Fatal(err)
			}
			r.want(r.run(), Counters{Dead: 1})
			if got := r.recipients(); got != tt.want {
				t.Errorf("its recipients are %s, want %s", got, tt.want)
			}
		})
	}
}

// TestOwnAddressOfNotices: a notice of a message that is too large goes to the other recipients,
// and not to the inbox that has the message.
func TestOwnAddressOfNotices(t *testing.T) {
	r := newRig(t, nil,
		route.Rule{Name: "some", Match: subject("message 0"), To: []string{address, "team@firm.example"}},
		route.Rule{Name: "self", To: []string{address}})
	r.Config.MaxSize, r.Config.Notices = 10, true
	r.add(inbox.StartAll, "INBOX")
	r.put("INBOX", mails(2)...)
	previewed := previews{why: map[string]string{}}
	r.Config.DryRun, r.Observer = true, &previewed
	r.run()
	const why = `loop: the only recipient of route "self" is the inbox's own address, `
	if got := previewed.why["message 1"]; len(previewed.why) != 1 || !strings.HasPrefix(got, why) {
		t.Errorf("a dry run previews %q, want only that message 1 is not forwarded: %s", previewed.why, why)
	}
	r.Config.DryRun, r.Observer = false, nobody{}
	r.want(r.run(), Counters{Registered: 2, Forwarded: 1, Skipped: 1})
	if got := r.reasons()["message 1"]; !strings.HasPrefix(got, why) {
		t.Errorf("message 1 is skipped with the reason %q, want %q", got, why)
	}
	if m := r.sink.Messages(); len(m) != 1 || !slices.Equal(m[0].To, []string{"team@firm.example"}) {
		t.Errorf("%d messages went out, want one notice, only to team", len(m))
	}
}
