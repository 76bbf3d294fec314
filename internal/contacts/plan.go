package contacts

import (
	"errors"
	"fmt"
	"strings"

	"postrider/internal/text"
)

// Entry adds or changes one contact. A field that is nil, and an empty address, stays as it is in
// an existing contact. A new contact is active by default, without an address and keywords.
type Entry struct {
	Where    string // such as people.csv:7, the prefix of its errors; may be empty
	Name     string
	Email    string
	Keywords []string
	Active   *bool
	Fault    error // why the entry could not be read; nil when it could
}

// Change is the effect of one entry.
type Change struct {
	Old *Contact // nil when the contact is new
	New Contact
}

// Adds reports whether the contact is new.
func (c Change) Adds() bool { return c.Old == nil }

// String describes the change on one line: + for a new contact, ~ for a changed one. It is empty
// when nothing changes.
func (c Change) String() string {
	if c.Adds() {
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
		parts = append(parts, "is no longer active")
	case !c.Old.Active && c.New.Active:
		parts = append(parts, "is active again")
	}
	if len(parts) == 0 {
		return ""
	}
	return "~ " + c.Old.String() + ": " + strings.Join(parts, ", ")
}

// plan finds the contact of each entry. It returns the faults of all entries together.
func plan(all []Contact, entries []Entry) ([]Change, error) {
	index := newIndex(all)
	var errs []error
	changes := make([]Change, 0, len(entries))
	first := map[string]string{} // Entry.Where of the first entry for each contact, by key
	for _, e := range entries {
		c, err := index.change(e)
		if c.New.Name != "" {
			err = errors.Join(err, checkRepeated(first, e, c))
		}
		if err != nil {
			errs = append(errs, text.At(e.Where, err))
		}
		changes = append(changes, c)
	}
	if len(errs) > 0 {
		return nil, &InvalidError{errors.Join(errs...)}
	}
	return changes, nil
}

// checkRepeated refuses a second entry for the same contact.
func checkRepeated(first map[string]string, e Entry, c Change) error {
	keys := []string{key(c.New)}
	if c.Old != nil {
		keys = append(keys, fmt.Sprint("id:", c.Old.ID))
	}
	for _, k := range keys {
		if at, ok := first[k]; ok {
			return fmt.Errorf("%s appears before, in %s; remove one of the two", c.New, at)
		}
		first[k] = e.Where
	}
	return nil
}

// key identifies a contact: by its address, or by its name when it has none.
func key(c Contact) string {
	if c.Email != "" {
		return "email:" + identity(c.Email)
	}
	return "name:" + c.Name
}

// index is the directory by address and by name.
type index struct {
	byEmail map[string]*Contact
	byName  map[string][]*Contact
	noEmail map[string][]*Contact // by name, those without an address
}

func newIndex(all []Contact) index {
	x := index{map[string]*Contact{}, map[string][]*Contact{}, map[string][]*Contact{}}
	for i := range all {
		c := &all[i]
		if c.Email != "" {
			x.byEmail[identity(c.Email)] = c
		} else {
			x.noEmail[c.Name] = append(x.noEmail[c.Name], c)
		}
		x.byName[c.Name] = append(x.byName[c.Name], c)
	}
	return x
}

// change returns all faults of an entry. Its New is empty if the entry does not identify a contact.
func (x index) change(e Entry) (Change, error) {
	if e.Fault != nil && e.Name == "" && e.Email == "" {
		return Change{}, e.Fault
	}
	c := Contact{Name: e.Name, Email: e.Email, Keywords: e.Keywords, Active: true}
	if e.Active != nil {
		c.Active = *e.Active
	}
	if err := c.normalize(); err != nil {
		return Change{}, errors.Join(e.Fault, err)
	}
	old, err := x.find(c)
	if err = errors.Join(e.Fault, err); err != nil || old == nil {
		return Change{Old: old, New: c}, err
	}
	c.ID = old.ID
	if c.Email == "" {
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

// find returns the existing contact that c stands for, or nil when c is new. A contact with the
// same address is the one. Else, when c has an address, it is the contact of that name without an
// address. When c has none, it is the contact of that name; of several, the one without an address.
func (x index) find(c Contact) (*Contact, error) {
	if old := x.byEmail[identity(c.Email)]; old != nil {
		return old, nil
	}
	found := x.byName[c.Name]
	if noEmail := x.noEmail[c.Name]; c.Email != "" || len(found) > 1 && len(noEmail) > 0 {
		found = noEmail
	}
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("%d contacts have the name %q; add the email address of the one that you mean",
		len(found), c.Name)
}
