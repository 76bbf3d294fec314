package imapsrc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/emersion/go-imap/v2"
)

// Folder is the state of a folder when it was opened.
type Folder struct {
	Name        string
	UIDValidity uint32
	UIDNext     uint32 // 0 when the server sends none
	Messages    uint32
}

// Folders lists the names of the folders that can be opened.
func (c *Conn) Folders(ctx context.Context) ([]string, error) {
	var names []string
	err := c.do(ctx, "list the folders", largeAnswer, func() error {
		list, err := c.client.List("", "*", nil).Collect()
		for _, f := range list {
			if !slices.Contains(f.Attrs, imap.MailboxAttrNoSelect) &&
				!slices.Contains(f.Attrs, imap.MailboxAttrNonExistent) {
				names = append(names, f.Mailbox)
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}

// Select opens a folder read-only (EXAMINE, RFC 3501 6.3.2). The error is KindNoCursor when the
// folder's UIDs are not persistent, and KindNoFolder when the server does not open it.
func (c *Conn) Select(ctx context.Context, name string) (Folder, error) {
	if strings.EqualFold(name, "INBOX") {
		name = "INBOX" // the only name that is case-insensitive (RFC 3501 5.1)
	}
	c.folder = name
	var f Folder
	err := c.do(ctx, "open folder", smallAnswer, func() error {
		data, err := c.client.Select(name, &imap.SelectOptions{ReadOnly: true}).Wait()
		var no *imap.Error
		if errors.As(err, &no) {
			return &Error{
				Kind: kindOf(no, KindNoFolder), Err: fmt.Errorf("the server refused (%w)", c.answer(no)),
				BackOff: backOff(no.Text),
			}
		}
		f = Folder{Name: name, UIDValidity: data.UIDValidity, UIDNext: uint32(data.UIDNext), Messages: data.NumMessages}
		if err == nil && (f.UIDValidity == 0 || !c.wire.uidsStick()) {
			return &Error{Kind: KindNoCursor, Err: errors.New("the folder's UIDs are not persistent, " +
				"so old and new messages cannot be distinguished; this folder cannot be monitored")}
		}
		return err
	})
	if err == nil && f.UIDNext == 0 {
		f.UIDNext, err = c.uidNext(ctx, name)
	}
	if err != nil {
		err = c.suggest(ctx, err, name)
		c.folder = ""
		return Folder{}, err
	}
	return f, nil
}

// uidNext uses STATUS, for servers whose answer to EXAMINE has no UIDNEXT.
func (c *Conn) uidNext(ctx context.Context, name string) (next uint32, err error) {
	err = c.do(ctx, "ask for UIDNEXT of folder", smallAnswer, func() error {
		data, err := c.client.Status(name, &imap.StatusOptions{UIDNext: true}).Wait()
		var no *imap.Error
		if errors.As(err, &no) {
			return nil // the server has no UIDNEXT
		}
		next = uint32(data.UIDNext)
		return err
	})
	return next, err
}

// suggest adds the folders with the most similar names to the error.
func (c *Conn) suggest(ctx context.Context, err error, name string) error {
	var e *Error
	if !errors.As(err, &e) || e.Kind != KindNoFolder {
		return err
	}
	names, listErr := c.Folders(ctx)
	if listErr != nil || len(names) == 0 {
		return err
	}
	e.Err = fmt.Errorf("%w; the most similar names on the server are %q", e.Err, nearest(name, names))
	return e
}

// nearest returns the three names with the smallest edit distance.
func nearest(name string, names []string) []string {
	names = slices.Clone(names)
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Compare(distance(name, a), distance(name, b))
	})
	return names[:min(3, len(names))]
}

// distance is the Levenshtein distance, case-insensitive.
func distance(a, b string) int {
	from, to := []rune(strings.ToLower(a)), []rune(strings.ToLower(b))
	row := make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for i, x := range from {
		diagonal := row[0]
		row[0] = i + 1
		for j, y := range to {
			change := diagonal
			if x != y {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(to)]
}
