package taskstest

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"postrider/internal/tasks"
)

const contents = 6 // different messages

// anyOps draws an operation, or a few that take a task somewhere where single ones would seldom lead.
func anyOps() *rapid.Generator[[]Op] {
	one := rapid.Map(anyOp(), func(op Op) []Op { return []Op{op} })
	return rapid.OneOf(one, one, one, one, one, one, one, one, rapid.Custom(deaths), rapid.Custom(copies), rapid.Custom(work), rapid.Custom(back))
}

// deaths are workers that die one after the other.
func deaths(t *rapid.T) []Op {
	return slices.Repeat([]Op{receive(t), Age{6 * time.Minute}}, 1+small(t, "deaths", 4))
}

// copies are equal messages that come together, and that the first of them does not get through.
func copies(t *rapid.T) []Op {
	m := Message{UID: 1, Content: small(t, "content", contents-1), Unread: rarely(t, "unread", 3), Route: pick(t, "route", "desk", "desk", "")}
	others := []string{m.Route, m.Route, "court"}
	page := Register{Folder: small(t, "folder", 2), Dedupe: pick(t, "dedupe", tasks.DedupeInbox, tasks.DedupeAll)}
	for range 2 + small(t, "more", 1) {
		page.Messages = append(page.Messages, m)
		m.UID, m.Unread, m.Route = m.UID+1, false, pick(t, "other", others...)
	}
	ops := []Op{page}
	if rarely(t, "elsewhere", 2) {
		page.Folder++
		ops = append(ops, page)
	}
	return append(ops, work(t)...)
}

// work is a claim, and what comes of it.
func work(t *rapid.T) []Op {
	if rarely(t, "raw", 2) {
		return []Op{receive(t), finish(t)}
	}
	return []Op{receive(t), byTheRules(t)}
}

// byTheRules is what a pass does with a claim, of which it knows the content.
func byTheRules(t *rapid.T) Op {
	return Work{
		Of: Of{Claim: small(t, "claim", 2)}, Content: small(t, "content", contents-1), Route: pick(t, "route", "desk", "desk", "court", ""),
		To:     rapid.SliceOfNDistinct(rapid.SampledFrom(people), 1, 2, rapid.ID[string]).Draw(t, "to"),
		Comes:  pick(t, "comes", Accepted, Accepted, Deferred, Refused, Unknown, Killed, Reserved, Vanished),
		Dedupe: pick(t, "dedupe", tasks.DedupeInbox, tasks.DedupeInbox, tasks.DedupeAll),
	}
}

var people = []string{"ann@x.example", "bob@x.example", "eve@x.example"}

// back is a person who has second thoughts about messages that come together, and about who reads them.
func back(t *rapid.T) []Op {
	ops := append(copies(t), work(t)...)
	for range 1 + small(t, "times", 2) {
		ops = append(ops, pick(t, "deed", requeue, requeue, skip, disable, enable)(t))
		ops = append(ops, work(t)...)
	}
	return ops
}

// anyOp draws an operation; what a pass does all the time comes more often than what a person does now and then.
func anyOp() *rapid.Generator[Op] {
	var weighted []*rapid.Generator[Op]
	for _, kind := range []struct {
		weight int
		op     func(*rapid.T) Op
	}{
		{5, register},
		{1, baseline},
		{2, newEpoch},
		{1, takeOver},
		{6, receive},
		{1, extend},
		{2, sending},
		{3, identify},
		{7, finish},
		{2, release},
		{2, requeue},
		{1, skip},
		{4, byTheRules},
		{1, disable},
		{2, enable},
		{1, resolve},
		{2, purge},
		{1, expire},
		{1, expireEvents},
		{3, age},
	} {
		weighted = append(weighted, slices.Repeat([]*rapid.Generator[Op]{rapid.Custom(kind.op)}, kind.weight)...)
	}
	weighted = append(weighted, rapid.Just(Op(Again{})), rapid.Just(Op(Again{})))
	return rapid.OneOf(weighted...)
}

func small(t *rapid.T, name string, most int) int { return rapid.IntRange(0, most).Draw(t, name) }

// rarely is true once in so many times.
func rarely(t *rapid.T, name string, n int) bool { return small(t, name, n-1) == n-1 }

func pick[V any](t *rapid.T, name string, from ...V) V { return rapid.SampledFrom(from).Draw(t, name) }

func messages(t *rapid.T) []Message {
	one := rapid.Custom(func(t *rapid.T) Message {
		return Message{
			UID: uint32(1 + small(t, "uid", maxUID-1)), Content: small(t, "content", contents-1),
			Unread: rarely(t, "unread", 4), High: rarely(t, "high", 4),
			Route: pick(t, "route", "desk", "desk", "court", "desk+court", ""), Skip: pick(t, "skip", "", "", "", "", "too_large"),
		}
	})
	return rapid.SliceOfNDistinct(one, 0, 5, func(m Message) uint32 { return m.UID }).Draw(t, "messages")
}

func dedupe(t *rapid.T) tasks.Dedupe {
	return pick(t, "dedupe", tasks.DedupeInbox, tasks.DedupeInbox, tasks.DedupeInbox, tasks.DedupeAll, tasks.DedupeOff)
}

func register(t *rapid.T) Op {
	op := Register{Folder: small(t, "folder", 2), Messages: messages(t), Dedupe: dedupe(t)}
	switch small(t, "kind", 15) {
	case 15:
		op.KnownOnly = true
	case 14:
		op.DryRun = true
	case 13:
		op.OldEpoch = true
	case 12:
		op.OldScan = true
	}
	return op
}

func baseline(t *rapid.T) Op {
	return Baseline{Folder: small(t, "folder", 2), Messages: messages(t), OldEpoch: rarely(t, "epoch", 6), OldScan: rarely(t, "scan", 6)}
}

func newEpoch(t *rapid.T) Op { return NewEpoch{small(t, "folder", 2)} }
func takeOver(t *rapid.T) Op { return TakeOver{small(t, "folder", 2)} }

func receive(t *rapid.T) Op {
	return Receive{Folder: 2 * small(t, "inbox", 1), Max: 1 + small(t, "max", 4), Other: rarely(t, "other", 3)}
}

func of(t *rapid.T) Of {
	return Of{Claim: small(t, "claim", 6), Forged: rarely(t, "forged", 8)}
}

func delay(t *rapid.T) time.Duration {
	return pick(t, "delay", 0, 90*time.Second, 30*time.Minute+30*time.Second)
}

func deliveries(t *rapid.T) []tasks.Delivery {
	one := rapid.Custom(func(t *rapid.T) tasks.Delivery {
		return tasks.Delivery{
			Recipient: pick(t, "recipient", people...),
			Status:    pick(t, "outcome", tasks.Delivered, tasks.Sending, tasks.Pending, tasks.Failed),
			Code:      pick(t, "code", 0, 250, 451, 550), Reply: pick(t, "reply", "", "later"), Attempts: small(t, "attempts", 2),
		}
	})
	return rapid.SliceOfNDistinct(one, 0, 2, func(d tasks.Delivery) string { return d.Recipient }).Draw(t, "deliveries")
}

func extend(t *rapid.T) Op { return Extend{of(t)} }

func sending(t *rapid.T) Op {
	return Sending{Of: of(t), Route: pick(t, "route", "desk", "court"), Deliveries: deliveries(t)}
}

func identify(t *rapid.T) Op {
	return Identify{Of: of(t), Content: small(t, "content", contents-1), Route: pick(t, "route", "", "desk"), Dedupe: dedupe(t)}
}

func finish(t *rapid.T) Op {
	op := Finish{
		Of: of(t), Route: pick(t, "route", "desk", "desk", "court", ""), Delay: delay(t), Deliveries: deliveries(t), Dedupe: dedupe(t),
		Status: pick(t, "status", tasks.Forwarded, tasks.Forwarded, tasks.Error, tasks.Dead, tasks.Skipped, tasks.Uncertain,
			tasks.SkippedNoMatch, tasks.Received, tasks.InProgress),
	}
	switch op.Status {
	case tasks.Skipped:
		op.Reason = pick(t, "reason", tasks.VanishedPrefix+"expunged", "by_route: list")
		op.Yields = rarely(t, "yields", 2)
	case tasks.Dead, tasks.SkippedNoMatch:
		op.Reason, op.Yields, op.Refused = "no", rarely(t, "yields", 2), rarely(t, "refused", 3)
	}
	return op
}

func release(t *rapid.T) Op {
	return Release{Of: of(t), Delay: delay(t), Deliveries: deliveries(t)}
}

func which(t *rapid.T) []int { return rapid.SliceOfN(rapid.IntRange(0, 15), 1, 4).Draw(t, "tasks") }

func requeue(t *rapid.T) Op { return Requeue{which(t)} }
func skip(t *rapid.T) Op    { return Skip{which(t)} }
func resolve(t *rapid.T) Op { return Resolve{which(t)} }
func purge(t *rapid.T) Op   { return Purge{which(t)} }

func disable(t *rapid.T) Op {
	if rarely(t, "good", 4) {
		return Remove{Folder: 2 * small(t, "inbox", 1)}
	}
	return Disable{Folder: 2 * small(t, "inbox", 1)}
}
func enable(t *rapid.T) Op { return Enable{Folder: 2 * small(t, "inbox", 1)} }

func expire(t *rapid.T) Op {
	return Expire{Folder: 2 * small(t, "inbox", 1), Limit: 1 + small(t, "limit", 3), Age: oldAge(t)}
}

func expireEvents(t *rapid.T) Op {
	return ExpireEvents{Limit: 1 + small(t, "limit", 9), Age: oldAge(t)}
}

func oldAge(t *rapid.T) time.Duration {
	return pick(t, "age", -30*time.Second, 90*time.Second, 61*time.Minute+30*time.Second)
}

func age(t *rapid.T) Op {
	return Age{pick(t, "by", time.Minute, 6*time.Minute, 6*time.Minute, 61*time.Minute, 25*time.Hour+time.Minute)}
}
