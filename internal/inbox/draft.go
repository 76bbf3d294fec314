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
	in, err := complete(in)
	if err != nil {
		return Inbox{}, "", err
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

// complete sets the defaults of a new inbox, and has all its folders watched.
func complete(in Inbox) (Inbox, error) {
	var names []string
	for _, f := range in.Folders {
		names = append(names, f.Name)
	}
	address, bad := ParseAddress(in.Address)
	if err := errors.Join(bad, in.normalize(), in.watch(names)); err != nil {
		return Inbox{}, &InvalidError{err}
	}
	in.Address, in.Active = address, true
	return in, nil
}
