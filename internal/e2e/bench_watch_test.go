package e2e

import (
	"crypto/tls"
	"encoding/csv"
	"encoding/pem"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"postrider/internal/testserver"
	"postrider/internal/testserver/memimap"
	"postrider/internal/testserver/smtpsink"
)

// held is `watch` with many inboxes on a server inside this process, over TLS.
type held struct {
	*world
	server *memimap.Server
	boxes  []string
	p      *process
}

// hold starts `watch` with n inboxes and a relay that answers as reply says, and waits until all of
// them are held.
func hold(t *testing.T, n int, reply func(smtpsink.Event) smtpsink.Action) *held {
	t.Helper()
	cert, _, err := testserver.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	server, err := memimap.Start(memimap.Options{
		TLS: &tls.Config{Certificates: []tls.Certificate{cert}}, ImplicitTLS: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	h := &held{world: newWorld(t, "sqlite"), server: server}
	h.startSink(reply)
	h.extra = "imap: {ca_file: ca.pem}"
	h.configure()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})
	if err := os.WriteFile(h.path("ca.pem"), ca, 0o600); err != nil {
		t.Fatal(err)
	}
	h.importBoxes(n)
	h.p = h.start(nil, "watch")
	h.await("all inboxes are held", func() bool {
		return server.Connections() >= n &&
			strings.Count(h.must(0, "inbox", "list", "--json").stdout, `"last_scanned_at":null`) == 0
	})
	return h
}

// importBoxes makes n accounts, with an inbox for each.
func (h *held) importBoxes(n int) {
	h.t.Helper()
	var file strings.Builder
	rows := csv.NewWriter(&file)
	_ = rows.Write([]string{"address", "host", "port", "security", "start", "password"})
	for i := range n {
		address := fmt.Sprintf("box%d@firm.example", i)
		if err := h.server.AddUser(address, password); err != nil {
			h.t.Fatal(err)
		}
		_ = rows.Write([]string{address, "localhost", strconv.Itoa(h.server.Port()), "tls", "now", password})
		h.boxes = append(h.boxes, address)
	}
	rows.Flush()
	if err := os.WriteFile(h.path("boxes.csv"), []byte(file.String()), 0o600); err != nil {
		h.t.Fatal(err)
	}
	h.must(0, "inbox", "import", h.path("boxes.csv"), "--yes")
}

// The memory is measured when inboxes have been held for some time: what their first visits needed
// is given back by then. It goes up for moments, when all inboxes are listed.
const (
	settled  = 30 * time.Second
	measured = time.Minute
)

// holding measures the memory of `watch` with a thousand inboxes, and how soon what arrives in one
// of 300 is at the relay.
func (b *bench) holding() {
	const many, some, arrivals = 1000, 300, 1000
	h := hold(b.T, many, nil)
	time.Sleep(settled)
	pid := h.p.cmd.Process.Pid
	var samples []int64
	for range measured / (250 * time.Millisecond) {
		time.Sleep(250 * time.Millisecond)
		samples = append(samples, memoryOf(pid, "VmRSS:"))
	}
	file := memoryOf(pid, "VmRSS:") - memoryOf(pid, "RssAnon:")
	slices.Sort(samples)
	most := samples[len(samples)*95/100]
	b.row(fmt.Sprintf("watch with %d idle inboxes, over TLS, 95 %% of the time", many),
		fmt.Sprintf("%d MiB, %d of them pages of the executable, peak %d MiB", most>>20, file>>20, peakOf(pid)>>20),
		"<= 64 MiB", most <= 64<<20)
	h.end(h.p, 0)
	took := latencies(b.T, some, arrivals)
	p99 := took[len(took)*99/100]
	b.row(fmt.Sprintf("from arrival in one of %d inboxes to the relay's reply, 99 of 100 messages", some),
		fmt.Sprintf("%.3f s, half of them %.3f s", p99.Seconds(), took[len(took)/2].Seconds()),
		"< 1 s", p99 < time.Second)
}

// latencies are how long n messages took from their arrival in inboxes that are held to the relay's
// reply, the shortest first. They arrive one every 10 ms, in an arbitrary inbox.
func latencies(t *testing.T, inboxes, n int) []time.Duration {
	t.Helper()
	var mu sync.Mutex
	var took []time.Duration
	arrived := map[string]time.Time{}
	h := hold(t, inboxes, func(e smtpsink.Event) smtpsink.Action {
		if e.Stage == "dot" {
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(arrived[idOf(t, e.Message.Header)]))
		}
		return smtpsink.Action{}
	})
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := range n {
		<-tick.C
		subject := fmt.Sprint("arrival ", i)
		raw := testserver.Mail("alice@client.example", "desk@firm.example", subject, "The quick brown fox.")
		mu.Lock()
		arrived[idOf(t, raw)] = time.Now()
		mu.Unlock()
		if _, err := h.server.Append(h.boxes[rand.IntN(len(h.boxes))], "INBOX", raw); err != nil {
			t.Fatal(err)
		}
	}
	h.await("all messages", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(took) >= n
	})
	h.end(h.p, 0)
	slices.Sort(took)
	return took
}
