package testserver

import (
	"os"
	"path/filepath"
	"testing"
)

// Backup takes a copy of all of the user's folders, which nobody may have open. restore puts it in
// the place of what is there then, as a backup is restored: UIDVALIDITY stays, and UIDs from after
// the copy are given out again.
func (s *IMAP) Backup(t testing.TB, user string) (restore func()) {
	t.Helper()
	box := filepath.Join(s.dir, "mail", user)
	copied := filepath.Join(t.TempDir(), "backup")
	s.copyTree(t, copied, box)
	return func() {
		t.Helper()
		if err := os.RemoveAll(box); err != nil {
			t.Fatalf("restore the folders of %s: %v", user, err)
		}
		s.copyTree(t, box, copied)
	}
}

// copyTree copies a Maildir with the times of its files, which Dovecot gives as INTERNALDATE.
func (s *IMAP) copyTree(t testing.TB, to, from string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		if entry.IsDir() {
			return s.mkdir(target)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if err := s.writeFile(target, data); err != nil {
			return err
		}
		return os.Chtimes(target, info.ModTime(), info.ModTime())
	})
	if err != nil {
		t.Fatalf("copy the folders in %s: %v", from, err)
	}
}
