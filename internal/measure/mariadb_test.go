package measure

import (
	"sync"
	"testing"
	"time"

	"postrider/internal/db"
	"postrider/internal/testserver"
)

func TestMain(m *testing.M) { testserver.Main(m) }

// TestManyProcesses: on a server, sums of many processes are added, whoever is first.
func TestManyProcesses(t *testing.T) {
	d, err := db.OpenAnySchema(t.Context(), db.Config{Driver: db.MySQL, DSN: testserver.MariaDB(t).NewDatabase(t)})
	check(t, err)
	t.Cleanup(func() { _ = d.Close() })
	_, err = d.Migrate(t.Context())
	check(t, err)
	addInbox(t, d, 7)
	s, yes := New(d), true
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			m := NewMeter()
			m.attempted(7, Deliveries{"delivered", "2xx", 3})
			m.leaseLost(7)
			m.leaseLost(99) // there is no such inbox
			m.Certificate(7, noon)
			m.tookUntilDelivered(3 * time.Second)
			m.PassEnded(1500*time.Millisecond, &yes)
			if err := s.Keep(t.Context(), m); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	n := read(t, s)
	if len(n.Deliveries[7]) != 1 || n.Deliveries[7][0].Count != 24 || n.LeasesLost[7] != 8 || len(n.LeasesLost) != 1 ||
		n.PassSeconds.Count() != 8 || n.PassSeconds.Sum != 12 || n.DeliverySeconds.Sum != 24 ||
		!n.Certificates[7].Equal(noon) || n.LastPassAt == nil {
		t.Errorf("the sums are %+v, want those of 8 processes", n)
	}
}
