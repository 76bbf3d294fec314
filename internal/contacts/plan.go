package contacts

import (
	"errors"
	"fmt"
	"strings"
)

// Entry is what is known of one contact; nil is what nothing is said about. A contact that is there keeps that, and a new
// one is active and has neither an address nor keywords.
type Entry struct {
	Where    string // such as people.csv:7, begins what is said of its faults; may be empty
	Name     string
	Email    *string
	Keywords []string // nil: not said
	Active   *bool
	Fault    error // it could not be read; nil when it could
}

// Change is what an entry leads to.
type Change struct {
	Old *Contact // nil: it is added
	New Contact
}

// String is one line for a person: + what is added, ~ what changes. It is empty when nothing does.
func (c Change) String() string {
	if c.Old == nil {
		line := "+ " + c.New.String()
		if len(c.New.Keywords) > 0 {
			line += ": " + joined(c.New.Keywords)
		}
		if !c.New.Active {
			line += " (not active)"
		}
		return line
	}
	var parts []string
	add := func(what, before, after string) {
		if before != after {
			parts = append(parts, fmt.Sprintf("%s %q becomes %q", what, before, after))
		}
	}
	add("name", c.Old.Name, c.New.Name)
	add("email", c.Old.Email, c.New.Email)
	add("keywords", joined(c.Old.Keywords), joined(c.New.Keywords))
	switch {
	case c.Old.Active && !c.New.Active:
		parts = append(parts, "is not active any more")
	case !c.Old.Active && c.New.Active:
		parts = append(parts, "is active again")
	}
	if len(parts) == 0 {
		return ""
	}
	return "~ " + c.Old.String() + ": " + strings.Join(parts, ", ")
}

// plan finds the contact that each entry is about. All faults are told at once.
func plan(all []Contact, entries []Entry) ([]Change, error) {
	index := newIndex(all)
	var errs []error
	changes := make([]Change, 0, len(entries))
	first := map[string]string{} // where a contact was named, by what it goes by
	for _, e := range entries {
		c, err := index.change(e)
		if err == nil {
			err = twice(first, e, c)
		}
		if err != nil {
			errs = append(errs, placed(e.Where, err))
		}
		changes = append(changes, c)
	}
	if len(errs) > 0 {
		return nil, &InvalidError{errors.Join(errs...)}
	}
	return changes, nil
}

// twice reports that two entries are about one contact.
func twice(first map[string]string, e Entry, c Change) error {
	keys := []string{key(c.New)}
	if c.Old != nil {
		keys = append(keys, fmt.Sprint("id:", c.Old.ID))
	}
	for _, k := range keys {
		if at, ok := first[k]; ok {
			return fmt.Errorf("%s has been named before, %s; remove one of them", c.New, at)
		}
		first[k] = e.Where
	}
	return nil
}

// key is what a contact goes by.
func key(c Contact) string {
	if c.Email != "" {
		return "email:" + identity(c.Email)
	}
	return "name:" + c.Name
}

// placed puts the place before each fault.
func placed(where string, err error) error {
	if where == "" {
		return err
	}
	return errors.New(where + ": " + strings.ReplaceAll(err.Error(), "\n", "\n"+where+": "))
}

// index is the directory by address and by name.
type index struct {
	byEmail map[string]*Contact
	byName  map[string][]*Contact
	mute    map[string][]*Contact // by name, those that have no address
}

func newIndex(all []Contact) index {
	x := index{map[string]*Contact{}, map[string][]*Contact{}, map[string][]*Contact{}}
	for i := range all {
		c := &all[i]
		if c.Email != "" {
			x.byEmail[identity(c.Email)] = c
		} else {
			x.mute[c.Name] = append(x.mute[c.Name], c)
		}
		x.byName[c.Name] = append(x.byName[c.Name], c)
	}
	return x
}

func (x index) change(e Entry) (Change, error) {
	if e.Fault != nil {
		return Change{}, e.Fault
	}
	c := Contact{Name: e.Name, Keywords: e.Keywords, Active: true}
	if e.Email != nil {
		c.Email = *e.Email
	}
	if e.Active != nil {
		c.Active = *e.Active
	}
	if err := c.normalize(); err != nil {
		return Change{}, err
	}
	old, err := x.find(c)
	if err != nil || old == nil {
		return Change{New: c}, err
	}
	c.ID = old.ID
	if e.Email == nil {
		c.Email = old.Email
	}
	if e.Keywords == nil {
		c.Keywords = old.Keywords
	}
	if e.Active == nil {
		c.Active = old.Active
	}
	return Change{Old: old, New: c}, nil
}

// find is the contact with that address; else, when an address has become known, the one of that name without an address;
// and without an address the one of that name, of several the one that has none either.
func (x index) find(c Contact) (*Contact, error) {
	if old := x.byEmail[identity(c.Email)]; old != nil {
		return old, nil
	}
	of := x.byName[c.Name]
	if mute := x.mute[c.Name]; c.Email != "" || len(of) > 1 && len(mute) > 0 {
		of = mute
	}
	switch len(of) {
	case 0:
		return nil, nil
	case 1:
		return of[0], nil
	}
	return nil, fmt.Errorf("%d contacts have the name %q; say by the email address which one is meant", len(of), c.Name)
}
