package tasks

// Change says to which tasks an operator may do something.
type Change struct {
	From  []Status // it is for tasks in these states
	Meant []Status // those of them that are meant when the operator does not say which
}

// ToRetry is for Requeue.
func ToRetry() Change { return Change{From: FromByOperator(Received), Meant: failed()} }

// ToSkip is for Skip.
func ToSkip() Change { return Change{From: FromByOperator(Skipped), Meant: failed()} }

// ToResolve is for Resolve.
func ToResolve() Change {
	return Change{From: FromByOperator(Forwarded), Meant: FromByOperator(Forwarded)}
}

// ToPurge is for Purge.
func ToPurge() Change { return Change{From: Purgeable, Meant: []Status{Forwarded}} }

// failed are the states of tasks that a recipient did not get, or may not have got.
func failed() []Status { return []Status{Error, Uncertain, Dead} }
