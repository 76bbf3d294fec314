package inbox

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"gorm.io/gorm"

	"postrider/internal/secret"
)

// Password returns the password to log in with: what env:NAME or file:PATH holds now, or the sealed one opened. Its
// errors name the inbox and the mend.
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
	return "", fmt.Errorf("the password of inbox %s is not stored sealed; set it again with `postrider inbox set %s --password-stdin`", in.Address, in.Address)
}

// PasswordFrom says where the password comes from, without telling it: env:NAME, file:PATH, or sealed.
func (in Inbox) PasswordFrom() string {
	if stored := string(in.Password); secret.IsRef(stored) {
		return stored
	}
	return "sealed"
}

// storable is what the database keeps of a password.
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
		return "", fmt.Errorf("look for sealed passwords: %w", err)
	}
	// Counted before the key file is looked at: a process that seals the first password meanwhile has made the file.
	if sealed > 0 {
		if err := s.sealer.requireKey(); err != nil {
			return "", err
		}
	}
	box, err := s.sealer.Seal(address, password)
	return secret.String(box), err
}
