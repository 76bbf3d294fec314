// Package contacts is the directory: the people whom routes look up by name or keyword in a message (to_contacts).
//
// A contact goes by its email address, without regard to case; one without an address by its name. Several contacts may
// have one name; no two may have one address. A contact without an address is known, and cannot be written to; one that
// is not active is not looked for. Keywords are looked for beside the name, which is looked for as well.
//
// Put adds or changes any number of contacts in one transaction: all or none. What is wrong with them is told all at
// once, before anything is touched. ReadCSV reads a file into what Put takes, with the line of each fault.
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
}

// String is the name and the address.
func (c Contact) String() string {
	if c.Email == "" {
		return c.Name
	}
	return c.Name + " <" + c.Email + ">"
}

// InvalidError is what is wrong with a contact, or with what was asked for. The mend is in it.
type InvalidError struct{ Err error }

func (e *InvalidError) Error() string { return e.Err.Error() }
func (e *InvalidError) Unwrap() error { return e.Err }

// Widths of the columns.
const (
	maxName     = 255       // characters
	maxKeywords = 16 * 1024 // octets, all together
)

// Keywords splits a list that is separated by semicolons, commas or line ends.
func Keywords(s string) []string {
	var out []string
	for _, k := range strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(";,\n\r；、，", r) }) {
		if k = oneLine(k); k != "" && !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	return out
}

// oneLine is a text as it is kept: what is written alike is alike, however its characters are put together.
func oneLine(s string) string { return strings.Join(strings.Fields(norm.NFC.String(s)), " ") }

// identity is what an address is known by: neither case nor how its domain is written (xn--) makes another one.
func identity(email string) string {
	if a, err := address.Parse(email); err == nil {
		email = a.Wire
	}
	return strings.ToLower(email)
}

// normalize tidies a contact up and reports everything that is wrong with it.
func (c *Contact) normalize() error {
	c.Name, c.Email = oneLine(c.Name), strings.TrimSpace(c.Email)
	c.Keywords = Keywords(strings.Join(c.Keywords, ";"))
	var errs []error
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
		errs = append(errs, fmt.Errorf("the keywords have %d octets, %d are possible", n, maxKeywords))
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

// same reports whether two contacts differ in nothing but their IDs.
func (c Contact) same(o Contact) bool {
	return c.Name == o.Name && c.Email == o.Email && c.Active == o.Active && slices.Equal(c.Keywords, o.Keywords)
}

// Directory is what routes look for: the active ones of all contacts. What somebody has written into the database that
// no command would, an address that is none or a name that is too short, does no harm: it is left out, and told of.
func Directory(all []Contact) (*route.Directory, []error) {
	var list []route.Contact
	var faults []error
	for _, c := range all {
		if !c.Active {
			continue
		}
		broken := c
		if err := broken.normalize(); err != nil {
			faults = append(faults, fmt.Errorf("contact %d (%s): %w", c.ID, c.Name, err))
			if address.Check(broken.Email) != nil {
				broken.Email = ""
			}
		}
		list = append(list, route.Contact{Name: broken.Name, Email: broken.Email, Keywords: broken.Keywords})
	}
	return route.NewDirectory(list), faults
}
