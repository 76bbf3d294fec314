// Package contacts is the directory: the people that routes find by a name or keyword in a message
// (to_contacts).
//
// The email address identifies a contact, case-insensitive; without an address, the name does.
// Several contacts may have the same name, but no two the same address. A contact without an
// address cannot receive mail. An inactive contact is not searched for. A contact is found by its
// name and by each of its keywords.
//
// Put adds or changes any number of contacts in one transaction: all or none. It reports all faults
// together, before it changes anything. ReadCSV reads the entries for Put from a file, with the
// line of each fault.
package contacts

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"postrider/internal/address"
	"postrider/internal/route"
)

// Contact is one person of the directory.
type Contact struct {
	ID       int64
	Name     string
	Email    string // empty: none
	Keywords []string
	Active   bool

	stored string // its keywords as the database has them
}

// String returns the name and the address.
func (c Contact) String() string {
	if c.Email == "" {
		return c.Name
	}
	return c.Name + " <" + c.Email + ">"
}

// InvalidError says what is wrong with a contact or with a request, and how to fix it.
type InvalidError struct{ Err error }

func (e *InvalidError) Error() string { return e.Err.Error() }
func (e *InvalidError) Unwrap() error { return e.Err }

// Widths of the columns in the database.
const (
	maxName     = 255       // characters
	maxKeywords = 16 * 1024 // octets, all keywords together
)

// separators are between the keywords of a list.
const separators = ";,\n\r；、，"

// Keywords splits a list at semicolons, commas and line ends, and removes duplicates.
func Keywords(s string) []string {
	var out []string
	for _, k := range strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(separators, r) }) {
		if k = normalized(k); k != "" && !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	return out
}

// normalized normalizes a text for the database: single spaces, and composed characters (NFC), so
// that equal texts compare equal.
func normalized(s string) string { return strings.Join(strings.Fields(norm.NFC.String(s)), " ") }

// identity returns the same text for all spellings of an address: any case, and the domain in
// Unicode or as xn--.
func identity(email string) string {
	if a, err := address.Parse(email); err == nil {
		email = a.Wire
	}
	return strings.ToLower(email)
}

// normalize cleans a contact's fields and reports everything that is wrong with them.
func (c *Contact) normalize() error {
	c.Name, c.Email = normalized(c.Name), strings.TrimSpace(c.Email)
	var errs []error
	for _, k := range c.Keywords {
		if strings.ContainsAny(k, separators) {
			errs = append(errs, fmt.Errorf("the keyword %q has a comma, a semicolon or a line end, "+
				"which separate keywords; give each on its own", k))
		}
	}
	c.Keywords = Keywords(strings.Join(c.Keywords, ";"))
	switch {
	case c.Name == "":
		errs = append(errs, errors.New("the name is missing"))
	case utf8.RuneCountInString(c.Name) > maxName:
		errs = append(errs, fmt.Errorf("the name is longer than %d characters", maxName))
	default:
		errs = append(errs, checkText("name", c.Name))
	}
	if c.Email != "" {
		if err := address.Check(c.Email); err != nil {
			errs = append(errs, fmt.Errorf("email: %w", err))
		}
	}
	for _, k := range c.Keywords {
		errs = append(errs, checkText("keyword", k))
	}
	if n := len(joined(c.Keywords)); n > maxKeywords {
		errs = append(errs, fmt.Errorf("the keywords have %d octets together, at most %d are possible", n, maxKeywords))
	}
	return errors.Join(errs...)
}

func checkText(what, s string) error {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		return fmt.Errorf("the %s %q has control characters or is not UTF-8", what, s)
	}
	if err := route.CheckTerm(s); err != nil {
		return fmt.Errorf("the %s %w", what, err)
	}
	return nil
}

func joined(keywords []string) string { return strings.Join(keywords, "; ") }

// same reports whether two contacts are equal except for their IDs.
func (c Contact) same(o Contact) bool {
	return c.Name == o.Name && c.Email == o.Email && c.Active == o.Active && slices.Equal(c.Keywords, o.Keywords)
}

// Directory returns the active contacts, for routes. A contact that was written into the database
// by hand may be invalid: Directory leaves out an invalid address, a name or keyword that is too
// short is not searched for, and the faults are returned.
func Directory(all []Contact) (*route.Directory, []error) {
	var list []route.Contact
	var faults []error
	for _, c := range all {
		if !c.Active {
			continue
		}
		if err := c.normalize(); err != nil {
			faults = append(faults, fmt.Errorf("contact %d (%s): %w", c.ID, c.Name, err))
			if address.Check(c.Email) != nil {
				c.Email = ""
			}
		}
		list = append(list, route.Contact{Name: c.Name, Email: c.Email, Keywords: c.Keywords})
	}
	return route.NewDirectory(list), faults
}
