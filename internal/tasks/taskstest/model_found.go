package taskstest

// found are the counterexamples that Model came upon in queues, each by what was wrong.
var found = map[string][]Op{
	"what was purged unforwarded is found again": {
		Register{Messages: []Message{{UID: 1, Route: "desk"}}, Dedupe: "inbox"},
		Skip{Tasks: []int{0}},
		Purge{Tasks: []int{0}},
		NewEpoch{},
		Register{Messages: []Message{{UID: 1, Route: "desk"}}, Dedupe: "inbox"},
		Register{Folder: 1, Messages: []Message{{UID: 1, Route: "desk"}}, Dedupe: "inbox"},
	},
	"a copy in the page where a message is found again and read": {
		Register{Messages: []Message{{UID: 1, Unread: true, Route: "desk"}}, Dedupe: "inbox"},
		NewEpoch{},
		Register{Messages: []Message{{UID: 1, Route: "desk"}, {UID: 2, Route: "desk"}}, Dedupe: "inbox"},
	},
	"another message of the outline of one that has been read since": {
		Register{Messages: []Message{{UID: 1, Unread: true, Route: "desk"}}, Dedupe: "inbox"},
		NewEpoch{},
		Register{Messages: []Message{{UID: 1, Route: "desk"}}, Dedupe: "inbox"},
		Register{Messages: []Message{{UID: 2, Content: 4, Route: "desk"}}, Dedupe: "inbox"},
		NewEpoch{},
		Register{Messages: []Message{{UID: 1, Content: 4, Route: "desk"}, {UID: 2, Route: "desk"}}, Dedupe: "inbox"},
	},
	"another message of the outline of one that was identified": {
		Register{Messages: []Message{{UID: 1, Unread: true, Route: "desk"}}, Dedupe: "inbox"},
		NewEpoch{},
		Register{Messages: []Message{{UID: 1, Unread: true, Route: "desk"}}, Dedupe: "inbox"},
		Receive{Max: 1},
		Identify{Dedupe: "inbox"},
		NewEpoch{},
		Register{Messages: []Message{{UID: 1, Content: 4, Route: "desk"}, {UID: 2, Route: "desk"}}, Dedupe: "inbox"},
	},
	"what is buried takes no room in a claim": {
		Register{Messages: []Message{{UID: 1, High: true, Route: "desk"}}},
		Receive{Max: 1},
		Age{By: 360e9},
		Receive{Max: 1},
		Age{By: 360e9},
		Receive{Max: 1},
		Age{By: 360e9},
		Register{Messages: []Message{{UID: 2, Content: 1, High: true, Route: "desk"}, {UID: 3, Content: 2, High: true, Route: "desk"}, {UID: 4, Content: 3, Route: "desk"}}},
		Receive{Max: 2},
	},
	"a duplicate of what was registered unread takes its place": {
		Register{Messages: []Message{{UID: 1, Unread: true, Route: "desk"}}, Dedupe: "inbox"},
		NewEpoch{},
		Register{Messages: []Message{{UID: 1, Route: "desk"}}, Dedupe: "inbox"},
		Register{Messages: []Message{{UID: 2, Route: "desk"}}, Dedupe: "inbox"},
		Receive{Max: 1},
		Finish{Status: "dead", Reason: "no", Route: "desk", Yields: true},
	},
	"a copy in the page where a vanished message is there again": {
		Register{Messages: []Message{{UID: 1, Route: "desk"}}, Dedupe: "inbox"},
		Receive{Max: 1},
		Finish{Status: "skipped", Reason: "vanished: expunged", Route: "desk"},
		NewEpoch{},
		Register{Messages: []Message{{UID: 1, Route: "desk"}, {UID: 2, Route: "desk"}}, Dedupe: "inbox"},
	},
}
