package inbox

import (
	"context"
	"errors"
	"strings"

	"postrider/internal/secret"
)

// Draft is the inbox that Add would store, and the password that it would log in with, which is
// empty with OAuth2: so a login can be tried first. Nothing is stored. What Add refuses is an
// *InvalidError here, too.
func (s *Store) Draft(ctx context.Context, in Inbox, password string) (Inbox, string, error) {
	in, names, err := complete(in)
	if err != nil {
		return Inbox{}, "", err
	}
	in.Folders = nil
	for _, name := range names {
		in.Folders = append(in.Folders, Folder{Name: name, Active: true})
	}
	if password == "" {
		return Inbox{}, "", &InvalidError{errEmpty}
	}
	if err := s.usable(password); err != nil {
		return Inbox{}, "", &InvalidError{err}
	}
	switch {
	case !secret.IsRef(password):
		return in, password, nil
	case strings.HasPrefix(password, secret.OAuth):
		return in, "", nil
	}
	password, err = s.resolve(ctx, in, password)
	return in, password, err
}

// complete sets the defaults of a new inbox, and returns the names of its folders.
func complete(in Inbox) (Inbox, []string, error) {
	var names []string
	for _, f := range in.Folders {
		names = append(names, f.Name)
	}
	address, bad := ParseAddress(in.Address)
	names, err := folderNames(names)
	if err = errors.Join(bad, in.normalize(), err); err != nil {
		return Inbox{}, nil, &InvalidError{err}
	}
	in.Address, in.Active = address, true
	return in, names, nil
}
