package inbox

import (
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/outbox"
)

// Follow has it noted when an outage begins or ends, and when a login is needed, each in its own
// transaction (package outbox). Call it before anything else.
func (s *Store) Follow(kinds ...outbox.Kind) {
	s.follows = map[outbox.Kind]bool{}
	for _, k := range kinds {
		s.follows[k] = true
	}
}

// trouble is what an inbox suffers from: InboxUnreachable, NeedsLogin, or InboxOK.
type trouble struct {
	id   int64
	kind outbox.Kind
}

func (t *trouble) into() []any { return []any{&t.id, &t.kind} }

// troubles are those of the inboxes, if they are followed.
func (s *Store) troubles(tx *gorm.DB, batch []finish) (map[int64]outbox.Kind, error) {
	if !s.follows[outbox.InboxUnreachable] && !s.follows[outbox.NeedsLogin] && !s.follows[outbox.InboxOK] {
		return nil, nil
	}
	ids := make([]int64, len(batch))
	for i, f := range batch {
		ids[i] = f.by.InboxID
	}
	rows, err := db.Query(tx, (*trouble).into, sqlTroubles, ids)
	out := map[int64]outbox.Kind{}
	for _, r := range rows {
		out[r.id] = r.kind
	}
	return out, err
}

// noteTroubles notes what is not as it was before.
func (s *Store) noteTroubles(tx *gorm.DB, now time.Time, batch []finish, before map[int64]outbox.Kind) error {
	if before == nil {
		return nil
	}
	after, err := s.troubles(tx, batch)
	if err != nil {
		return err
	}
	var os []outbox.Occurrence
	for _, f := range batch {
		id := f.by.InboxID
		if kind := after[id]; kind != before[id] && s.follows[kind] {
			os = append(os, outbox.Occurrence{Kind: kind, InboxID: id})
		}
	}
	return outbox.Note(tx, now, os)
}
