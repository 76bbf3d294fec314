package contacts

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"gorm.io/gorm"

	"postrider/internal/db"
)

// TestImportsAtOnce checks that several imports at the same time store each contact once.
func TestImportsAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, ctx context.Context, s *Store) {
		entries := read(t, "name,email\nAnn,ann@firm.example\n王小明,\nBo,bo@exämple.example\n")
		var imports sync.WaitGroup
		for range 8 {
			imports.Go(func() {
				if _, err := s.Put(ctx, entries); err != nil {
					t.Error(err)
				}
			})
		}
		imports.Wait()
		if got, want := all(ctx, t, s), "+ Ann <ann@firm.example>\n+ 王小明\n+ Bo <bo@exämple.example>"; got != want {
			t.Errorf("the directory is\n%s\nwant\n%s", got, want)
		}
	})
}

// TestOtherImportFirst checks that an import keeps what another process stored after it read the
// contacts.
func TestOtherImportFirst(t *testing.T) {
	onEach(t, func(t *testing.T, ctx context.Context, s *Store) {
		_, err := s.Put(ctx, read(t, "name\nAnn\n"))
		check(t, err)
		changes, err := s.Plan(ctx, read(t, "name,email\nAnn,ann@firm.example\n"))
		check(t, err)
		_, err = s.Put(ctx, read(t, "name,keywords\nAnn,file 4711\n"))
		check(t, err)
		err = s.db.Tx(ctx, func(tx *gorm.DB) error { return put(tx, changes[0]) })
		if !errors.Is(err, db.ErrChanged) {
			t.Errorf("what was planned before another import: %v, want %v", err, db.ErrChanged)
		}
		if got, want := all(ctx, t, s), "+ Ann: file 4711"; got != want {
			t.Errorf("the directory is\n%s\nwant\n%s", got, want)
		}
	})
}

// TestEditedByHand checks that the error names the fix when an edited row is in the way.
func TestEditedByHand(t *testing.T) {
	onEach(t, func(t *testing.T, ctx context.Context, s *Store) {
		entries := read(t, "name,email\nAnn,ann@firm.example\n")
		run := func(statement string) {
			t.Helper()
			check(t, s.db.Tx(ctx, func(tx *gorm.DB) error { return db.Run(tx, statement) }))
		}
		_, err := s.Put(ctx, entries)
		check(t, err)
		run("UPDATE contacts SET email = 'ann2@firm.example'")
		_, err = s.Put(ctx, entries)
		_, fix, _ := strings.Cut(fmt.Sprint(err), "to fix it: ")
		if fix == "" {
			t.Fatalf("Put: %v, want an error that names the fix", err)
		}
		run(fix)
		_, err = s.Put(ctx, entries)
		check(t, err)
	})
}

func TestFindAndRemove(t *testing.T) {
	onEach(t, func(t *testing.T, ctx context.Context, s *Store) {
		check(t, s.db.Tx(ctx, func(tx *gorm.DB) error {
			return db.Run(tx, `INSERT INTO contacts (id, name, email, keywords, is_active) VALUES
				(20, 'Ann', 'ann@firm.example', '', 1), (21, 'Ann', 'ann2@firm.example', '', 1),
				(22, 'Bert', '', '', 1), (23, '21', '', '', 1), (24, 'dan@firm.example', '', '', 1),
				(25, 'Dan', 'dan@firm.example', '', 1)`)
		}))
		for who, want := range map[string]int64{
			"ANN@firm.example": 20, "20": 20, "ann2@firm.example": 21, "Bert": 22, "23": 23,
		} {
			c, err := s.Find(ctx, who)
			if err != nil || c.ID != want {
				t.Errorf("Find(%q) = %v, %v; want the contact %d", who, c, err, want)
			}
		}
		const (
			own  = " matches 2 contacts; name one by an ID or address of its own: "
			none = "there is no contact"
		)
		for who, want := range map[string]string{
			"Ann":              own + "20 (Ann <ann@firm.example>), 21 (Ann <ann2@firm.example>)",
			"21":               own + "21 (Ann <ann2@firm.example>), 23 (21)",
			"dan@firm.example": own + "24 (dan@firm.example), 25 (Dan <dan@firm.example>)",
			"":                 none, "Cyd": none, "+20": none, "020": none,
		} {
			if _, err := s.Find(ctx, who); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Find(%q): the error is %v, want one that says %q", who, err, want)
			}
		}
		check(t, s.Remove(ctx, 21, 24))
		const want = "+ Ann <ann@firm.example>\n+ Bert\n+ 21\n+ Dan <dan@firm.example>"
		if got := all(ctx, t, s); got != want {
			t.Errorf("after Remove the directory is\n%s\nwant\n%s", got, want)
		}
	})
}
