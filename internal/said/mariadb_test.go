package said

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"postrider/internal/db"
	"postrider/internal/testserver"
)

func TestMain(m *testing.M) { testserver.Main(m) }

// TestOneSaysOnAServer: where transactions run side by side, one of many processes says a change.
func TestOneSaysOnAServer(t *testing.T) {
	d, err := db.OpenAnySchema(t.Context(), db.Config{Driver: db.MySQL, DSN: testserver.MariaDB(t).NewDatabase(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	if _, err := d.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	began := []State{{Subject: "relay", Holds: true}, {Subject: "inbox:a", Holds: true}}
	if n := sayAtOnce(t, d, began); n != 2 {
		t.Errorf("at the beginning %d lines are said, want 2", n)
	}
	if n := sayAtOnce(t, d, []State{{Subject: "relay"}, {Subject: "inbox:a"}}); n != 2 {
		t.Errorf("at the end %d lines are said, want 2", n)
	}
}

// sayAtOnce has eight processes say changes, and returns how many they say together.
func sayAtOnce(t *testing.T, d *db.DB, states []State) int64 {
	t.Helper()
	var said atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			changes, err := New(d, time.Hour).Changes(t.Context(), states)
			if err != nil {
				t.Error(err)
			}
			said.Add(int64(len(changes)))
		})
	}
	all.Wait()
	return said.Load()
}
