package outbox

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"postrider/internal/db"
)

// TestStandings: the age of what waits goes by the database's clock. What has ended does not wait.
// A destination that is not named is no longer in the configuration.
func TestStandings(t *testing.T) {
	b := newBench(t, db.Config{Driver: db.SQLite, Path: filepath.Join(t.TempDir(), "p.db")})
	b.happen(Occurrence{Kind: Dead, TaskID: 1})
	b.expand(to("bus"))
	b.finish(Outcome{Claim: b.receive("bus")[0], Status: DeadLetter})
	b.ahead.Add(int64(time.Hour))
	b.happen(Occurrence{Kind: Dead, TaskID: 2})
	b.expand(to("crm", "bus"))
	b.ahead.Add(int64(2 * time.Hour))
	all, err := b.Standings(t.Context(), Destination{Name: "bus"}, Destination{Name: "idle"})
	b.must(err)
	for i, name := range []string{"bus", "crm", "idle"} {
		st, wants := all[i], name != "idle"
		if st.Name != name || wants != (st.OldestWaitingAt != nil) ||
			wants && (st.OldestWaiting < 2*time.Hour || st.OldestWaiting > 3*time.Hour) ||
			!wants && st.OldestWaiting != 0 || st.Removed != (name == "crm") {
			t.Errorf("%s stands at %+v, want what waits for two hours", name, st)
		}
	}
	if all[0].Counts[DeadLetter] != 1 || all[0].Counts[Waiting] != 1 {
		t.Errorf("the counts are %v, want one dead and one that waits", all[0].Counts)
	}
}

// TestStandingOfActions: actions are counted also if they are no longer in the configuration, and
// so are those that failed and wait.
func TestStandingOfActions(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		b.happen(Occurrence{Kind: Dead, TaskID: 1}, Occurrence{Kind: Dead, TaskID: 2})
		b.expand(to(Server))
		claims := b.receive(Server)
		b.finish(
			Outcome{Claim: claims[0], Status: Waiting, Error: "refused", Delay: time.Hour},
			Outcome{Claim: claims[1], Status: Waiting, Delay: time.Hour},
		)
		all, err := b.Standings(t.Context())
		b.must(err)
		if len(all) != 1 || all[0].Name != Server || all[0].Live() != 2 || all[0].Failing != 1 ||
			all[0].Removed || all[0].OldestWaitingAt != nil {
			t.Errorf("they stand at %+v, want two that wait, and one of them has failed", all)
		}
	})
}

// TestStandingOfDead: dead events are counted, also if nothing else is left of a destination that
// is no longer in the configuration.
func TestStandingOfDead(t *testing.T) {
	b := newBench(t, db.Config{Driver: db.SQLite, Path: filepath.Join(t.TempDir(), "p.db")})
	b.happen(Occurrence{Kind: Dead, TaskID: 1})
	b.expand(to("crm", Server))
	for _, name := range []string{"crm", Server} {
		b.finish(Outcome{Claim: b.receive(name)[0], Status: DeadLetter})
	}
	all, err := b.Standings(t.Context())
	b.must(err)
	if len(all) != 2 || all[0].Dead() != 1 || all[1].Dead() != 1 ||
		!strings.HasSuffix(all[0].Stopped(), "postrider event skip --destination crm") {
		t.Errorf("they stand at %+v, want one dead event, with how to drop it, and one dead action", all)
	}
}

// TestStandingOfGone: of a destination that wants no more events, nothing says when it is tried
// again. That it wants none is not known of its new URL.
func TestStandingOfGone(t *testing.T) {
	b := newBench(t, db.Config{Driver: db.SQLite, Path: filepath.Join(t.TempDir(), "p.db")})
	d := Destination{Name: "crm", Target: Digest("https://old")}
	_, err := b.fault(t.Context(), d, verdict{fault: ErrGone, asked: time.Hour, gone: true})
	b.must(err)
	for target, gone := range map[string]bool{d.Target: true, Digest("https://new"): false} {
		all, err := b.Standings(t.Context(), Destination{Name: "crm", Target: target})
		b.must(err)
		if len(all) != 1 || all[0].Gone != gone || all[0].LastError != "" != gone || all[0].RetryAt != nil {
			t.Errorf("it stands at %+v, want gone to be %t", all, gone)
		}
	}
}
