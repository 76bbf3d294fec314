package web

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"

	"postrider/internal/secret"
	"postrider/internal/text"
)

// users are those of a file. It is read again when it changes. While it cannot be used nobody can
// log in, and no session is valid.
type users struct {
	path string

	mu     sync.Mutex
	time   time.Time
	size   int64
	hashes map[string][]byte // by name
	err    error
}

func openUsers(path string) (*users, error) {
	u := &users{path: path}
	u.refresh()
	return u, u.err
}

// refresh reads the file if it has changed.
func (u *users) refresh() {
	info, err := os.Stat(u.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("there is no file %s; make it with `htpasswd -B -c %[1]s NAME`", u.path)
	}
	if err == nil {
		if others := secret.CheckWriters(u.path, info, "log in"); others != nil {
			err = fmt.Errorf("%s is not used: %w", u.path, others)
		}
	}
	if err == nil && info.ModTime().Equal(u.time) && info.Size() == u.size {
		return
	}
	var content []byte
	if err == nil {
		content, err = os.ReadFile(u.path)
	}
	if err != nil { // it may pass
		u.hashes, u.err, u.time = nil, err, time.Time{}
		return
	}
	u.hashes, u.err = parseUsers(u.path, content)
	u.time, u.size = info.ModTime(), info.Size()
}

// slowest is the hash that takes longest to compare.
func (u *users) slowest() (hash []byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	most := -1
	for _, other := range u.hashes {
		if cost, err := bcrypt.Cost(other); err == nil && cost > most {
			most, hash = cost, other
		}
	}
	return hash
}

// hash is the password of a user, encrypted.
func (u *users) hash(name string) ([]byte, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.refresh()
	return u.hashes[name], u.err
}

// parseUsers reads lines with a name, a colon and what bcrypt makes of the password.
func parseUsers(path string, content []byte) (map[string][]byte, error) {
	out, n := map[string][]byte{}, 0
	for line := range bytes.Lines(content) {
		n++
		line := strings.TrimSpace(string(line))
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, hash, ok := strings.Cut(line, ":")
		if !ok || !validName(name) {
			return nil, fmt.Errorf("line %d of %s is not NAME:PASSWORD; make it with `htpasswd -B %s NAME`",
				n, path, text.Arg(path))
		}
		if _, err := bcrypt.Cost([]byte(hash)); err != nil {
			return nil, fmt.Errorf("line %d of %s: the password of %s is not encrypted with bcrypt; "+
				"set it again with `htpasswd -B %s %s`", n, path, name, text.Arg(path), text.Arg(name))
		}
		if out[name] != nil {
			return nil, fmt.Errorf("line %d of %s: there is another %s above; remove one of them", n, path, name)
		}
		out[name] = []byte(hash)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("there is no user in %s; add one with `htpasswd -B %[1]s NAME`", path)
	}
	return out, nil
}
