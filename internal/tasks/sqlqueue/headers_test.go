package sqlqueue

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"postrider/internal/outbox"
	"postrider/internal/tasks"
)

// TestHeaders: the header of a message is kept while its task may have events, and goes with it.
func TestHeaders(t *testing.T) {
	onEach(t, func(t *testing.T, r registry) {
		q := New(r.DB)
		q.Follow(func() {}, outbox.Registered)
		inboxID := r.inbox(t, "desk@example.com")
		page := tasks.Page{
			InboxID: inboxID, FolderID: r.folder(t, inboxID, "INBOX", 1), Epoch: 1, Cursor: 40, Entries: entries(1, 40),
		}
		field := func(i int) tasks.HeaderField { return tasks.HeaderField{Name: "x-n", Value: fmt.Sprint("ü", i)} }
		for i := range page.Entries[1:] {
			page.Entries[i+1].Header = &tasks.Header{Fields: []tasks.HeaderField{field(i + 1)}, Cut: i == 38}
		}
		var ids []int64
		for _, reg := range register(t, q, page, make([]tasks.Fate, 40)...) {
			ids = append(ids, reg.TaskID)
		}
		kept := func(want ...int64) {
			t.Helper()
			got, err := q.Headers(t.Context(), ids)
			if err != nil || !slices.Equal(slices.Sorted(maps.Keys(got)), want) {
				t.Errorf("kept are %v, %v; want %v", got, err, want)
			}
			for id, h := range got {
				i := slices.Index(ids, id)
				if len(h.Fields) != 1 || h.Fields[0] != field(i) || h.Cut != (i == 39) {
					t.Errorf("that of entry %d is %+v", i, h)
				}
			}
		}
		expire := func(want int) {
			t.Helper()
			if n, err := q.ExpireHeaders(t.Context(), time.Hour, 2); err != nil || n != want {
				t.Errorf("%d were deleted, %v; want %d", n, err, want)
			}
		}
		kept(ids[1:]...)
		if _, err := q.Skip(t.Context(), tasks.By{Who: "ann"}, ids[1:6]...); err != nil {
			t.Fatal(err)
		}
		r.exec(t, `DELETE FROM monitored_occurrences WHERE task_id <> ?`, ids[5])
		expire(0)
		r.age(t, 2*time.Hour)
		expire(2)
		expire(2)
		expire(0) // one has an occurrence, and the others go on
		kept(ids[5:]...)
		if n, err := q.Purge(t.Context(), tasks.By{Who: "ann"}, ids[5]); err != nil || n != 1 {
			t.Fatal(n, err)
		}
		kept(ids[6:]...)
		page.Entries = entries(1, 40)
		register(t, q, page, slices.Repeat([]tasks.Fate{tasks.Known}, 40)...)
		kept(ids[6:]...)
		r.exec(t, `UPDATE monitored_emails_headers SET header = '{' WHERE task_id = ?`, ids[6])
		kept(ids[7:]...) // events go out without what cannot be read
	})
}
