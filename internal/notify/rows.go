package notify

import (
	"database/sql/driver"
	"fmt"
	"time"
)

// endingRow is a row of sqlEndings, and outageRow one of sqlOutages.
type (
	endingRow struct {
		ID         int64
		Status     Kind
		FinishedAt moment
		Told       moment // as which it was told last
	}
	outageRow struct {
		ID          int64
		Address     string `gorm:"column:email_address"`
		FailedScans int
		LastError   string
		Since       moment `gorm:"column:outage_since"`
		Until       moment `gorm:"column:outage_until"`
		Told        moment
	}
)

// moment is a time in the database. SQLite keeps whatever was written there by hand.
type moment struct {
	at  time.Time
	odd any // what stands there instead of a time
}

// Scan implements sql.Scanner.
func (m *moment) Scan(v any) error {
	*m = moment{}
	if at, ok := v.(time.Time); ok {
		m.at = at
	} else {
		m.odd = v
	}
	return nil
}

// Value implements driver.Valuer, without which gorm takes the field for another table.
func (m moment) Value() (driver.Value, error) { return m.at, nil }

// addEnding adds what a row says to the news. One that says nothing sensible is no news: it would be told again and again.
func (n *News) addEnding(r endingRow) {
	if r.FinishedAt.at.IsZero() {
		n.damaged("task %d cannot be told of: finished_at of its row in the table monitored_emails_tasks is %v, and no time; "+
			"put the time there, or settle it with `postrider task retry %[1]d`, or `skip`", r.ID, r.FinishedAt)
		return
	}
	if !r.FinishedAt.at.Equal(r.Told.at) { // it may be written otherwise: by hand, without a zone
		n.Tasks = append(n.Tasks, Ending{r.ID, r.Status, r.FinishedAt.at})
	}
}

func (n *News) addOutage(r outageRow) {
	if r.Since.at.IsZero() || r.Until.odd != nil || r.FailedScans < 0 {
		n.damaged("inbox %s cannot be told of: in its row in the table monitored_emails outage_since is %v, outage_until %v and failed_scans %d; "+
			"set these to NULL, NULL and 0", r.Address, r.Since, r.Until, r.FailedScans)
		return
	}
	o := Outage{ID: r.ID, Address: r.Address, FailedScans: r.FailedScans, LastError: r.LastError, Since: r.Since.at}
	if !r.Until.at.IsZero() {
		o.Until = &r.Until.at
	}
	if !o.at().Equal(r.Told.at) {
		n.Outages = append(n.Outages, o)
	}
}

func (n *News) damaged(format string, args ...any) {
	n.Damaged = append(n.Damaged, fmt.Errorf(format, args...))
}

// String is what stands in the database, on one line.
func (m moment) String() string {
	switch {
	case m.odd != nil:
		return fmt.Sprintf("%.100q", fmt.Sprint(m.odd))
	case m.at.IsZero():
		return "NULL"
	}
	return m.at.UTC().Format(time.RFC3339)
}
