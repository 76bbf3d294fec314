package inbox

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"gorm.io/gorm"

	"postrider/internal/secret"
)

// Password returns the password for the login: the current value of env:NAME or file:PATH, or the
// stored password decrypted. Its errors name the inbox and the fix.
func (s *Store) Password(_ context.Context, in Inbox) (string, error) {
	stored := string(in.Password)
	switch {
	case secret.IsRef(stored):
		password, err := secret.Resolve(stored)
		if err != nil {
			return "", fmt.Errorf("password of inbox %s: %w", in.Address, err)
		}
		return password, nil
	case strings.HasPrefix(stored, sealedPrefix):
		return s.sealer.Unseal(in.Address, stored)
	}
	return "", fmt.Errorf("the stored password of inbox %s is not encrypted; "+
		"set it again with `postrider inbox set %s --password-stdin`", in.Address, in.Address)
}

// PasswordFrom says where the password comes from: env:NAME, file:PATH, or encrypted.
func (in Inbox) PasswordFrom() string {
	if stored := string(in.Password); secret.IsRef(stored) {
		return stored
	}
	return "encrypted"
}

// storable returns the text that the database stores for a password.
func (s *Store) storable(ctx context.Context, address, password string) (secret.String, error) {
	if password == "" {
		return "", errors.New("the password is empty")
	}
	if secret.IsRef(password) {
		return secret.String(password), nil
	}
	var sealed int64
	err := s.db.View(ctx, func(tx *gorm.DB) error {
		return tx.Raw(sqlCountSealedElsewhere, address).Scan(&sealed).Error
	})
	if err != nil {
		return "", fmt.Errorf("count encrypted passwords: %w", err)
	}
	// The count comes before the check of the key file. A process that stores the first password in
	// the meantime has then already created the file.
	if sealed > 0 {
		if err := s.sealer.requireKey(); err != nil {
			return "", err
		}
	}
	box, err := s.sealer.Seal(address, password)
	return secret.String(box), err
}
