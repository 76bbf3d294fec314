//go:build unix

package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

// cluster is hosts that share a database on several nodes.
type cluster struct {
	*hosts
	*testserver.Galera
}

// onCluster runs a test on a database that hosts reach by a node each (galera), or by a balancer.
// The relay answers each final dot as reply says, after its time. scripts/faults repeats it.
func onCluster(
	t *testing.T, kind, extra string, reply func(smtpsink.Message) smtpsink.Action, test func(t *testing.T, c *cluster),
) {
	t.Helper()
	g := testserver.GaleraCluster(t)
	for i := range times() {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			w := newWorld(t, kind)
			w.extra = "retry: {base: 1s, max: 1s}\nconcurrency: {host: HOST, lease: 20s, page: 20}\n" + extra
			w.startSink(func(e smtpsink.Event) smtpsink.Action {
				a := slowly(e, 10*time.Millisecond)
				if e.Stage == "dot" && reply != nil {
					r := reply(*e.Message)
					a.Code, a.Text = r.Code, r.Text
				}
				return a
			})
			w.configure()
			test(t, &cluster{newHosts(w), g})
		})
	}
}

// node starts a pass on a host that has this node, with what else is in a configuration.
func (w *world) node(g *testserver.Galera, i int, file string) *process {
	w.t.Helper()
	text, err := os.ReadFile(w.path(file))
	if err != nil {
		w.t.Fatal(err)
	}
	host := fmt.Sprintf("node%d", i+1)
	own := strings.NewReplacer("host: HOST", "host: "+host).Replace(toNode(g, i).Replace(string(text)))
	w.write(host+".yaml", own)
	return w.start(nil, "-c", w.path(host+".yaml"), "run", "--json")
}

// toNode makes a configuration for the first node that of another one.
func toNode(g *testserver.Galera, i int) *strings.Replacer {
	port := func(i int) string { return fmt.Sprintf("127.0.0.1:%d)", g.Nodes[i].Port) }
	return strings.NewReplacer(port(0), port(i))
}

// work has all hosts do passes, at the same time, until nothing is left to do. Who waits for
// another task's delivery looks again after each round, and not after a minute.
func (c *cluster) work() {
	c.t.Helper()
	c.eventually(func() bool {
		var passes []*process
		for i := range c.Nodes {
			passes = append(passes, c.node(c.Galera, i, "postrider.yaml"))
		}
		for _, p := range passes {
			c.ended(p, 0, 75)
		}
		const dueNow = `UPDATE monitored_emails_tasks SET visible_at = 1 WHERE visible_at > 1`
		if _, err := c.sql.ExecContext(c.t.Context(), dueNow); err != nil {
			c.t.Fatal(err)
		}
		return c.number(`SELECT COUNT(*) FROM monitored_emails_tasks WHERE visible_at IS NOT NULL`) == 0
	})
	for i := range c.Nodes { // what arrived while the last ones ended
		c.ended(c.node(c.Galera, i, "postrider.yaml"), 0)
	}
}

// wantNoLosses checks that no lease was lost and no receipt refused: all hosts are well.
func (c *cluster) wantNoLosses() {
	c.t.Helper()
	if n := c.number(`SELECT COUNT(*) FROM monitored_emails_events WHERE event IN ('conflict', 'lease_lost')`); n != 0 {
		c.t.Errorf("%d leases were lost or receipts refused, want none", n)
	}
}

// times is how often a test does what it does; scripts/faults sets it.
func times() int {
	if n, err := strconv.Atoi(os.Getenv("POSTRIDER_FAULTS")); err == nil {
		return n
	}
	return 1
}

// TestGaleraDedupeAll: each mail lies in three inboxes, and three hosts, on a node each, scan them
// at once. Each recipient gets each mail once.
func TestGaleraDedupeAll(t *testing.T) {
	onCluster(t, "galera", "dedupe: all\n", nil, func(t *testing.T, c *cluster) {
		msgs := mails(30, "everywhere")
		for i := range c.Nodes {
			address := fmt.Sprintf("box%d@firm.example", i)
			c.addInbox(address, "--start", "all")
			c.imap.Append(t, address, "INBOX", msgs...)
		}
		c.routes = "  - {name: all, match: {}, to: [intake@firm.example, sales@firm.example, court@firm.example]}\n"
		c.configure()
		c.work()
		got := map[string]int{}
		for _, m := range c.sink.Messages() {
			for _, to := range m.To {
				got[idOf(t, m.Header)+" "+to]++
			}
		}
		extra := 0
		for _, n := range got {
			extra += n - 1
		}
		if want := 3 * len(msgs); len(got) != want || extra != 0 {
			t.Errorf("%d recipients got a mail, and %d copies more than one each; want %d, and none",
				len(got), extra, want)
		}
		c.wantNoLosses()
		c.must(0, "audit")
	})
}

// TestGaleraRefused: each mail lies in two folders of an inbox. The relay refuses each the first
// time, for now or for good, while the copy is registered by way of another node. Whichever task
// owns the recipient in the end delivers it.
func TestGaleraRefused(t *testing.T) {
	var mu sync.Mutex
	tried := map[string]bool{}
	forGood := func(id string) bool { return id[1]%2 == 0 }
	refuseFirst := func(m smtpsink.Message) smtpsink.Action {
		mu.Lock()
		defer mu.Unlock()
		id := idOf(t, m.Header)
		if tried[id] {
			return smtpsink.Action{}
		}
		tried[id] = true
		if forGood(id) {
			return smtpsink.Action{Code: 554, Text: "5.7.1 no"}
		}
		return smtpsink.Action{Code: 451, Text: "4.3.0 not now"}
	}
	onCluster(t, "galera", "dedupe: inbox\n", refuseFirst, func(t *testing.T, c *cluster) {
		pairs := 150
		c.routes = "  - {name: copies, match: {folder: Archive}, to: [intake@firm.example]}\n" + c.routes
		c.configure()
		c.addInbox(desk, "--start", "all", "--folder", "INBOX", "--folder", "Archive")
		msgs, dead := mails(pairs, "twice"), 0
		for _, raw := range msgs {
			if forGood(idOf(t, raw)) {
				dead++
			}
		}
		c.imap.Append(t, desk, "INBOX", msgs...)
		c.imap.Append(t, desk, "Archive", msgs...)
		c.work()
		c.wantOnce(msgs)
		by := map[string]int{}
		for _, one := range c.tasks() {
			by[one.Status]++
		}
		if by["forwarded"] != pairs || by["dead"] != dead || by["skipped"] != pairs-dead {
			t.Errorf("the tasks are %v; want %d forwarded, %d dead, and as many skipped as were refused for now: %d",
				by, pairs, dead, pairs-dead)
		}
		counts := map[string]int{}
		for _, f := range c.audit(0).Inboxes[0].Folders {
			if len(f.Missing) > 0 || f.Messages != pairs {
				t.Errorf("audit has %d of %d messages missing in %s", len(f.Missing), f.Messages, f.Name)
			}
			for what, n := range f.Counts {
				counts[what] += n
			}
		}
		if counts["forwarded"] != pairs || counts["dead"] != dead {
			t.Errorf("audit counts %v, want %d forwarded and %d dead", counts, pairs, dead)
		}
		// Of these the copy came while the original was not settled.
		waited := c.number(`SELECT COUNT(*) FROM monitored_emails_tasks a JOIN monitored_emails_tasks b
			ON a.fingerprint = b.fingerprint AND a.folder_id < b.folder_id AND b.created_at < a.finished_at`)
		t.Logf("%d originals were refused for good; %d copies had to wait", dead, waited)
		c.wantNoLosses()
	})
}

// TestGaleraBalancer: two hosts, whose connections are spread over the nodes, do a pass together.
func TestGaleraBalancer(t *testing.T) {
	onCluster(t, "balancer", "", nil, func(t *testing.T, c *cluster) {
		msgs := c.fill(desk, 400)
		for _, p := range []*process{c.on("a"), c.on("b")} {
			c.ended(p, 0)
		}
		c.ended(c.on("a"), 0)
		c.wantOnce(msgs)
		c.wantNoLosses()
		c.must(0, "audit")
	})
}
