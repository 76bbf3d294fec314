//go:build unix

package sqlqueue

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"postrider/internal/tasks"
)

// A note is one line of the notebook that all processes append to. One write is one line, so the
// lines have the order in which things happened. The arrivals among them say what was really sent.
type note struct {
	What      string // claimed, offered, extend, reserve, sending, arrived, finish, release, register
	Outcome   outcome
	Worker    string `json:",omitempty"`
	Task      int64  `json:",omitempty"`
	Receipt   string `json:",omitempty"`
	Message   string `json:",omitempty"` // arrived: folder/content
	Recipient string `json:",omitempty"` // arrived
	At        int64  `json:",omitempty"` // claimed, offered, extend: earliest start of the lease
	Status    tasks.Status
	To        map[string]tasks.DeliveryStatus `json:",omitempty"` // claimed, sending, finish
	Inbox     int64                           `json:",omitempty"` // register
	Token     int64                           `json:",omitempty"` // register: of the scan lease
	Cursor    uint32                          `json:",omitempty"` // register
}

// outcome of a call. A call that only has begun was killed, or lost with its connection.
type outcome string

const (
	begun outcome = "begun"
	done  outcome = "done"
	lost  outcome = "lost"  // ErrLeaseLost or ErrScanLost
	taken outcome = "taken" // ErrTaken
)

// notebook is the file of notes.
type notebook struct{ file *os.File }

func openNotebook(path string) (notebook, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	return notebook{f}, err
}

func (j notebook) write(n note) error {
	line, err := json.Marshal(n)
	if err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write the notebook: %w", err)
	}
	return nil
}

func readNotebook(t *testing.T, path string) (notes []note) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var n note
		if err := json.Unmarshal(lines.Bytes(), &n); err != nil {
			t.Fatalf("line %d of the notebook: %v: %s", len(notes)+1, err, lines.Text())
		}
		notes = append(notes, n)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return notes
}

// fate is what is to become of a message, by its UID.
type fate int

const (
	forwarded fate = iota
	duplicate      // skipped: the message before it has the same content
	tooLarge       // skipped by its decision
	byRoute        // skipped by its worker
	refused        // dead by its worker
	second         // forwarded: the message before it has the same content and is refused
)

func fateOf(uid uint32) fate {
	switch {
	case uid%10 == 0 && fateOf(uid-1) == forwarded:
		return duplicate
	case uid%13 == 0:
		return tooLarge
	case uid%17 == 0:
		return refused
	case uid%17 == 1 && uid > 1 && fateOf(uid-1) == refused:
		return second
	case uid%19 == 0:
		return byRoute
	}
	return forwarded
}

// contentOf is the UID of the first message with that content.
func contentOf(uid uint32) uint32 {
	if f := fateOf(uid); f == duplicate || f == second {
		return uid - 1
	}
	return uid
}

// ends is the state in which a message's task is to end.
func (f fate) ends() tasks.Status {
	switch f {
	case forwarded, second:
		return tasks.Forwarded
	case refused:
		return tasks.Dead
	}
	return tasks.Skipped
}

// arrives reports whether the message should arrive.
func (f fate) arrives() bool { return f.ends() == tasks.Forwarded }

func recipientsOf(uid uint32) []string {
	if contentOf(uid)%3 == 0 {
		return []string{"a@firm.example", "b@firm.example"}
	}
	return []string{"a@firm.example"}
}

// deferred reports whether the relay defers a recipient.
func deferred(c tasks.Claim, recipient string) bool {
	return recipient == "b@firm.example" && c.Task.UID%2 == 0 && c.Task.Attempts == 1
}

func messageName(folderID int64, uid uint32) string { return fmt.Sprintf("%d/%d", folderID, uid) }
