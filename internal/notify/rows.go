package notify

import (
	"fmt"
	"slices"
	"time"
)

// endingRow is a row of sqlEndings or sqlBounced, and outageRow one of sqlOutages.
type (
	endingRow struct {
		ID         int64
		Status     Kind
		FinishedAt dbTime
		Told       dbTime // the FinishedAt that was reported last
	}
	outageRow struct {
		ID          int64
		Address     string
		FailedScans int
		LastError   string
		LoginNeeded bool
		Since       dbTime
		Until       dbTime
		Told        dbTime // the Outage.at that was reported last
	}
)

func (r *endingRow) into() []any { return []any{&r.ID, &r.Status, &r.FinishedAt, &r.Told} }

func (r *outageRow) into() []any {
	return []any{&r.ID, &r.Address, &r.FailedScans, &r.LastError, &r.LoginNeeded, &r.Since, &r.Until, &r.Told}
}

// dbTime is a time in the database. SQLite stores any value that somebody writes there by hand.
type dbTime struct {
	at    time.Time
	other any // a value that is no time
}

// Scan implements sql.Scanner.
func (t *dbTime) Scan(v any) error {
	*t = dbTime{}
	if at, ok := v.(time.Time); ok {
		t.at = at
	} else {
		t.other = v
	}
	return nil
}

// addEnding adds a row to the news. A damaged row is not added: it would be reported again and
// again.
func (n *News) addEnding(r endingRow) {
	if r.FinishedAt.at.IsZero() {
		n.damaged("task %d cannot be reported: finished_at of its row in the table monitored_emails_tasks is %v, "+
			"not a time; set a time, or settle the task with `postrider task retry %[1]d` "+
			"or `postrider task skip %[1]d`",
			r.ID, r.FinishedAt)
		return
	}
	if !r.FinishedAt.at.Equal(r.Told.at) { // in SQLite, equal times may be different texts
		n.Tasks = append(n.Tasks, Ending{r.ID, r.Status, r.FinishedAt.at})
	}
}

// addBounce adds a row to the news. Of the rows of one task the last one counts.
func (n *News) addBounce(r endingRow) {
	last := len(n.Bounces) - 1
	switch {
	case r.FinishedAt.at.IsZero():
		n.damaged("the bounce of task %d cannot be reported: "+
			"reported_at of its row in the table monitored_emails_arrivals is %v, "+
			"not a time; set a time", r.ID, r.FinishedAt)
	case !r.FinishedAt.at.After(r.Told.at): // in SQLite, equal times may be different texts
	case last >= 0 && n.Bounces[last].ID == r.ID:
		n.Bounces[last].FinishedAt = r.FinishedAt.at
	default:
		n.Bounces = append(n.Bounces, Ending{r.ID, Bounced, r.FinishedAt.at})
	}
}

// addOutage adds a row to the news if it is of these kinds.
func (n *News) addOutage(r outageRow, on []Kind) {
	if r.Since.at.IsZero() || r.Until.other != nil || r.FailedScans < 0 {
		n.damaged("inbox %s cannot be reported: in its row in the table monitored_emails "+
			"outage_since is %v, outage_until %v and failed_scans %d; "+
			"set these to NULL, NULL and 0", r.Address, r.Since, r.Until, r.FailedScans)
		return
	}
	o := Outage{
		ID: r.ID, Kind: Unreachable, Address: r.Address,
		FailedScans: r.FailedScans, LastError: r.LastError, Since: r.Since.at,
	}
	if r.LoginNeeded {
		o.Kind = NeedsLogin
	}
	if !r.Until.at.IsZero() {
		o.Until = &r.Until.at
	}
	if !o.at().Equal(r.Told.at) && slices.Contains(on, o.Kind) {
		n.Outages = append(n.Outages, o)
	}
}

func (n *News) damaged(format string, args ...any) {
	n.Damaged = append(n.Damaged, fmt.Errorf(format, args...))
}

// String returns the value in the database on one line.
func (t dbTime) String() string {
	switch {
	case t.other != nil:
		return fmt.Sprintf("%.100q", fmt.Sprint(t.other))
	case t.at.IsZero():
		return "NULL"
	}
	return t.at.UTC().Format(time.RFC3339)
}
