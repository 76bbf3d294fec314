package cmd

import (
	"bufio"
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
func (a *app) showTrial(t pass.Trial) error {
	out := bufio.NewWriter(a.out)
	for i, s := range t.Routes {
		_, _ = fmt.Fprintf(out, "%d. %s: %s\n", i+1, text.Line(s.Route), s.Outcome) // Flush keeps the error
		if s.Outcome == route.Matched && len(s.Conditions) == 0 && len(s.Contacts) == 0 {
			_, _ = fmt.Fprintln(out, "     it takes every message")
		}
		showChecks(out, s.Conditions, "     ")
		for _, name := range slices.Sorted(maps.Keys(s.Captured)) {
			_, _ = fmt.Fprintf(out, "     captured ${%s}: %q\n", name, s.Captured[name])
		}
		for _, c := range s.Contacts {
			_, _ = fmt.Fprintf(out, "     + %s\n", text.Line(c.String()))
		}
		if s.LeftOut != "" {
			_, _ = fmt.Fprintf(out, "     - %s is left out: it is the inbox's own address\n", text.Line(s.LeftOut))
		}
		if s.Problem != "" {
			_, _ = fmt.Fprintf(out, "     %s\n", text.Line(s.Problem))
		}
	}
	_, _ = fmt.Fprintln(out)
	if err := out.Flush(); err != nil {
		return err
	}
	return a.fields(trialSummary(t)...)
}

func showChecks(out *bufio.Writer, list []route.Check, indent string) {
	for _, c := range list {
		mark := map[route.Truth]string{route.Held: "+", route.NotHeld: "-", route.Undecided: "?"}[c.Is]
		_, _ = fmt.Fprintf(out, "%s%s %s\n", indent, mark, text.Line(c.String()))
		showChecks(out, c.Of, indent+"  ")
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
		"in", where, "fate", trialFate(t), "reason", t.Reason,
	}
	if t.Status == tasks.Forwarded {
		out = append(out, "route", t.Route, "to", strings.Join(t.Recipients, ", "), "sender", "<"+t.EnvelopeFrom+">",
			"priority", string(t.Priority), "uncertain", string(t.Uncertain), "mode", t.Mode, "because", t.ModeReason)
	}
	if len(t.Settled) > 0 {
		out = append(out, "note", fmt.Sprintf("task %d is already decided and keeps its recipients: %s", t.Task, strings.Join(t.Settled, ", ")))
	}
	return out
}

func trialFate(t pass.Trial) string {
	switch t.Status {
	case tasks.Forwarded:
		return "would be forwarded"
	case tasks.Skipped:
		return "would be skipped"
	}
	return "would not be forwarded"
}
