package inbox

import (
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"

	"golang.org/x/crypto/chacha20poly1305"
	"gorm.io/gorm"
)

var (
	errNotSealed = errors.New("the stored secret is not encrypted, so postrider did not store it")
	errDamaged   = errors.New("the stored secret is damaged")
	// ErrBinding says that a secret was encrypted for something else, or with another key.
	ErrBinding = errors.New("the stored secret was encrypted for other settings, or with another key")
)

// Bind encodes fields without ambiguity: each is preceded by its length, in four octets.
func Bind(fields ...string) []byte {
	var b []byte
	for _, field := range fields {
		b = binary.BigEndian.AppendUint32(b, uint32(len(field)))
		b = append(b, field...)
	}
	return b
}

// Encrypt is that of the Sealer. Without the key file it fails when something was encrypted before:
// a new key could not decrypt that.
func (s *Store) Encrypt(ctx context.Context, secret string, binding []byte) (string, error) {
	if err := s.db.View(ctx, func(tx *gorm.DB) error { return s.requireKey(tx, "") }); err != nil {
		return "", err
	}
	return s.sealer.Encrypt(secret, binding)
}

// Decrypt is that of the Sealer.
func (s *Store) Decrypt(sealed string, binding []byte) (string, error) {
	return s.sealer.Decrypt(sealed, binding)
}

// Encrypt encrypts a secret for whoever gives Decrypt the same binding. It creates the key file,
// mode 0600, when there is none.
func (s *Sealer) Encrypt(secret string, binding []byte) (string, error) {
	key, err := s.readFile()
	if err != nil {
		key, err = s.readKey() // the one that is known, while the file is gone
	}
	if errors.Is(err, ErrNoKey) {
		if err = s.createKey(); err == nil {
			key, err = s.readKey()
		}
	}
	if err != nil {
		return "", err
	}
	aead, err := chacha20poly1305.NewX(key)
	if err != nil {
		return "", err
	}
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(secret)+aead.Overhead())
	if _, err := rand.Read(nonce); err != nil {
		return "", err
	}
	return sealedPrefix + base64.StdEncoding.EncodeToString(aead.Seal(nonce, nonce, []byte(secret), binding)), nil
}

// Decrypt decrypts what Encrypt encrypted with the same binding; with another one the error is
// ErrBinding.
func (s *Sealer) Decrypt(sealed string, binding []byte) (string, error) {
	encoded, ok := strings.CutPrefix(sealed, sealedPrefix)
	if !ok {
		return "", errNotSealed
	}
	key, err := s.readKey()
	if errors.Is(err, ErrNoKey) {
		return "", s.lostKey()
	}
	if err != nil {
		return "", err
	}
	box, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(box) < chacha20poly1305.NonceSizeX {
		return "", errDamaged
	}
	secret, err := open(key, box, binding)
	if err != nil { // perhaps the key was replaced
		if key, err = s.readFile(); err == nil {
			secret, err = open(key, box, binding)
		}
		if err != nil {
			return "", ErrBinding
		}
		s.keep(key)
	}
	return string(secret), nil
}

// open decrypts a nonce and what was encrypted with it.
func open(key, box, binding []byte) ([]byte, error) {
	aead, err := chacha20poly1305.NewX(key)
	if err != nil {
		return nil, err
	}
	return aead.Open(nil, box[:chacha20poly1305.NonceSizeX], box[chacha20poly1305.NonceSizeX:], binding)
}

// Derive returns a key of 32 octets for another purpose, made from the key of the file. Without
// that file it is ErrNoKey: the file is made with the first password.
func (s *Sealer) Derive(purpose string) ([]byte, error) {
	key, err := s.readKey()
	if err != nil {
		return nil, err
	}
	return hkdf.Expand(sha256.New, key, "postrider "+purpose, 32)
}

// RandomKey is a key like one of Derive, for as long as somebody has it.
func RandomKey() ([]byte, error) {
	key := make([]byte, sha256.Size)
	_, err := rand.Read(key)
	return key, err
}
