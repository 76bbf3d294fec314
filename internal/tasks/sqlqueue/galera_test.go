package sqlqueue

import (
	"errors"
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/message"
	"postrider/internal/tasks"
	"postrider/internal/tasks/taskstest"
	"postrider/internal/testserver"
)

// cluster is a fresh database on each node of a cluster, and behind a balancer that gives each new
// connection to another node.
func cluster(t *testing.T) (nodes []registry, balanced registry) {
	t.Helper()
	g := testserver.GaleraCluster(t)
	dsns := g.NewDatabase(t)
	for _, dsn := range dsns {
		nodes = append(nodes, openRegistry(t, db.Config{Driver: db.MySQL, DSN: dsn}))
	}
	return nodes, openRegistry(t, db.Config{Driver: db.MySQL, DSN: g.Balancer(t, dsns[0])})
}

// TestGaleraRaces: the two processes of the suite have a node each, or share a balancer.
func TestGaleraRaces(t *testing.T) {
	t.Run("nodes", func(t *testing.T) {
		nodes, _ := cluster(t)
		taskstest.RunRaces(t, func(t *testing.T) taskstest.Fixture {
			f := nodes[0].fixture(t)
			f.Other = small(nodes[1].DB)
			return f
		})
	})
	t.Run("balancer", func(t *testing.T) {
		_, balanced := cluster(t)
		taskstest.RunRaces(t, balanced.fixture)
	})
}

// applied returns once a node has applied what the others have committed.
func (r registry) applied(t *testing.T) {
	t.Helper()
	var n int
	r.query(t, &n, `SELECT COUNT(*) FROM monitored_emails_tasks`)
}

// TestGaleraOwnerGivesUpMeanwhile: a task gives its recipient up on one node, between the two reads
// with which another node looks for its owner: who owns it, and whether that has delivered. The
// lock of the first read makes the change from the other node end the transaction. Otherwise the
// copy would be a duplicate of a task that no one got.
func TestGaleraOwnerGivesUpMeanwhile(t *testing.T) {
	nodes, _ := cluster(t)
	here, there := New(nodes[1].DB), New(nodes[0].DB)
	page := pageIn(t, nodes[0], 1)
	if _, err := there.Register(t.Context(), page); err != nil {
		t.Fatal(err)
	}
	claims, err := there.Receive(t.Context(), tasks.Want{
		InboxID: page.InboxID, Max: 1, Worker: "there", Lease: time.Minute, MaxLostLeases: 3,
	})
	if err != nil || len(claims) != 1 {
		t.Fatalf("claimed %d tasks, %v; want 1", len(claims), err)
	}
	c, key := claims[0], onceKey{page.InboxID, page.Entries[0].Identity.Fingerprint, "desk@example.com"}
	reads, runs := 0, 0
	var o *owners
	err = nodes[1].Tx(t.Context(), func(tx *gorm.DB) (err error) {
		runs++
		o, err = ownersOf(tx, []onceKey{key}, func(query string) string {
			if reads++; reads == 2 {
				if err := there.Finish(t.Context(), c.Receipt, tasks.Vanished(c.Task, "it was expunged")); err != nil {
					t.Error(err)
				}
				nodes[1].applied(t)
			}
			return here.db.Share(query)
		})
		return err
	})
	if owner, owned := o.by[key]; err != nil || owned {
		t.Errorf("after %d runs the owner is %+v (%t), %v; want none: it gave the recipient up",
			runs, owner, owned, err)
	}
}

// pageIn is a page with one message, in a folder of a new inbox.
func pageIn(t *testing.T, r registry, uid uint32) tasks.Page {
	t.Helper()
	inbox := r.inbox(t, t.Name()+"@example.com")
	return tasks.Page{
		InboxID: inbox, FolderID: r.folder(t, inbox, "INBOX", 7), Epoch: 7, Cursor: uid, Dedupe: tasks.DedupeInbox,
		Entries: []tasks.Entry{{
			UID: uid, Identity: tasks.Identity{Fingerprint: message.Fingerprint{2}},
			Decision: &tasks.Decision{Revision: "r1", Recipients: []string{"desk@example.com"}},
		}},
	}
}

// TestGaleraScanTakenOver: a run registers a page on one node. Before its COMMIT another run takes
// the scan over on another node, where nothing of that shows yet. Registering only reads the scan
// token; what keeps the two apart is the row of the folder, which both change.
func TestGaleraScanTakenOver(t *testing.T) {
	for _, tt := range []struct {
		name string
		then func(t *testing.T, r registry, page tasks.Page) // by the other run
		want error
	}{
		{"and registers the page", func(t *testing.T, r registry, page tasks.Page) {
			if _, err := New(r.DB).Register(t.Context(), page); err != nil {
				t.Error(err)
			}
		}, tasks.ErrScanLost},
		{"and begins another epoch", func(t *testing.T, r registry, page tasks.Page) {
			r.exec(t, `UPDATE monitored_folders SET uid_validity = 8, last_seen_uid = 0 WHERE id = ?`, page.FolderID)
		}, tasks.ErrEpochChanged},
		{"and moves the cursor back", func(t *testing.T, r registry, page tasks.Page) {
			r.exec(t, `UPDATE monitored_folders SET last_seen_uid = 0, start_uid = 9 WHERE id = ?`, page.FolderID)
		}, tasks.ErrScanLost},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nodes, _ := cluster(t)
			page, first := pageIn(t, nodes[0], 1), true
			q := New(nodes[0].DB)
			err := q.db.Change(t.Context(), func(tx *gorm.DB, now time.Time) error {
				_, err := q.register(tx, now, page, false)
				if first {
					first = false
					other := page
					nodes[1].exec(t, `UPDATE monitored_emails SET scan_token = 1 WHERE id = ?`, page.InboxID)
					other.ScanToken = 1
					tt.then(t, nodes[1], other)
				}
				return err
			})
			if !errors.Is(err, tt.want) {
				t.Errorf("the first run's page: %v, want %v", err, tt.want)
			}
			var got struct{ Tasks, Owned int }
			nodes[2].query(t, &got, `SELECT (SELECT COUNT(*) FROM monitored_emails_tasks) AS tasks, `+
				`(SELECT COUNT(*) FROM monitored_emails_once) AS owned`)
			want := map[bool]int{true: 1}[tt.name == "and registers the page"]
			if got.Tasks != want || got.Owned != want {
				t.Errorf("registered %+v, want %d: what the other run registered", got, want)
			}
		})
	}
}
