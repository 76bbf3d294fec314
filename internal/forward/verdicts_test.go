package forward

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// columns are the modes of the table.
var columns = []Mode{Redirect, Rewrite, Attach, Auto}

// verdict is one row of the table.
type verdictRow struct {
	setup, policy, raw string
	by                 map[Mode]*verdicts
	chosen             Mode // by auto
	why                string
}

// TestReceivers sends what authors send, in each mode, to servers that judge by DMARC as receivers
// do. What they say stands in docs/modes.md, and auto takes a mode that they accept.
func TestReceivers(t *testing.T) {
	a := newSender(t)
	for _, d := range []string{"service.example", "list.example"} {
		a.publish(d)
	}
	rows := append(usualRows(a), oddRows(a)...)
	w := startReceivers(t, a)
	for _, row := range rows {
		for _, mode := range columns {
			if row.policy == "" && mode != Auto {
				continue
			}
			content, v := w.send(t, row.raw, Style{Mode: mode})
			row.by[mode], row.chosen, row.why = v, content.Mode, content.Remark
		}
	}
	w.judge(t)
	for _, row := range rows {
		row.check(t)
	}
	checkTable(t, table(rows[:len(setups)*len(policies)]))
}

// TestReceiversTwice: what is rewritten passes by its own signature also when the message has a
// field twice that it may have once. SPF is of another domain.
func TestReceiversTwice(t *testing.T) {
	a := newSender(t)
	a.publish("author.example")
	a.publish("srs.example")
	w := startReceivers(t, a)
	w.from = "SRS0=abcd=JJ=author.example=alice@srs.example"
	all := map[string]*verdicts{}
	for _, field := range []string{
		"Subject: another", "To: b@firm.example", "Date: Fri, 20 Nov 2026 10:00:00 +0000", "Message-ID: <a@b>",
	} {
		_, all[field] = w.send(t, field+"\r\n"+ofAlice("author.example"), Style{Mode: Rewrite})
	}
	w.judge(t)
	for field, v := range all {
		if v.worst() != isPassed {
			t.Errorf("with %q twice: %s, want it to pass", field, v)
		}
	}
}

// usualRows are those of the table.
func usualRows(a *sender) (rows []*verdictRow) {
	for i, s := range setups {
		for j, p := range policies {
			domain := fmt.Sprintf("author-%d-%d.example", i, j)
			a.publish(domain)
			a.publish("mail." + domain)
			if p.record != "" {
				a.zone["_dmarc."+domain] = p.record
			}
			rows = append(rows, newRow(s.name, p.name, s.made(a, domain)))
		}
	}
	return rows
}

// oddRows are the others.
func oddRows(a *sender) (rows []*verdictRow) {
	for i, o := range oddities {
		domain := fmt.Sprintf("odd-%d.example", i)
		a.publish(domain)
		a.publish("mail." + domain)
		a.zone["_dmarc."+domain] = rejects
		rows = append(rows, newRow(o.name, "", o.made(a, domain)))
	}
	return rows
}

func newRow(setup, policy, raw string) *verdictRow {
	return &verdictRow{setup: setup, policy: policy, raw: raw, by: map[Mode]*verdicts{}}
}

// check: auto takes a mode that passes, where there is one. Attach passes in any case.
func (r *verdictRow) check(t *testing.T) {
	t.Helper()
	if v := r.by[Auto]; !v.best() {
		t.Errorf("%s, %s: auto takes %s (%s), which is %s; want a mode that passes",
			r.setup, r.policy, r.chosen, r.why, v)
	}
	if v := r.by[Attach]; v != nil && v.worst() != isPassed {
		t.Errorf("%s, %s: attach is %s, want it to pass", r.setup, r.policy, v)
	}
}

// table has the set-ups with the same verdicts in one row, and so the policies.
func table(rows []*verdictRow) string {
	var b strings.Builder
	b.WriteString("| the author's message has | policy | `redirect` | `rewrite` | `attach` | `auto` |\n" +
		"|---|---|---|---|---|---|\n")
	var order []string // of what is said about set-ups
	alike := map[string][]string{}
	for of := range slices.Chunk(rows, len(policies)) {
		said := cells(of)
		if alike[said] == nil {
			order = append(order, said)
		}
		alike[said] = append(alike[said], of[0].setup)
	}
	for _, said := range order {
		first := strings.Join(alike[said], "; ")
		for line := range strings.Lines(said) {
			fmt.Fprintf(&b, "| %s | %s", first, line)
			first = ""
		}
	}
	return b.String()
}

// cells are the rest of the rows of one set-up.
func cells(rows []*verdictRow) string {
	var b strings.Builder
	for i := 0; i < len(rows); {
		said, of := rows[i].cells(), []string{}
		for ; i < len(rows) && rows[i].cells() == said; i++ {
			of = append(of, rows[i].policy)
		}
		fmt.Fprintf(&b, "%s | %s |\n", strings.Join(of, "; "), said)
	}
	return b.String()
}

func (r *verdictRow) cells() string {
	return fmt.Sprintf("%s | %s | %s | `%s`: %s", r.by[Redirect], r.by[Rewrite], r.by[Attach], r.chosen, r.by[Auto])
}
