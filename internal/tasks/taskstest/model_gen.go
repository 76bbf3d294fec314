package taskstest

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"postrider/internal/address"
	"postrider/internal/tasks"
)

const (
	contents = 6 // different messages
	maxUID   = 12
)

// people are the recipients. The last one's mailbox is that of the second.
var people = []string{"ann@x.example", "bob@x.example", "Ann@x.example", "bob@X.Example"}

// sequences draws cases. Half of them do everything by the rules, in one scope. Slices are short by
// nature: slices of slices are long, and can still be shrunk to one operation.
func sequences() *rapid.Generator[sequence] {
	return rapid.Custom(func(t *rapid.T) sequence {
		g := gen{scope: pick(t, "scope", "", "", tasks.DedupeInbox, tasks.DedupeAll)}
		parts := rapid.SliceOfN(rapid.SliceOfN(rapid.Custom(g.few), 1, 20), 1, 8).Draw(t, "parts")
		return slices.Concat(slices.Concat(parts...)...)
	})
}

// gen draws operations: by the rules when there is a scope.
type gen struct{ scope tasks.Dedupe }

// few draws an operation, or a few that take a task somewhere where single ones would seldom lead.
func (g gen) few(t *rapid.T) []Op {
	switch small(t, "few", 15) {
	case 15:
		in := small(t, "inbox", 1)
		dies := Work{Comes: Killed, Rules: 1, Dedupe: g.dedupe(t), Route: "desk", To: g.to(t)}
		late, disable := Age{6 * time.Minute}, Manage{"disable", in}
		end := []Op{disable, late, EndAbandoned{}}
		if rarely(t, "at once", 2) {
			end = []Op{late, disable}
		}
		return slices.Concat(g.copies(t), []Op{Receive{Inbox: in, Max: 2}, dies, g.work(t)},
			end, []Op{g.receive(t), g.work(t)})
	case 14:
		return []Op{g.register(t), g.offer(t), g.work(t)}
	case 13:
		return []Op{g.register(t), g.offer(t), g.one(t), g.work(t), g.work(t)}
	case 12:
		return []Op{
			g.receive(t), g.work(t), g.arrive(t), g.arrive(t),
			Operate{"requeue", []int{small(t, "again", 15)}},
			g.receive(t), g.work(t),
		}
	case 11:
		return slices.Repeat([]Op{g.receive(t), Age{6 * time.Minute}}, 1+small(t, "deaths", 4))
	case 10:
		return append(g.copies(t), g.receive(t), g.work(t))
	case 9:
		return []Op{g.receive(t), g.work(t)}
	case 8:
		return []Op{g.receive(t), g.work(t), g.operate(t), g.receive(t), g.work(t)}
	case 7:
		return append(g.copies(t), g.receive(t), g.work(t), g.manage(t), g.receive(t), g.work(t))
	}
	return []Op{g.one(t)}
}

// one draws an operation; what a pass does all the time comes more often.
func (g gen) one(t *rapid.T) Op {
	weights := []struct {
		weight int
		raw    bool
		op     func(*rapid.T) Op
	}{
		{5, false, g.register},
		{5, false, g.receive},
		{6, false, g.work},
		{2, false, g.offer},
		{5, false, g.operate},
		{3, false, g.age},
		{5, false, g.manage},
		{5, false, g.arrive},
		{1, false, func(t *rapid.T) Op { return Do{What: "extend", Of: g.of(t)} }},
		{1, false, func(t *rapid.T) Op { return Do{What: "note", Of: g.of(t)} }},
		{1, false, func(t *rapid.T) Op {
			return Expire{
				small(t, "inbox", 1), 1 + small(t, "limit", 3),
				pick(t, "age", 0, 7*time.Minute), rarely(t, "events", 2),
			}
		}},
		{2, false, func(*rapid.T) Op { return Again{} }},
		{2, false, func(*rapid.T) Op { return EndAbandoned{} }},
		{14, true, g.do},
	}
	var ops []func(*rapid.T) Op
	for _, w := range weights {
		if !w.raw || g.scope == "" {
			ops = append(ops, slices.Repeat([]func(*rapid.T) Op{w.op}, w.weight)...)
		}
	}
	return ops[small(t, "kind", len(ops)-1)](t)
}

func small(t *rapid.T, name string, most int) int { return rapid.IntRange(0, most).Draw(t, name) }

// rarely is true once in so many times.
func rarely(t *rapid.T, name string, n int) bool { return small(t, name, n-1) == n-1 }

func pick[V any](t *rapid.T, name string, from ...V) V { return rapid.SampledFrom(from).Draw(t, name) }

func (g gen) dedupe(t *rapid.T) tasks.Dedupe {
	if g.scope != "" {
		return g.scope
	}
	return pick(t, "dedupe", tasks.DedupeInbox, tasks.DedupeInbox, tasks.DedupeAll, tasks.DedupeAll, tasks.DedupeOff)
}

func (g gen) to(t *rapid.T) []string {
	return rapid.SliceOfNDistinct(rapid.SampledFrom(people), 1, 3, address.Mailbox).Draw(t, "to")
}

func (g gen) register(t *rapid.T) Op {
	one := rapid.Custom(func(t *rapid.T) Message {
		m := Message{
			UID: uint32(1 + small(t, "uid", maxUID-1)), Content: small(t, "content", contents-1),
			Unread: rarely(t, "unread", 4), High: rarely(t, "high", 4),
			Route: pick(t, "route", "desk", "desk", "desk", "desk+court", "", "none", "skip"),
		}
		if m.Route != "" && m.Route != "none" {
			m.To = g.to(t)
		}
		return m
	})
	return Register{
		Folder: small(t, "folder", 2), Dedupe: g.dedupe(t),
		Messages: rapid.SliceOfNDistinct(one, 0, 5, func(m Message) uint32 { return m.UID }).Draw(t, "messages"),
		How: pick(t, "how", "", "", "", "", "", "", "",
			"known only", "dry run", "old epoch", "old scan", "baseline"),
	}
}

// copies are equal messages that come together, perhaps also in another folder.
func (g gen) copies(t *rapid.T) []Op {
	page := Register{Folder: small(t, "folder", 2), Dedupe: g.dedupe(t)}
	m := Message{UID: 1, Content: small(t, "content", contents-1), Route: "desk"}
	for range 2 + small(t, "more", 1) {
		m.Unread, m.To = rarely(t, "unread", 6), g.to(t)
		page.Messages = append(page.Messages, m)
		m.UID++
	}
	ops := []Op{page}
	if rarely(t, "elsewhere", 2) {
		page.Folder++
		ops = append(ops, page)
	}
	return ops
}

func (g gen) receive(t *rapid.T) Op {
	return Receive{
		Inbox: small(t, "inbox", 1), Max: 1 + small(t, "max", 4),
		Other: rarely(t, "other", 3), InHand: rarely(t, "in hand", 6),
	}
}

func (g gen) offer(t *rapid.T) Op { return Offer{small(t, "offer", 4)} }

func (g gen) of(t *rapid.T) Of { return Of{small(t, "claim", 4), rarely(t, "forged", 10)} }

func (g gen) work(t *rapid.T) Op {
	return Work{
		Of: g.of(t), Hold: rarely(t, "hold", 3), Rules: pick(t, "rules", 1, 1, 1, 2), Dedupe: g.dedupe(t),
		Comes: pick(t, "comes", Accepted, Accepted, Accepted, Deferred, Deferred, Refused, Refused,
			Unknown, Mixed, Reserved, Killed, Vanished, Broken),
		Route: pick(t, "route", "desk", "desk", "desk", "court", "none", "skip"), To: g.to(t),
	}
}

func (g gen) outcomes(t *rapid.T) []Outcome {
	one := rapid.Custom(func(t *rapid.T) Outcome {
		return Outcome{
			small(t, "recipient", 2), pick(t, "is", tasks.Delivered, tasks.Sending, tasks.Pending, tasks.Failed),
			pick(t, "code", 0, 250, 451, 550),
		}
	})
	return rapid.SliceOfN(one, 0, 2).Draw(t, "outcomes")
}

// do draws what a worker does by no rule.
func (g gen) do(t *rapid.T) Op {
	what := pick(t, "what", "finish", "finish", "finish", "reserve", "reserve", "sending", "release")
	op := Do{What: what, Of: g.of(t)}
	if op.What == "reserve" {
		op.Route = pick(t, "route", "", "", "desk", "court", "none", "skip")
		op.Identify, op.Dedupe = rarely(t, "identify", 2), g.dedupe(t)
		op.To = g.to(t)
		return op
	}
	op.Outcomes, op.Delay = g.outcomes(t), pick(t, "delay", 0, 2*time.Minute, 30*time.Minute)
	if op.What == "finish" {
		op.Missed = rarely(t, "missed", 4)
		op.Status = pick(t, "status", tasks.Forwarded, tasks.Forwarded, tasks.Error, tasks.Error,
			tasks.Dead, tasks.Dead, tasks.Skipped, tasks.Uncertain, tasks.SkippedNoMatch,
			tasks.Received, tasks.InProgress)
	}
	if op.Status == tasks.Skipped {
		op.Skip = pick(t, "skip", tasks.SkipVanished, tasks.SkipByRoute)
	}
	return op
}

func (g gen) manage(t *rapid.T) Op {
	what := pick(t, "what", "enable", "enable", "disable", "disable", "remove", "remove",
		"take over", "new epoch", "new epoch", "new epoch")
	return Manage{what, small(t, "number", 2)}
}

func (g gen) operate(t *rapid.T) Op {
	return Operate{
		pick(t, "what", "requeue", "requeue", "skip", "resolve", "purge"),
		rapid.SliceOfN(rapid.IntRange(0, 15), 1, 4).Draw(t, "tasks"),
	}
}

func (g gen) arrive(t *rapid.T) Op {
	return Arrive{
		small(t, "task", 15), small(t, "to", 2),
		pick(t, "status", tasks.Bounced, tasks.Bounced, tasks.Bounced,
			tasks.Delayed, tasks.Confirmed, tasks.Complained, tasks.Relayed),
		pick(t, "code", 0, 550),
	}
}

func (g gen) age(t *rapid.T) Op {
	return Age{pick(t, "by", time.Minute, 3*time.Minute, 6*time.Minute, 31*time.Minute, 25*time.Hour)}
}
