//go:build unix

package e2e

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"postrider/internal/testserver"
)

// place is a named place in what a pass says to its servers, or hears from them. A pass that comes
// there is held until the fault has struck.
type place struct {
	name            string
	imap, smtp, sql finder // one of them is set: what finds the place on the connections to that server
	locked          bool   // the database is locked from then on, so that the pass can record nothing more
	skip            int    // up to so many times the pass gets by
}

// finder returns how many octets of a piece are passed on before the place, or -1: it is not there.
type finder func(testserver.Piece) int

// On the connection to the IMAP server.
var (
	folderNotOpen = place{name: "EXAMINE unheard", imap: asks(" EXAMINE ", " SELECT ")}
	notListed     = place{name: "list unanswered", imap: answerTo(" UID FETCH ")}
	halfRead      = place{name: "body half read", imap: inLiteral}
	notAllRead    = place{name: "bodies read but for the OK", imap: inTaggedOK}
)

// On the connection to the relay.
var (
	claimed  = place{name: "task claimed", smtp: asks("MAIL FROM:")} // the relay does not hear it
	taken    = place{name: "recipients accepted", smtp: answerStarts("250 2.1.0", "354 ")}
	halfSent = place{name: "content half sent", smtp: inContent}
	heldByIt = place{name: "relay held it", smtp: answerStarts("250 2.0.0 accepted")}
	unknown  = place{name: "250 not recorded", smtp: afterAccepted, locked: true}
)

// On a connection to the database.
var (
	registering = place{name: "registering", sql: asks("INSERT INTO monitored_emails_tasks (")}
	claiming    = place{name: "claiming", sql: asks("attempt_count = attempt_count + 1")}
	marking     = place{name: "marking as sending", sql: asks("mode_reason = ")}
	finishing   = place{name: "finishing", sql: asks("finished_at = ")}
	uncommitted = place{name: "COMMIT unheard", sql: commits, skip: 6}
	committed   = place{name: "COMMIT unanswered", sql: answerToCommit, skip: 6}
)

// asks finds what the client says; the server does not hear it.
func asks(texts ...string) finder {
	return func(p testserver.Piece) int {
		for _, text := range texts {
			if !p.FromServer && bytes.Contains(p.Data, []byte(text)) {
				return 0
			}
		}
		return -1
	}
}

// answerTo finds the first answer to what the client says.
func answerTo(text string) finder {
	return func(p testserver.Piece) int {
		if p.FromServer && bytes.Contains(p.Before, []byte(text)) {
			return 0
		}
		return -1
	}
}

// answerStarts finds an answer of the server.
func answerStarts(texts ...string) finder {
	return func(p testserver.Piece) int {
		for _, text := range texts {
			if p.FromServer && bytes.HasPrefix(p.Data, []byte(text)) {
				return 0
			}
		}
		return -1
	}
}

var bodyLiteral = regexp.MustCompile(`BODY\[\] \{(\d+)\}\r\n`)

// inLiteral is the middle of the first body in a piece.
func inLiteral(p testserver.Piece) int {
	at := bodyLiteral.FindSubmatchIndex(p.Data)
	if !p.FromServer || at == nil {
		return -1
	}
	size, _ := strconv.Atoi(string(p.Data[at[2]:at[3]]))
	return min(at[1]+size/2, len(p.Data))
}

// inTaggedOK is the line that ends a FETCH of bodies.
func inTaggedOK(p testserver.Piece) int {
	end := bytes.Index(p.Data, []byte(" OK Fetch completed"))
	if !p.FromServer || end < 0 || !bytes.Contains(p.Before, []byte("BODY.PEEK[]")) {
		return -1
	}
	return 1 + bytes.LastIndexByte(p.Data[:end], '\n')
}

func inContent(p testserver.Piece) int {
	if p.FromServer || !bytes.Contains(p.Before, []byte("354 ")) {
		return -1
	}
	return len(p.Data) / 2
}

func afterAccepted(p testserver.Piece) int {
	if !p.FromServer || !bytes.HasPrefix(p.Data, []byte("250 2.0.0 accepted")) {
		return -1
	}
	return len(p.Data)
}

// isCommit recognises the MySQL packet (COM_QUERY).
func isCommit(data []byte) bool { return bytes.HasSuffix(data, []byte("\x03COMMIT")) }

func commits(p testserver.Piece) int {
	if !p.FromServer && isCommit(p.Data) {
		return 0
	}
	return -1
}

func answerToCommit(p testserver.Piece) int {
	if p.FromServer && isCommit(p.Before) {
		return 0
	}
	return -1
}

// moment is one visit of a pass to a place.
type moment struct {
	place      place
	generation int64         // only connections of this struck pass, and of later ones, count
	skip       atomic.Int64  // how many times the pass still gets by
	came       chan struct{} // closed when the pass is there, and held
	over       chan struct{} // closed when the fault has struck
	end        testserver.End
}

// arm has the next pass that comes to the next place of the fault held there.
func (s *storm) arm(p place) *moment {
	m := &moment{place: p, generation: s.generation.Load(), came: make(chan struct{}), over: make(chan struct{})}
	m.skip.Store(rand.Int64N(int64(p.skip) + 1))
	s.armed.Store(m)
	return m
}

// release lets go of what is held, or of nobody any more. The connection ends as end says.
func (s *storm) release(m *moment, end testserver.End) {
	s.armed.CompareAndSwap(m, nil)
	m.end = end
	close(m.over)
}

// watch looks for the armed place on each connection to one server.
func (s *storm) watch(on func(place) finder) func() testserver.Look {
	return func() testserver.Look {
		born := s.generation.Load()
		return func(p testserver.Piece) (int, func() testserver.End) {
			m := s.armed.Load()
			if m == nil || born < m.generation || on(m.place) == nil {
				return 0, nil
			}
			n := on(m.place)(p)
			if n < 0 || m.skip.Add(-1) >= 0 || !s.armed.CompareAndSwap(m, nil) {
				return 0, nil
			}
			unlock := func() {}
			if m.place.locked {
				unlock = s.lock()
			}
			return n, func() testserver.End {
				defer unlock()
				close(m.came)
				select {
				case <-m.over:
					return m.end
				case <-s.t.Context().Done():
					return testserver.RST
				}
			}
		}
	}
}

// next is the place at which the fault strikes for the i-th time in this round.
func (s *storm) next(i int) place {
	return s.fault.places[(int(s.round.Load())+i)%len(s.fault.places)]
}

// reach starts passes until one is held at the place. One that ends before it did not come there:
// another pass had left it nothing to do.
func (s *storm) reach(at place, pass func() *process) (*process, *moment) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		s.generation.Add(1)
		m := s.arm(at)
		p := pass()
		select {
		case <-m.came:
			return p, m
		case <-p.over:
			s.release(m, testserver.NoEnd)
			s.ended(p)
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("for a minute no pass came to this place: %s", at.name)
		}
	}
}

// openDatabase opens the database beside the passes.
func (s *storm) openDatabase() *sql.DB {
	s.t.Helper()
	file := url.URL{Scheme: "file", Path: s.path("postrider.db"), RawQuery: "_busy_timeout=0&_txlock=immediate"}
	driver, dsn := "sqlite", file.String()
	if _, text, ok := strings.Cut(strings.TrimSuffix(s.database, `"`), `dsn: "`); ok {
		driver, dsn = "mysql", text
	}
	if s.kind == "galera" || s.kind == "balancer" { // the first node, which is never harmed
		_, name, _ := strings.Cut(dsn, ")/")
		port := testserver.GaleraCluster(s.t).Nodes[0].Port
		dsn = fmt.Sprintf("root@tcp(127.0.0.1:%d)/%s?wsrep_sync_wait=7", port, name)
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = db.Close() })
	return db
}

// lock has no pass change a task until unlock is called, or the database server goes away. It waits
// for the changes that were begun.
func (s *storm) lock() (unlock func()) {
	for deadline := time.Now().Add(time.Minute); ; {
		unlock, err := s.tryLock()
		if err == nil {
			return unlock
		}
		if time.Now().After(deadline) {
			s.t.Errorf("lock the database: %v", err)
			return func() {}
		}
	}
}

func (s *storm) tryLock() (unlock func(), err error) {
	tx, err := s.db.BeginTx(context.WithoutCancel(s.t.Context()), nil)
	if err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	if s.kind != "sqlite" { // there a transaction that changes something has locked all
		if _, err = tx.Exec("SELECT id FROM monitored_emails_tasks FOR UPDATE"); err != nil {
			_ = tx.Rollback()
			return nil, fmt.Errorf("lock the tasks: %w", err)
		}
	}
	return func() { _ = tx.Rollback() }, nil
}

// quiet reports whether no pass has locked anything.
func (s *storm) quiet() bool {
	if s.kind == "sqlite" {
		unlock, err := s.tryLock()
		if err == nil {
			unlock()
		}
		return err == nil
	}
	for range 3 { // what the server has to do yet may end it
		if s.idle(s.db) {
			return true
		}
	}
	return false
}
