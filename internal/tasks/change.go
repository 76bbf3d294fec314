package tasks

// Change says to which tasks a person may do something.
type Change struct {
	From  []Status // it is for tasks in these states
	Meant []Status // those of them that are meant where nobody says which
}

// ToRetry is for Requeue.
func ToRetry() Change { return Change{From: FromByPerson(Received), Meant: failed()} }

// ToSkip is for Skip.
func ToSkip() Change { return Change{From: FromByPerson(Skipped), Meant: failed()} }

// ToResolve is for Resolve.
func ToResolve() Change { return Change{From: FromByPerson(Forwarded), Meant: FromByPerson(Forwarded)} }

// ToPurge is for Purge.
func ToPurge() Change { return Change{From: Purgeable, Meant: []Status{Forwarded}} }

// failed are the states of tasks that somebody did not get, or may not have got.
func failed() []Status { return []Status{Error, Uncertain, Dead} }
