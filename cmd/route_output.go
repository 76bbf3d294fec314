package cmd

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"postrider/internal/pass"
	"postrider/internal/route"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

// showTrial prints each route with its conditions, and below them what would become of the message.
func (a *app) showTrial(t pass.Trial) {
	for i, s := range t.Routes {
		a.print("%d. %s: %s\n", i+1, text.Line(s.Route), s.Outcome)
		if s.Outcome == route.Matched && len(s.Conditions) == 0 && len(s.Contacts) == 0 {
			a.print("     it takes every message\n")
		}
		a.showChecks(s.Conditions, "     ")
		for _, name := range slices.Sorted(maps.Keys(s.Captured)) {
			a.print("     captured ${%s}: %q\n", name, s.Captured[name])
		}
		for _, c := range s.Contacts {
			a.print("     + %s\n", text.Line(c.String()))
		}
		if s.LeftOut != "" {
			a.print("     - %s is left out: it is the inbox's own address\n", text.Line(s.LeftOut))
		}
		if s.Problem != "" {
			a.print("     %s\n", text.Line(s.Problem))
		}
	}
	a.print("\n")
	a.fields(trialSummary(t)...)
}

func (a *app) showChecks(list []route.Check, indent string) {
	for _, c := range list {
		mark := map[route.Truth]string{route.Held: "+", route.NotHeld: "-", route.Undecided: "?"}[c.Is]
		a.print("%s%s %s\n", indent, mark, text.Line(c.String()))
		a.showChecks(c.Of, indent+"  ")
	}
}

// trialSummary is names and values for fields.
func trialSummary(t pass.Trial) []string {
	where := t.Folder
	if t.Inbox != "" {
		where = t.Inbox + " " + where
	}
	from := ""
	if t.Sender != "" {
		from = "from " + t.Sender + ", "
	}
	out := []string{
		"message", fmt.Sprintf("%s%q, %s", from, text.Cut(t.Subject, 60), humanize.IBytes(uint64(t.Size))),
		"in", where, "result", trialResult(t), "reason", t.Reason,
	}
	if t.Status == tasks.Forwarded {
		out = append(out, "route", t.Route, "to", strings.Join(t.Recipients, ", "), "sender", "<"+t.EnvelopeFrom+">",
			"priority", string(t.Priority), "uncertain", string(t.Uncertain), "mode", t.Mode, "because", t.ModeReason)
	}
	if len(t.Settled) > 0 {
		settled := strings.Join(t.Settled, ", ")
		out = append(out, "note",
			fmt.Sprintf("task %d is already decided and keeps its recipients: %s", t.Task, settled))
	}
	return out
}

func trialResult(t pass.Trial) string {
	switch t.Status {
	case tasks.Forwarded:
		return "would be forwarded"
	case tasks.Skipped:
		return "would be skipped"
	}
	return "would not be forwarded"
}
