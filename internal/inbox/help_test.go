package inbox

import (
	"errors"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"
)

func (b bench) help(h Help, want bool) {
	b.t.Helper()
	if got, err := b.AcquireHelp(b.ctx, h, time.Minute); err != nil || got != want {
		b.t.Errorf("acquire %+v: %v, %v; want %v", h, got, err, want)
	}
}

// helpers are those in the table, whether their lease has run out or not.
func (b bench) helpers() (hosts []string) {
	b.t.Helper()
	err := b.db.View(b.ctx, func(tx *gorm.DB) error {
		hosts = nil
		return tx.Raw(`SELECT host FROM monitored_emails_helpers ORDER BY host`).Scan(&hosts).Error
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return hosts
}

// ago makes all leases of helpers run out so long ago, by the database's clock.
func (b bench) ago(d time.Duration) {
	b.t.Helper()
	now, err := b.clock(b.ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	b.exec(`UPDATE monitored_emails_helpers SET until = ?`, now.Add(-d).UnixMicro())
}

func TestHelp(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		id, other := b.add("desk@firm.example").ID, b.add("court@firm.example").ID
		first, second := Help{id, "a", "a:1"}, Help{id, "a", "a:2"}
		b.help(first, true)
		b.help(first, true)
		b.help(second, false)
		b.help(Help{id, "b", "b:1"}, true)
		b.help(Help{other, "a", "a:2"}, true)
		if err := b.RenewHelp(b.ctx, first, time.Minute); err != nil {
			t.Errorf("renew while held: %v", err)
		}
		if err := b.RenewHelp(b.ctx, second, time.Minute); !errors.Is(err, ErrHelpLost) {
			t.Errorf("renew by one who does not hold it: %v, want ErrHelpLost", err)
		}

		b.exec(`UPDATE monitored_emails_helpers SET until = 1 WHERE inbox_id = ?`, id)
		if err := b.RenewHelp(b.ctx, first, time.Minute); err != nil {
			t.Errorf("renew after it ran out, with nobody else there: %v", err)
		}
		b.ago(time.Hour)
		b.help(second, true)
		if err := b.RenewHelp(b.ctx, Help{id, "b", "b:1"}, time.Minute); err != nil {
			t.Errorf("renew by one who was late by an hour, when another host has looked: %v", err)
		}
		b.ago(25 * time.Hour)
		b.help(second, true)
		if got := b.helpers(); len(got) != 2 { // that of b went, too
			t.Errorf("the leases of %v are there, want those of host a alone", got)
		}
		if err := b.RenewHelp(b.ctx, first, time.Minute); !errors.Is(err, ErrHelpLost) {
			t.Errorf("renew after it was taken over: %v, want ErrHelpLost", err)
		}
		if err := b.ReleaseHelp(b.ctx, first); err != nil {
			t.Errorf("release of what is another's: %v", err)
		}
		b.help(first, false)
		for range 2 { // the answer to the first may be lost
			if err := b.ReleaseHelp(b.ctx, second); err != nil {
				t.Errorf("release: %v", err)
			}
		}
		b.help(first, true)
		b.remove("desk@firm.example")
		if err := b.RenewHelp(b.ctx, first, time.Minute); !errors.Is(err, ErrHelpLost) {
			t.Errorf("renew for an inbox that was removed: %v, want ErrHelpLost", err)
		}
	})
}

func TestHelpGoesToOneRunOfAHost(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		id := b.add("desk@firm.example").ID
		var wg sync.WaitGroup
		got := make(chan string, 8)
		for _, run := range []string{"1", "2", "3", "4", "5", "6", "7", "8"} {
			wg.Go(func() {
				ok, err := b.AcquireHelp(b.ctx, Help{id, "a", run}, time.Minute)
				if err != nil {
					t.Errorf("run %s: %v", run, err)
				}
				if ok {
					got <- run
				}
			})
		}
		wg.Wait()
		if len(got) != 1 {
			t.Errorf("%d runs of one host got the lease, want 1", len(got))
		}
	})
}
