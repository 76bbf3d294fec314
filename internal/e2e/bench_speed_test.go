package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"postrider/internal/testserver"
)

// fresh is an installation with an empty database, for the mailbox and the relay of another one.
func (b *bench) fresh(mailbox *world, kind string, smtpPort int) *world {
	w := newWorld(b.T, kind)
	w.imap, w.imapPort, w.smtpPort = mailbox.imap, mailbox.imapPort, smtpPort
	w.configure()
	w.addInbox("desk@firm.example", "--start", "all")
	return w
}

// throughput compares postrider with what only fetches and sends, and with fetchmail: Dovecot to
// smtp-sink, messages of 4 KiB. They run by turns, and the best run of each counts.
func (b *bench) throughput() {
	port := b.smtpSink()
	mailbox := filled(b, "sqlite", b.messages, 4<<10)
	best := b.best(func() finished { return b.bare(mailbox, port) })
	b.speed("bare: fetch and send, messages of 4 KiB", best, best, 0, "")
	for _, c := range []struct {
		kind  string
		bound float64
	}{{"sqlite", 2}, {"mariadb", 3}, {"mysql", 3}} {
		b.Run(c.kind, func(t *testing.T) {
			one := *b
			one.T = t
			limit, ours := finished{}, finished{}
			for range runs {
				limit = faster(limit, one.bare(mailbox, port))
				ours = faster(ours, one.pass(one.fresh(mailbox, c.kind, port)))
			}
			writes := one.writes(c.kind, one.fresh(mailbox, c.kind, port))
			one.speed("postrider on "+c.kind, ours, limit, c.bound, writes)
		})
	}
	if theirs, ok := b.fetchmail(mailbox, port); ok {
		b.speed("fetchmail", theirs, best, 0, "")
	}
}

// events compares passes that send an event of each forwarded message to a web server of the test
// with passes without events. They run by turns. The median of the ratios of the pairs counts: both
// runs of a pair find the machine in much the same state, while the best runs need not.
func (b *bench) events() {
	port := b.smtpSink()
	mailbox := filled(b, "sqlite", b.messages, 4<<10)
	var came atomic.Int64
	hook := webhookSink(b.T, &came)
	b.Setenv("HOOK_SECRET", "whsec_"+strings.Repeat("QUJD", 10))
	for _, kind := range all {
		b.Run("events/"+kind, func(t *testing.T) {
			one := *b
			one.T = t
			var without, with finished
			var ratios []float64
			for range 5 * runs { // the difference is small
				plain := one.pass(one.fresh(mailbox, kind, port))
				w := one.fresh(mailbox, kind, port)
				w.extra = "events: {crm: {url: '" + hook + "', " +
					"secrets: env:HOOK_SECRET, allow_internal: true, on: [forwarded]}}"
				w.configure()
				came.Store(0)
				events := one.pass(w)
				if n := came.Load(); n != int64(b.messages) {
					t.Errorf("%d events came during the pass, want %d", n, b.messages)
				}
				without, with = faster(without, plain), faster(with, events)
				ratios = append(ratios, events.took.Seconds()/plain.took.Seconds())
			}
			slices.Sort(ratios)
			median := ratios[len(ratios)/2]
			perThousand := func(f finished) float64 { return f.cpu.Seconds() * 1000 / float64(b.messages) }
			one.row("a pass without events, and with a webhook, "+kind,
				fmt.Sprintf("%.2f s and %.2f s at best, median of the ratios %.2f x, %.2f and %.2f CPU s per 1,000",
					without.took.Seconds(), with.took.Seconds(), median, perThousand(without), perThousand(with)),
				"<= 1.3 x", median <= 1.3)
		})
	}
}

// webhookSink takes any event at once, with as little work as a web server can have, and counts it.
func webhookSink(t *testing.T, came *atomic.Int64) (url string) {
	port := testserver.Listen(t, func(c net.Conn) {
		length, taken := 0, []byte("HTTP/1.1 204 No Content\r\n\r\n")
		for r := bufio.NewReader(c); ; {
			line, err := r.ReadSlice('\n')
			if n, is := bytes.CutPrefix(line, []byte("Content-Length: ")); is {
				length, err = strconv.Atoi(string(bytes.TrimSpace(n)))
			}
			if err == nil && len(line) == len("\r\n") { // the end of the header
				if _, err = r.Discard(length); err == nil {
					came.Add(1)
					_, err = c.Write(taken)
				}
			}
			if err != nil {
				return
			}
		}
	})
	return fmt.Sprintf("http://127.0.0.1:%d", port)
}

// speed adds how fast the messages went through. bound is how many times as long as limit it may
// take at most, 0 when it is a peer.
func (b *bench) speed(name string, f, limit finished, bound float64, more string) {
	n, ratio := float64(b.messages), f.took.Seconds()/limit.took.Seconds()
	result := fmt.Sprintf("%.2f s = %.1f x bare, %.0f/s, %.2f CPU s per 1,000, peak %d MiB%s",
		f.took.Seconds(), ratio, n/f.took.Seconds(), f.cpu.Seconds()*1000/n, f.peak>>20, more)
	if bound == 0 {
		b.table.AppendRow(table.Row{name, result, "", "peer"})
		return
	}
	b.row(name, result, fmt.Sprintf("<= %.1f x", bound), ratio <= bound)
}

// farRelay is how far away the relay is in the benchmark of PIPELINING.
const farRelay = 30 * time.Millisecond

// far compares postrider with bare senders that pipeline and that do not, to a relay that is far
// away.
func (b *bench) far() {
	few := *b
	few.messages /= 5
	port := testserver.NewDelayProxy(b.T, fmt.Sprintf("127.0.0.1:%d", b.smtpSink()), farRelay).Port
	mailbox := filled(&few, "sqlite", few.messages, 4<<10)
	var each, together, ours finished
	for range runs {
		each = faster(each, few.bare(mailbox, port))
		together = faster(together, few.bare(mailbox, port, "-pipelining"))
		ours = faster(ours, few.pass(few.fresh(mailbox, "sqlite", port)))
	}
	few.speed(fmt.Sprintf("bare with PIPELINING, relay %s away", farRelay), together, together, 0, "")
	few.speed("bare without", each, together, 0, "")
	few.speed("postrider on sqlite", ours, together, 1.2, "")
	gain := each.took.Seconds() / ours.took.Seconds()
	b.row("postrider beside bare without PIPELINING", fmt.Sprintf("%.1f times as fast", gain), ">= 1.7", gain >= 1.7)
}

// many compares the time per message of few and of many messages.
func (b *bench) many() {
	port, n := b.smtpSink(), 10*b.messages
	each := func(n int) (time.Duration, int64) {
		mailbox := newWorld(b.T, "sqlite")
		mailbox.addInbox("desk@firm.example", "--start", "all")
		mailbox.imap.Fill(b.T, "desk@firm.example", n, func(i int) []byte { return sized(i, 4<<10) })
		best := b.best(func() finished { return b.pass(b.fresh(mailbox, "sqlite", port)) })
		return best.took / time.Duration(n), best.peak
	}
	few, fewPeak := each(b.messages)
	most, mostPeak := each(n)
	b.row(fmt.Sprintf("each of %d and of %d messages", b.messages, n),
		fmt.Sprintf("%s and %s", few.Round(time.Microsecond), most.Round(time.Microsecond)),
		"<= 1.2 x", float64(most) <= 1.2*float64(few))
	b.row("and peak memory", fmt.Sprintf("%d and %d MiB", fewPeak>>20, mostPeak>>20),
		"flat (within 16 MiB)", mostPeak-fewPeak < 16<<20)
}

// memory forwards large messages.
func (b *bench) memory() {
	w := filled(b, "sqlite", 50, 25<<20)
	w.smtpPort = b.smtpSink()
	w.configure()
	peak := b.pass(w).peak
	b.row("peak memory, 50 messages of 25 MiB", fmt.Sprintf("%d MiB", peak>>20),
		"<= 64 MiB", peak <= 64<<20 && peak > 0)
}
