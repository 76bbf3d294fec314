package outbox

import (
	"path/filepath"
	"strings"
	"testing"

	"gorm.io/gorm"

	"postrider/internal/db"
)

// TestPlanOfDue: on SQLite, to find what is due looks at the other entries of the same task only,
// and not at all actions that are planned for later.
func TestPlanOfDue(t *testing.T) {
	b := newBench(t, db.Config{Driver: db.SQLite, Path: filepath.Join(t.TempDir(), "p.db")})
	b.must(b.db.View(t.Context(), func(tx *gorm.DB) error {
		type step struct {
			id, parent, unused int
			detail             string
		}
		plan, err := db.Query(tx, func(s *step) []any { return []any{&s.id, &s.parent, &s.unused, &s.detail} },
			"EXPLAIN QUERY PLAN "+sqlDue, Server, 1, 0, 0, 1, 50)
		for _, s := range plan {
			predecessors := strings.Contains(s.detail, " p ")
			if predecessors && !strings.Contains(s.detail, "(task_id=? AND inbox_id=? AND destination=?") {
				t.Errorf("the plan has %q", s.detail)
			}
		}
		if len(plan) == 0 {
			t.Error("there is no plan")
		}
		return err
	}))
}
