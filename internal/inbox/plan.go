package inbox

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"postrider/internal/secret"
	"postrider/internal/text"
)

// Entry adds or changes one inbox. What it does not say has the default value in a new inbox, and
// stays as it is in an existing one.
type Entry struct {
	Where   string // such as inboxes.csv:7, the prefix of its errors
	Address string
	Set     Changes
	Active  *bool
	Fault   error // why the entry could not be read; nil when it could
}

// ImportOptions say what an import does.
type ImportOptions struct {
	Update bool  // existing inboxes may change
	Start  Start // of new inboxes whose entry says none; empty is StartLatest
	// KnowsApp fails for an OAuth2 application that is not configured; nil allows all.
	KnowsApp func(name string) error
	// Who and Detail are for the audit trail of an inbox that becomes active, as for Enable.
	Who, Detail string
}

// Planned is the effect of one entry.
type Planned struct {
	Where       string
	Old         *Inbox   // nil when the inbox is new
	New         Inbox    // Folders has those that are watched
	Differences []string // between Old and New; for people, without passwords
	entry       Entry
	changes     Changes // of an existing inbox: what the entry says, without what is so already
}

// Adds reports whether the inbox is new.
func (p Planned) Adds() bool { return p.Old == nil }

// String describes the effect on one line: + for a new inbox, ~ for a changed one. It is empty when
// nothing changes.
func (p Planned) String() string {
	switch {
	case p.Adds():
		line := fmt.Sprintf("+ %s: %s, username %s, password %s, folders %s, start %s", p.New.Address, p.New.Server(),
			p.New.Username, source(*p.entry.Set.Password), strings.Join(p.New.Watched(), "; "), p.New.Start)
		if !p.New.Active {
			line += " (not active)"
		}
		return line
	case len(p.Differences) > 0:
		return "~ " + p.New.Address + ": " + strings.Join(p.Differences, ", ")
	}
	return ""
}

// source is what may be shown of a password.
func source(password string) string {
	if secret.IsRef(password) {
		return secret.Shown(password)
	}
	return "encrypted"
}

// plan finds the inbox of each entry. It returns the faults of all entries together.
func (s *Store) plan(all []Inbox, entries []Entry, o ImportOptions) ([]Planned, error) {
	known := map[string]*Inbox{}
	for i := range all {
		known[all[i].Address] = &all[i]
	}
	first := map[string]string{} // Where of the first entry, by address
	plans := make([]Planned, 0, len(entries))
	var faults []error
	for _, e := range entries {
		p, err := s.planOne(known, e, o)
		address := fold(e.Address)
		if at, twice := first[address]; twice && address != "" {
			err = errors.Join(err, fmt.Errorf("%s appears before, in %s; remove one of the two", address, at))
		} else {
			first[address] = e.Where
		}
		if err != nil {
			faults = append(faults, text.At(e.Where, err))
		}
		plans = append(plans, p)
	}
	if len(faults) > 0 {
		return nil, &ImportError{errors.Join(faults...)}
	}
	return plans, nil
}

// ImportError holds everything that is wrong with the entries of an import, each on a line.
type ImportError struct{ Err error }

func (e *ImportError) Error() string { return e.Err.Error() }
func (e *ImportError) Unwrap() error { return e.Err }

func (s *Store) planOne(known map[string]*Inbox, e Entry, o ImportOptions) (Planned, error) {
	if e.Fault != nil && e.Address == "" {
		return Planned{}, e.Fault
	}
	p := Planned{Where: e.Where, Old: known[fold(e.Address)], entry: e}
	if p.Old != nil {
		return p, errors.Join(e.Fault, s.planChange(&p, o))
	}
	address, bad := ParseAddress(e.Address)
	p.New = Inbox{Address: e.Address, Active: true, Start: o.Start}
	p.New.apply(e.Set)
	set(&p.New.Active, e.Active)
	err := errors.Join(e.Fault, bad, p.New.normalize(), p.New.watch(e.Set.Folders), s.checkPassword(e.Set.Password, o))
	p.New.Address = address
	return p, err
}

// planChange plans for an inbox that exists.
func (s *Store) planChange(p *Planned, o ImportOptions) error {
	p.New = *p.Old
	p.New.apply(p.entry.Set)
	set(&p.New.Active, p.entry.Active)
	folders := p.entry.Set.Folders
	if folders == nil {
		folders = p.Old.Watched()
	}
	errs := []error{p.New.normalize(), p.New.watch(folders)}
	if p.entry.Set.Password != nil {
		errs = append(errs, s.checkPassword(p.entry.Set.Password, o))
	}
	if _, err := s.next(*p.Old, &p.New, p.entry.Set); err != nil {
		errs = append(errs, err)
	}
	p.Differences = s.differences(p)
	p.changes = s.effective(p)
	switch {
	case p.Old.Active && !p.New.Active:
		errs = append(errs, fmt.Errorf("inbox %s is active; to disable it: postrider inbox disable %s",
			p.Old.Address, text.Arg(p.Old.Address)))
	case len(p.Differences) > 0 && !o.Update:
		errs = append(errs, fmt.Errorf("inbox %s exists already with other settings (%s); to change it: --update",
			p.Old.Address, strings.Join(p.Differences, ", ")))
	}
	return errors.Join(errs...)
}

// watch makes these the folders that are watched.
func (in *Inbox) watch(names []string) error {
	names, err := folderNames(names)
	in.Folders = nil
	for _, name := range names {
		in.Folders = append(in.Folders, Folder{Name: name, Active: true})
	}
	return err
}

func (s *Store) differences(p *Planned) (found []string) {
	before, after := p.Old.fields(""), p.New.fields("")
	for i, column := range columns {
		switch {
		case column == "password" && s.newPassword(p):
			found = append(found, "the password changes")
		case before[i] != after[i]:
			found = append(found, fmt.Sprintf("%s %q becomes %q", column, before[i], after[i]))
		}
	}
	return found
}

// effective leaves out the password and the folders when they stay: each takes statements.
func (s *Store) effective(p *Planned) Changes {
	c := p.entry.Set
	if !s.newPassword(p) {
		c.Password = nil
	}
	if c.Folders = p.New.Watched(); sorted(c.Folders) == sorted(p.Old.Watched()) {
		c.Folders = nil
	}
	return c
}

func (s *Store) newPassword(p *Planned) bool {
	if p.entry.Set.Password == nil {
		return false
	}
	now, err := s.sealer.Unseal(*p.Old)
	return err != nil || now != *p.entry.Set.Password
}

func sorted(names []string) string { return joinFolders(slices.Sorted(slices.Values(names))) }

func (s *Store) checkPassword(password *string, o ImportOptions) error {
	p := cmp.Or(password, new(string))
	app, oauth := strings.CutPrefix(*p, secret.OAuth)
	switch {
	case *p == "":
		return errors.New("the password is missing; " +
			"write env:NAME, file:PATH, command:PROGRAM, oauth:NAME, or the password itself")
	case *p == "env:" || *p == "file:" || *p == secret.OAuth:
		return fmt.Errorf("the password is %s without a name; write env:NAME, file:PATH or oauth:NAME", *p)
	case oauth && o.KnowsApp != nil:
		return o.KnowsApp(app)
	}
	return s.usable(*p)
}
