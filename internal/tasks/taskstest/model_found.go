package taskstest

import "time"

// page is a page of equal messages for ann and bob, from UID 1 on.
func page(folder int, contents ...int) Register {
	op := Register{Folder: folder, Dedupe: "all"}
	for i, n := range contents {
		op.Messages = append(op.Messages, Message{UID: uint32(i + 1), Content: n, Route: "desk", To: people[:2]})
	}
	return op
}

// unread is a page of one message whose content is not known.
func unread(content int) Register {
	op := page(0, content)
	op.Messages[0].Unread, op.Messages[0].Route, op.Messages[0].To = true, "", nil
	return op
}

// found are counterexamples that Model came upon in queues, each by what was wrong, and cases that
// it seldom comes upon.
var found = map[string][]Op{
	"what was purged unforwarded is found again": {
		page(0, 0),
		Operate{"skip", []int{0}},
		Operate{"purge", []int{0}},
		Manage{"new epoch", 0},
		page(0, 0), page(1, 0),
	},
	"a copy in the page where a message is found again and read": {
		unread(0), Manage{"new epoch", 0}, page(0, 0, 0),
	},
	"another message of the outline of one that has been read since": {
		unread(0), Manage{"new epoch", 0}, page(0, 0), page(0, 0, 4), Manage{"new epoch", 0}, page(0, 4, 0),
	},
	"another message of the outline of one that was reserved": {
		unread(0),
		Manage{"new epoch", 0},
		unread(0),
		Receive{Max: 1},
		Do{What: "reserve", Identify: true, Dedupe: "inbox"},
		Manage{"new epoch", 0},
		page(0, 4, 0),
	},
	"what crashed its workers takes no room in a claim": {
		page(0, 0),
		Receive{Max: 1},
		Age{6 * time.Minute},
		Receive{Max: 1},
		Age{6 * time.Minute},
		Receive{Max: 1},
		Age{6 * time.Minute},
		page(1, 1, 2, 3),
		Receive{Max: 2},
	},
	"a copy in the page where a vanished message is there again": {
		page(0, 0),
		Receive{Max: 1},
		Work{Comes: Vanished, Rules: 1, Dedupe: "all"},
		Manage{"new epoch", 0},
		page(0, 0, 0),
	},
	"a copy of what was refused and is not finished": {
		page(0, 0),
		Receive{Max: 1},
		Do{What: "sending", Outcomes: []Outcome{{Status: "failed"}}},
		page(2, 0),
		Do{What: "finish", Status: "error", Delay: 30 * time.Minute},
		Receive{Inbox: 1, Max: 1},
		Work{Comes: Accepted, Rules: 1, Dedupe: "all"},
	},
	"a copy of what is sent from a disabled inbox": {
		page(0, 0), page(2, 0),
		Receive{Max: 1},
		Work{Comes: Killed, Rules: 1, Dedupe: "all"},
		Manage{"disable", 0},
		Age{6 * time.Minute},
		Receive{Inbox: 1, Max: 1},
		Work{Comes: Accepted, Rules: 1, Dedupe: "all"},
		Manage{"enable", 0},
	},
	"recipients change while a copy waits": {
		page(0, 0), page(2, 0),
		Receive{Max: 1},
		Work{Comes: Reserved, Rules: 2, Route: "court", To: people[1:3], Dedupe: "all"},
		Receive{Inbox: 1, Max: 1},
		Work{Comes: Mixed, Rules: 1, Dedupe: "all"},
		Work{Of: Of{Claim: 1}, Comes: Refused, Rules: 1, Route: "desk", To: people[:1], Dedupe: "all"},
	},
	"what was sent unread, with an unknown outcome": {
		page(0, 0),
		Register{
			Messages: []Message{{UID: 2, Content: 1, Unread: true, High: true, Route: "desk", To: people[3:]}},
			Dedupe:   "inbox",
		},
		Register{Folder: 1, Messages: []Message{{UID: 2, Content: 1, Route: "desk", To: people[3:]}}, Dedupe: "inbox"},
		Receive{Max: 1, Other: true},
		Work{Comes: Unknown, Route: "desk", To: people[3:], Rules: 1, Dedupe: "inbox"},
		Receive{Max: 1},
	},
	"a bounced recipient who is no longer among them": {
		page(0, 0), page(2, 0),
		Receive{Max: 1},
		Work{Comes: Accepted, Rules: 1, Dedupe: "all"},
		Arrive{Status: "bounced", Code: 550},
		Arrive{To: 1, Status: "bounced", Code: 550},
		Operate{"requeue", []int{0}},
		Receive{Max: 1},
		Work{Comes: Accepted, Rules: 2, Route: "court", To: people[1:2], Dedupe: "all"},
		Age{2 * time.Minute},
		Operate{"requeue", []int{1}},
		Receive{Inbox: 1, Max: 1},
		Work{Comes: Accepted, Rules: 2, Route: "desk", To: people[:1], Dedupe: "all"},
	},
	"what waits in an inbox that is removed": {
		page(0, 0), page(2, 0), page(1, 0),
		Receive{Max: 1},
		Work{Comes: Mixed, Rules: 1, Dedupe: "all"},
		Manage{"remove", 0},
		Receive{Inbox: 1, Max: 1},
		Work{Comes: Accepted, Rules: 1, Dedupe: "all"},
	},
}
