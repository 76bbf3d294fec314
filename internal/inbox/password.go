package inbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"gorm.io/gorm"

	"postrider/internal/secret"
)

// Password returns the password for the login at the inbox's server: the stored password
// decrypted, or the current value of env:NAME or file:PATH, or what command:... prints. Its errors
// name the inbox and the fix.
func (s *Store) Password(ctx context.Context, in Inbox) (string, error) {
	password, err := s.sealer.Unseal(in)
	if err != nil || !secret.IsRef(password) {
		return password, err
	}
	return s.resolve(ctx, in, password)
}

// resolve asks at the place of a password.
func (s *Store) resolve(ctx context.Context, in Inbox, ref string) (password string, err error) {
	if secret.IsCommand(ref) {
		password, err = s.Commands.Resolve(ctx, ref)
	} else {
		password, err = s.files.Resolve(ref)
	}
	if err != nil {
		return "", fmt.Errorf("password of inbox %s: %w", in.Address, err)
	}
	if err := secret.OneLine(password); err != nil {
		s.Commands.Forget(ref) // it may print another one next time
		return "", fmt.Errorf("the password of inbox %s %w", in.Address, err)
	}
	return password, nil
}

// CheckKey fails when the key cannot be read. It is for a database with an inbox: then no password
// can be decrypted.
func (s *Store) CheckKey() error { return s.sealer.requireKey() }

// Refused is called when the server has refused the password. If a program printed it, the next
// login asks the program again: the password may have been changed since.
func (s *Store) Refused(in Inbox) {
	if ref, err := s.sealer.Unseal(in); err == nil {
		s.Commands.Forget(ref)
	}
}

// OAuth is the name of the application that the inbox logs in with; empty when it has a password.
func (s *Store) OAuth(in Inbox) (string, error) {
	password, err := s.sealer.Unseal(in)
	name, ok := strings.CutPrefix(password, secret.OAuth)
	if !ok {
		name = ""
	}
	return name, err
}

// PasswordFrom says where the password comes from: env:NAME, file:PATH, command:PROGRAM (without
// its arguments), oauth:NAME, encrypted (in the database), or unusable when it cannot be decrypted;
// Password says why.
func (s *Store) PasswordFrom(in Inbox) string {
	password, err := s.sealer.Unseal(in)
	if err != nil {
		return "unusable"
	}
	return source(password)
}

// Reference is PasswordFrom of a password that somebody else keeps; empty for others.
func (s *Store) Reference(in Inbox) string {
	if password, err := s.sealer.Unseal(in); err == nil && secret.IsRef(password) {
		return secret.Shown(password)
	}
	return ""
}

var errEmpty = errors.New("the password is empty")

// seal returns the text that the database stores for a password or a reference.
func (s *Store) seal(tx *gorm.DB, in Inbox, password string) (secret.String, error) {
	if err := s.usable(password); err != nil {
		return "", &InvalidError{err}
	}
	if err := s.requireKey(tx, in.Address); err != nil {
		return "", err
	}
	box, err := s.sealer.Seal(in, password)
	return secret.String(box), err
}

// usable returns an error for a password, or a reference, that can never work.
func (s *Store) usable(password string) error {
	if password == "" {
		return errEmpty
	}
	if err := secret.OneLine(password); err != nil && !secret.IsRef(password) {
		return fmt.Errorf("the password %w", err)
	}
	if secret.IsCommand(password) {
		return secret.CheckCommand(password)
	}
	return s.files.Check(password)
}

// next returns the password to encrypt when the row old becomes in; empty when what is stored stays
// valid. What is in the row is used only as far as it is what postrider stored: else the password
// would go where somebody else wants it.
func (s *Store) next(old Inbox, in *Inbox, c Changes) (string, error) {
	if c.Password == nil && bytes.Equal(binding(old), binding(*in)) {
		return "", nil
	}
	password, err := s.sealer.Unseal(old)
	if err != nil && !c.sayAll() {
		return "", &InvalidError{err}
	}
	if err != nil {
		in.forget(c)
	}
	set(&password, c.Password)
	if password == "" {
		return "", &InvalidError{errEmpty}
	}
	return password, nil
}

// forget removes what is in the row about certificates, unless it was given now: most inboxes have
// none of it, so a command that sets a password again need not name it.
func (in *Inbox) forget(c Changes) {
	for _, s := range []struct {
		field *string
		given *string
	}{{&in.CAFile, c.CAFile}, {&in.TLSFingerprint, c.TLSFingerprint}, {&in.ClientCert, c.ClientCert}} {
		if s.given == nil {
			*s.field = ""
		}
	}
}

// sayAll reports whether nothing that a password is bound to comes from the database, see forget.
func (c Changes) sayAll() bool {
	return c.Host != nil && c.Port != nil && c.Security != nil && c.Username != nil && c.Password != nil
}
