package inbox

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"gorm.io/gorm"

	"postrider/internal/db"
)

// Labels are what an operator groups inboxes by: values by their names, such as acme by tenant.
type Labels map[string]string

// maxLabels is how many labels an inbox may have.
const maxLabels = 16

var (
	labelName  = regexp.MustCompile(`^[a-z0-9_.-]{1,63}$`)
	labelValue = regexp.MustCompile(`^[!-~]{1,63}$`)
)

// ParseLabels reads labels that are written as name=value. A value may be empty, for Changes. The
// error is an *InvalidError.
func ParseLabels(texts []string) (Labels, error) {
	labels := Labels{}
	var errs []error
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if _, twice := labels[name]; twice {
			errs = append(errs, fmt.Errorf("the label %s is given twice; an inbox has one value of it", name))
		}
		if !ok {
			errs = append(errs, fmt.Errorf("the label %q has no value; write it like tenant=acme", text))
			continue
		}
		labels[name] = value
		if value != "" || !labelName.MatchString(name) {
			errs = append(errs, checkLabel(name, value))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, &InvalidError{err}
	}
	return labels, nil
}

// Texts are the labels as name=value, sorted.
func (l Labels) Texts() []string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(l)) {
		texts = append(texts, name+"="+l[name])
	}
	return texts
}

// Has reports whether the label is among them: name=value, or name with any value.
func (l Labels) Has(label string) bool {
	name, want, valued := strings.Cut(label, "=")
	value, ok := l[name]
	return ok && (!valued || value == want)
}

// with are the labels after a change: a label with an empty value is removed.
func (l Labels) with(changes Labels) Labels {
	if changes == nil {
		return l
	}
	out := Labels{}
	maps.Copy(out, l)
	maps.Copy(out, changes)
	maps.DeleteFunc(out, func(name, value string) bool {
		_, changed := changes[name]
		return changed && value == ""
	})
	return out
}

func (l Labels) check() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(l)) {
		errs = append(errs, checkLabel(name, l[name]))
	}
	if len(l) > maxLabels {
		errs = append(errs, fmt.Errorf("there are %d labels; an inbox may have %d", len(l), maxLabels))
	}
	return errors.Join(errs...)
}

func checkLabel(name, value string) error {
	switch {
	case !labelName.MatchString(name):
		return fmt.Errorf("the label %q has a wrong name; use 1 to 63 of a-z, 0-9, _, . and -", name+"="+value)
	case !labelValue.MatchString(value):
		return fmt.Errorf("the label %q has a wrong value; use 1 to 63 printable ASCII characters without spaces",
			name+"="+value)
	}
	return nil
}

// labelRow is a row of sqlListLabels.
type labelRow struct {
	InboxID     int64
	Name, Value string
}

// listLabels returns the labels of inboxes by their IDs.
func listLabels(tx *gorm.DB, inboxIDs []int64) (map[int64]Labels, error) {
	found := map[int64]Labels{}
	for ids := range slices.Chunk(inboxIDs, 1000) { // SQLite takes 32,766
		var rows []labelRow
		if err := tx.Raw(sqlListLabels, ids).Scan(&rows).Error; err != nil {
			return nil, err
		}
		for _, r := range rows {
			if found[r.InboxID] == nil {
				found[r.InboxID] = Labels{}
			}
			found[r.InboxID][r.Name] = r.Value
		}
	}
	return found, nil
}

func labelsOf(tx *gorm.DB, inboxID int64) (Labels, error) {
	found, err := listLabels(tx, []int64{inboxID})
	return found[inboxID], err
}

func attachLabels(tx *gorm.DB, inboxes []Inbox) error {
	found, err := listLabels(tx, IDs(inboxes))
	for i := range inboxes {
		inboxes[i].Labels = found[inboxes[i].ID]
	}
	return err
}

// saveLabels makes labels those of an inbox.
func saveLabels(tx *gorm.DB, inboxID int64, labels Labels) error {
	if err := db.Run(tx, sqlDeleteLabels, inboxID); err != nil {
		return err
	}
	var rows [][]any
	for name, value := range labels {
		rows = append(rows, []any{inboxID, name, value})
	}
	return db.Insert(tx, "monitored_labels", labelColumns, rows)
}
