package demo

import (
	"slices"
	"strings"
	"testing"

	"postrider/internal/tasks"
	"postrider/internal/testserver/smtpsink"
)

// facts are the arguments of evaluate.
type facts struct {
	registry []tasks.Task
	accepted []smtpsink.Message
}

// asPromised returns the facts of a demo without faults.
func asPromised() *facts {
	f := &facts{}
	for i, l := range samples() {
		t := tasks.Task{
			ID: int64(i + 1), Status: l.want, Attempts: 1,
			Identity: tasks.Identity{MessageID: l.id, Subject: l.subject, Sender: l.from},
		}
		for _, to := range l.to {
			t.Deliveries = append(t.Deliveries,
				tasks.Delivery{Recipient: to, Status: tasks.Delivered, Code: 250, Reply: "2.0.0 accepted"})
		}
		f.registry = append(f.registry, t)
		if len(l.to) > 0 {
			f.accepted = append(f.accepted,
				smtpsink.Message{To: l.to, Data: append([]byte("X-Trace: 1\r\n"), l.raw()...)})
		}
	}
	return f
}

func TestEvaluate(t *testing.T) {
	const good = "7 messages: 5 forwarded once each, 1 without a route, 1 refused; 0 lost, 0 twice"
	for _, tc := range []struct {
		name    string
		happens func(*facts)
		verdict string
		fault   string // a part of the first fault; empty for no faults
	}{
		{"as promised", func(*facts) {}, good, ""},
		{
			"a message arrived twice", func(f *facts) { f.accepted = append(f.accepted, f.accepted[0]) },
			"7 messages: 4 forwarded once each, 1 without a route, 1 refused; 0 lost, 1 twice",
			`"Ladung: Termin zur mündlichen Verhandlung" arrived twice`,
		},
		{"one of two recipients got it twice", func(f *facts) {
			again := f.accepted[1]
			again.To = again.To[:1]
			f.accepted = append(f.accepted, again)
		}, "7 messages: 4 forwarded once each, 1 without a route, 1 refused; 0 lost, 1 twice", "arrived twice"},
		{
			"one of two recipients did not get it", func(f *facts) { f.accepted[1].To = f.accepted[1].To[:1] },
			"7 messages: 4 forwarded once each, 1 without a route, 1 refused; 1 lost, 0 twice", "is lost",
		},
		{
			"the registry says forwarded, the relay knows nothing", func(f *facts) { f.accepted = f.accepted[1:] },
			"7 messages: 4 forwarded once each, 1 without a route, 1 refused; 1 lost, 0 twice", "is lost",
		},
		{
			"a message was never registered", func(f *facts) { f.registry = slices.Delete(f.registry, 4, 5) },
			"7 messages: 5 forwarded once each, 0 without a route, 1 refused; 1 lost, 0 twice",
			`"20% off all office chairs" is lost`,
		},
		{
			"a message was registered twice", func(f *facts) { f.registry = append(f.registry, f.registry[4]) },
			"7 messages: 5 forwarded once each, 0 without a route, 1 refused; 0 lost, 1 twice", "arrived twice",
		},
		{
			"a task is not at its end", func(f *facts) { f.registry[5].Status = tasks.Error },
			"7 messages: 5 forwarded once each, 1 without a route, 0 refused; 1 lost, 0 twice", "should be dead",
		},
		{
			"a task has another end", func(f *facts) { f.registry[4].Status = tasks.Dead },
			"7 messages: 5 forwarded once each, 0 without a route, 2 refused; 0 lost, 0 twice",
			"should be skipped_no_match",
		},
		{
			"a subject was not understood", func(f *facts) { f.registry[1].Identity.Subject = "=?GB18030?B?" }, good,
			`the registry has "=?GB18030?B?"`,
		},
		{
			"a message arrived changed", func(f *facts) { f.accepted[0].Data = append(f.accepted[0].Data, '\n') },
			good, "arrived changed",
		},
		{
			"a message went to a stranger",
			func(f *facts) { f.accepted[0].To = append(f.accepted[0].To, "x@kt.example") }, good, "who must not get it",
		},
		{"an unknown message was accepted", func(f *facts) {
			f.accepted = append(f.accepted,
				smtpsink.Message{To: []string{"x@kt.example"}, Data: []byte("Message-ID: <no@where>\r\n\r\n")})
		}, good, "that is no sample"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := asPromised()
			tc.happens(f)
			out := evaluate(samples(), f.registry, f.accepted)
			if out.Verdict != tc.verdict {
				t.Errorf("verdict:\n%s\nwant:\n%s", out.Verdict, tc.verdict)
			}
			switch {
			case tc.fault == "" && len(out.Faults) > 0:
				t.Errorf("faults: %q; want none", out.Faults)
			case tc.fault != "" && (len(out.Faults) == 0 || !strings.Contains(out.Faults[0], tc.fault)):
				t.Errorf("faults: %q; want one with %q", out.Faults, tc.fault)
			}
		})
	}
}

func TestRows(t *testing.T) {
	f := asPromised()
	f.registry[4].Reason = "no route matches"
	rows := evaluate(samples(), f.registry, f.accepted).Rows
	if len(rows) != 8 {
		t.Fatalf("%d rows; want 8, one for each message and one more for the second recipient of the contract",
			len(rows))
	}
	second := Row{
		Message: "采购合同修订稿，请审阅", Status: tasks.Forwarded, Attempts: 1,
		Recipient: "tanaka@kt.example", Reply: "250 2.0.0 accepted", Copies: 1,
	}
	if rows[2] != second {
		t.Errorf("row 3: %+v\nwant:  %+v", rows[2], second)
	}
	none := Row{
		Message: "20% off all office chairs", Status: tasks.SkippedNoMatch,
		Attempts: 1, Reply: "no route matches",
	}
	if rows[5] != none {
		t.Errorf("row 6: %+v\nwant:  %+v", rows[5], none)
	}
}
