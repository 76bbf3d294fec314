package inbox

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/crypto/chacha20poly1305"

	"postrider/internal/secret"
	"postrider/internal/text"
)

// sealedPrefix marks an encrypted password or reference. The number is the version of the format.
const sealedPrefix = "v1:"

const keyFileComment = "# postrider encrypts the passwords of inboxes with this key. " +
	"Back it up separately from the database.\n"

// ErrNoKey says that the key file is missing.
var ErrNoKey = errors.New("the key file is missing")

// Sealer encrypts passwords, and references to passwords, with the key in a file. It uses
// XChaCha20-Poly1305 with what decides where the password is sent as associated data: whoever
// changes that in the database, or copies a password to another inbox, makes it undecryptable. The
// first Seal creates the file. An operator may replace the key meanwhile.
type Sealer struct {
	path string
	mu   sync.Mutex
	key  []byte // the last one that was of use; nil until the file was read
}

// OpenSealer returns the Sealer for a key file. It does not read the file.
func OpenSealer(path string) *Sealer { return &Sealer{path: path} }

// Seal encrypts a password or a reference for the address of an inbox and what binding has. It
// creates the key file, mode 0600, when there is none.
func (s *Sealer) Seal(in Inbox, password string) (string, error) {
	return s.Encrypt(password, binding(in))
}

// Unseal decrypts what Seal encrypted for the same address and settings. For anything else its
// error names the inbox, the cause, and the command that fixes it.
func (s *Sealer) Unseal(in Inbox) (string, error) {
	password, err := s.Decrypt(string(in.Password), binding(in))
	switch {
	case errors.Is(err, errNotSealed), errors.Is(err, errDamaged):
		return "", notUsed(in, err.Error())
	case errors.Is(err, ErrBinding):
		bound := text.Line(in.Server() + ", " + in.Username + in.trusts())
		return "", notUsed(in, fmt.Sprintf("host, port, security, username or certificates of the inbox (now %s) "+
			"were changed by another program, or the key in %s is not the one that encrypted it; "+
			"if that file was replaced, restore the old one", bound, s.path))
	}
	return password, err
}

// trusts is what the inbox has of its own about certificates, for an error.
func (in Inbox) trusts() string {
	var out string
	for _, s := range []struct{ name, value string }{
		{"CA file", in.CAFile}, {"TLS fingerprint", in.TLSFingerprint}, {"client certificate", in.ClientCert},
	} {
		if s.value != "" {
			out += ", " + s.name + " " + s.value
		}
	}
	return out
}

// binding is what the password of an inbox is bound to.
func binding(in Inbox) []byte {
	return Bind("postrider inbox", in.Address, in.Host, strconv.Itoa(in.Port), string(in.Security), in.Username,
		in.CAFile, in.TLSFingerprint, in.ClientCert)
}

// notUsed is for a stored password that is not what postrider stored for this inbox.
func notUsed(in Inbox, problem string) error {
	return fmt.Errorf("the password of inbox %s is not used: %s; to set it again, give all that decides "+
		"where it is sent: `%s`", in.Address, problem, setAgain(in.Address))
}

// setAgain is the command that replaces all that a password is bound to.
func setAgain(address string) string {
	return "postrider inbox set " + text.Arg(address) +
		" --host HOST --port N --security tls --username NAME --password-stdin"
}

// requireKey fails when there is no key file. It is called when encrypted passwords or tokens
// exist: a new key could not decrypt them.
func (s *Sealer) requireKey() error {
	_, err := s.readKey()
	if errors.Is(err, ErrNoKey) {
		return s.lostKey()
	}
	return err
}

func (s *Sealer) lostKey() error {
	return fmt.Errorf("%w: passwords of inboxes and tokens of OAuth2 are encrypted with the key that was in %s; "+
		"restore it from a backup or correct secrets.key_file; if it is lost, "+
		"create a new key with `(umask 077; head -c 32 /dev/urandom | base64 > %s)` "+
		"and set the password of each inbox again with `%s`; `postrider check` says where a login is needed, too",
		ErrNoKey, s.path, text.Arg(s.path), setAgain("ADDR"))
}

// readKey returns the key that is known, or reads the key file.
func (s *Sealer) readKey() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key != nil {
		return s.key, nil
	}
	key, err := s.readFile()
	s.key = key
	return key, err
}

// keep makes a key the one that is known.
func (s *Sealer) keep(key []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key = key
}

// readFile reads the key file: base64 of 32 octets; lines that begin with # are comments.
func (s *Sealer) readFile() ([]byte, error) {
	text, err := secret.ReadPrivateFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoKey
	}
	if err != nil {
		return nil, fmt.Errorf("read the key file: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(line)
		if err != nil || len(key) != chacha20poly1305.KeySize {
			break
		}
		return key, nil
	}
	return nil, fmt.Errorf("key file %s does not hold a key (base64 of %d octets); "+
		"restore it from a backup, or correct secrets.key_file", s.path, chacha20poly1305.KeySize)
}

// createKey creates the key file unless it exists. It writes a temporary file and links it to the
// name, because a link, unlike a rename, never replaces a file. When several processes do this at
// once, one wins, and all read its key.
func (s *Sealer) createKey() error {
	key := make([]byte, chacha20poly1305.KeySize)
	if _, err := rand.Read(key); err != nil {
		return err
	}
	dir := filepath.Dir(s.path)
	f, err := os.CreateTemp(dir, ".postrider-key-*") // mode 0600
	if err != nil {
		return fmt.Errorf("create the key file %s: %w; "+
			"make sure that this user can write to the directory, or change secrets.key_file", s.path, err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	secret.GiveToDirectoryOwner(f)
	_, err = f.WriteString(keyFileComment + base64.StdEncoding.EncodeToString(key) + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Link(f.Name(), s.path)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("create the key file %s: %w", s.path, err)
	}
	syncDir(dir)
	return nil
}

// syncDir makes the name of the key file durable, so that a crash cannot lose the key of a stored
// password. It does nothing where a directory cannot be synced (Windows).
func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}
