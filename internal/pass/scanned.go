package pass

import (
	"maps"
	"slices"
	"sync"

	"postrider/internal/imapsrc"
)

// scanned are the folders of a session as they were when the last scan opened them. Only folders
// that it read to their end are among them.
type scanned struct {
	mu      sync.Mutex
	folders map[string]imapsrc.Folder
}

func (s *scanned) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.folders)
}

func (s *scanned) add(name string, as imapsrc.Folder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.folders[name] = as
}

// watched is the folder that IDLE watches, the INBOX if it was scanned, and the others. The folder
// is empty when none was scanned.
func (s *scanned) watched() (folder string, others []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := slices.Sorted(maps.Keys(s.folders))
	if len(names) == 0 {
		return "", nil
	}
	at := max(slices.Index(names, "INBOX"), 0)
	folder = names[at]
	return folder, slices.Delete(names, at, at+1)
}

// differs reports whether a folder may have messages that the last scan did not see. Of a folder
// that was not scanned it knows nothing.
func (s *scanned) differs(name string, now imapsrc.Folder) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, ok := s.folders[name]
	switch {
	case !ok:
		return false
	case was.UIDNext == 0 || now.UIDNext == 0: // the server does not say
		return now.UIDValidity != was.UIDValidity || now.Messages > was.Messages
	}
	return now.UIDValidity != was.UIDValidity || now.UIDNext != was.UIDNext
}

// has reports whether all of the folders were scanned.
func (s *scanned) has(names []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !slices.ContainsFunc(names, func(name string) bool {
		_, ok := s.folders[name]
		return !ok
	})
}
