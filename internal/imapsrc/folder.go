package imapsrc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/emersion/go-imap/v2"

	"postrider/internal/text"
)

// Folder is the state of a folder when it was opened.
type Folder struct {
	Name        string
	UIDValidity uint32
	UIDNext     uint32 // 0 when the server sends none
	Messages    uint32
}

// Limits of a list of folders. A name that is longer than maxName octets cannot be opened.
const (
	maxFolders = 100_000
	maxName    = 1000
)

// Folders lists the names of the folders that can be opened.
func (c *Conn) Folders(ctx context.Context) ([]string, error) {
	var names []string
	err := c.do(ctx, "list the folders", listAnswer, func() error {
		return c.eachFolder(func(f *imap.ListData) {
			if len(f.Mailbox) <= maxName && !slices.Contains(f.Attrs, imap.MailboxAttrNoSelect) &&
				!slices.Contains(f.Attrs, imap.MailboxAttrNonExistent) {
				names = append(names, f.Mailbox)
			}
		})
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}

// eachFolder runs one LIST, within do.
func (c *Conn) eachFolder(each func(*imap.ListData)) error {
	cmd := c.client.List("", "*", nil)
	n := 0
	for f := cmd.Next(); f != nil; f = cmd.Next() {
		if n++; n <= maxFolders {
			each(f)
		}
	}
	err := cmd.Close()
	if err == nil && n > maxFolders {
		return &Error{Kind: KindProtocol, Err: fmt.Errorf("the server lists more than %d folders", maxFolders)}
	}
	return err
}

// Select opens a folder read-only (EXAMINE, RFC 3501 6.3.2). The error is KindNoCursor when the
// folder's UIDs are not persistent, and KindNoFolder when the server does not open it.
func (c *Conn) Select(ctx context.Context, name string) (Folder, error) {
	return c.selectFolder(ctx, name, true)
}

func (c *Conn) selectFolder(ctx context.Context, name string, readOnly bool) (Folder, error) {
	if strings.EqualFold(name, "INBOX") {
		name = "INBOX" // the only name that is case-insensitive (RFC 3501 5.1)
	}
	c.folder, c.messages, c.flags = name, 0, nil
	c.wire.opening()
	var f Folder
	var no *imap.Error
	err := c.do(ctx, "open folder", smallAnswer, func() error {
		data, err := c.client.Select(name, &imap.SelectOptions{ReadOnly: readOnly}).Wait()
		if errors.As(err, &no) {
			kind := kindOf(no, KindNoFolder)
			if no.Code == imap.ResponseCodeAuthorizationFailed { // the login is done: it is about this folder
				kind = KindNoFolder
			}
			return &Error{
				Kind: kind, Err: fmt.Errorf("the server refused (%w)", c.answer(no)),
				BackOff: backOff(no.Text),
			}
		}
		f = Folder{Name: name, UIDValidity: data.UIDValidity, UIDNext: uint32(data.UIDNext), Messages: data.NumMessages}
		c.messages, c.flags = f.Messages, data.PermanentFlags
		if err == nil && (f.UIDValidity == 0 || !c.wire.uidsStick()) {
			return &Error{Kind: KindNoCursor, Err: errors.New("the folder's UIDs are not persistent, " +
				"so old and new messages cannot be distinguished; this folder cannot be monitored")}
		}
		if err == nil && !readOnly && c.wire.isReadOnly() { // some servers then answer OK to STORE and do nothing
			return &Error{Kind: KindNoFolder, Err: errors.New("the server opens it read-only; " +
				"give the login the right to change messages there")}
		}
		return err
	})
	if err == nil && f.UIDNext == 0 {
		f.UIDNext, err = c.uidNext(ctx, name)
	}
	if no != nil {
		err = c.suggest(ctx, err, name, no)
	}
	if err != nil {
		c.folder = ""
		return Folder{}, err
	}
	return f, nil
}

// uidNext uses STATUS, for servers whose answer to EXAMINE has no UIDNEXT.
func (c *Conn) uidNext(ctx context.Context, name string) (next uint32, err error) {
	err = c.do(ctx, "ask for UIDNEXT of folder", smallAnswer, func() error {
		return c.statuses([]string{name}, imap.StatusOptions{UIDNext: true}, func(_ string, data *imap.StatusData) {
			next = uint32(data.UIDNext)
		})
	})
	return next, err
}

// suggest adds the folders with the most similar names to the error for a refusal. hMailServer
// answers BAD for a folder that does not exist. So do servers that are out of order; those do not
// list folders either.
func (c *Conn) suggest(ctx context.Context, err error, name string, no *imap.Error) error {
	var e *Error
	if !errors.As(err, &e) || e.Kind != KindNoFolder && e.Kind != KindProtocol {
		return err
	}
	names, listErr := c.Folders(ctx)
	if listErr != nil || len(names) == 0 {
		return err
	}
	e.Kind = KindNoFolder
	e.brief = fmt.Sprintf("folder %q cannot be opened: %v", name, e.Err)
	if slices.Contains(names, name) {
		return e
	}
	missing := no.Code == imap.ResponseCodeNonExistent || no.Code == imap.ResponseCodeTryCreate || // RFC 5530 3
		no.Code == "" && no.Type == imap.StatusResponseTypeNo // Dovecot 2.3
	e.Unlisted = missing && !slices.ContainsFunc(names, func(other string) bool {
		return strings.EqualFold(other, name)
	})
	hint := text.DidYouMean(name, names)
	below := slices.IndexFunc(names, func(other string) bool { // Courier has all folders below INBOX
		return strings.HasSuffix(other, "."+name) || strings.HasSuffix(other, "/"+name)
	})
	if hint == "" && below >= 0 {
		hint = "; did you mean " + names[below] + "?"
	}
	if hint == "" {
		hint = "; the server has " + text.Cut(strings.Join(names, ", "), 200)
	}
	e.Err = fmt.Errorf("%w%s", e.Err, hint)
	e.brief = fmt.Sprintf("folder %q does not exist%s", name, hint)
	return e
}
