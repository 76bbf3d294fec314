package imapsrc

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/emersion/go-imap/v2"
)

// SelectToChange is Select for a folder whose messages are to be changed (SELECT, RFC 3501 6.3.1).
// The error is also KindNoFolder when the server opens the folder read-only.
func (c *Conn) SelectToChange(ctx context.Context, name string) (Folder, error) {
	return c.selectFolder(ctx, name, false)
}

// Keeps reports whether the open folder stores a flag permanently (PERMANENTFLAGS, RFC 3501 7.1). A
// folder without that list, with an empty one, or with `\*` alone (go-imap), counts as storing all
// flags; the server refuses those that it does not. Otherwise `\*` stands for keywords only.
func (c *Conn) Keeps(flag string) bool {
	wildcard := !strings.HasPrefix(flag, `\`) || len(c.flags) == 1
	return c.flags == nil || slices.ContainsFunc(c.flags, func(f imap.Flag) bool {
		return strings.EqualFold(string(f), flag) || wildcard && f == imap.FlagWildcard
	})
}

// Moves reports whether the server has MOVE (RFC 6851).
func (c *Conn) Moves() bool { return c.caps.Has(imap.CapMove) }

// ExpungesByUID reports whether the server has UID EXPUNGE (RFC 4315).
func (c *Conn) ExpungesByUID() bool { return c.caps.Has(imap.CapUIDPlus) }

// AddFlag sets a flag on messages of the open folder. A message that does not exist is not an
// error. The error of this and the next methods is KindMessage if the server refuses, and
// KindNoFolder if there is no such folder.
func (c *Conn) AddFlag(ctx context.Context, uids []uint32, flag string) error {
	return c.change(ctx, "set "+flag+" in folder", uids, func(set imap.UIDSet) error {
		return c.store(set, imap.StoreFlagsAdd, flag)
	})
}

func (c *Conn) store(set imap.UIDSet, op imap.StoreFlagsOp, flag string) error {
	cmd := c.client.Store(set, &imap.StoreFlags{Op: op, Silent: true, Flags: []imap.Flag{imap.Flag(flag)}}, nil)
	for msg := cmd.Next(); msg != nil; msg = cmd.Next() { // silent or not, some servers show them
		c.handle(msg)
	}
	return cmd.Close()
}

// errNoMove and errNoExpunge are for a server without these extensions.
var (
	errNoMove    = errors.New("the server does not offer MOVE")
	errNoExpunge = errors.New("the server does not offer UIDPLUS, and without it other messages would be expunged, too")
)

// Move moves messages of the open folder to another one in one step. A message that does not exist
// is not an error. The server must have MOVE: otherwise nothing happens.
func (c *Conn) Move(ctx context.Context, uids []uint32, folder string) error {
	return c.change(ctx, "move to "+folder+" from folder", uids, func(set imap.UIDSet) error {
		if !c.Moves() { // the library would expunge whatever is marked as deleted
			return &Error{Kind: KindMessage, Err: errNoMove}
		}
		_, err := c.client.Move(set, folder).Wait()
		return err
	})
}

// Copy copies messages of the open folder to another one. It returns those that the server reports
// as copied (COPYUID, RFC 4315 3).
func (c *Conn) Copy(ctx context.Context, uids []uint32, folder string) (copied []uint32, _ error) {
	err := c.change(ctx, "copy to "+folder+" from folder", uids, func(set imap.UIDSet) error {
		data, err := c.client.Copy(set, folder).Wait()
		if err != nil {
			return err
		}
		for _, uid := range uids {
			if data.SourceUIDs.Contains(imap.UID(uid)) {
				copied = append(copied, uid)
			}
		}
		return nil
	})
	return copied, err
}

// Expunge deletes messages of the open folder for good, and no others. The server must have UID
// EXPUNGE: otherwise nothing happens.
func (c *Conn) Expunge(ctx context.Context, uids []uint32) error {
	return c.change(ctx, "delete from folder", uids, func(set imap.UIDSet) error {
		if !c.ExpungesByUID() {
			return &Error{Kind: KindMessage, Err: errNoExpunge}
		}
		err := c.store(set, imap.StoreFlagsAdd, string(imap.FlagDeleted))
		if err == nil {
			c.wire.expunging()
			err = c.client.UIDExpunge(set).Close()
		}
		if errors.As(err, new(*imap.Error)) { // else another client's EXPUNGE would delete them
			err = errors.Join(err, c.store(set, imap.StoreFlagsDel, string(imap.FlagDeleted)))
		}
		return err
	})
}

// change runs f for messages of the open folder, in as many commands as their UIDs need.
func (c *Conn) change(ctx context.Context, op string, uids []uint32, f func(imap.UIDSet) error) error {
	for _, set := range sets(sortedUnique(uids)) {
		err := c.do(ctx, op, smallAnswer, func() error { return c.refusedChange(f(set)) })
		if err != nil {
			return err
		}
	}
	return nil
}

// refusedChange says what a NO or BAD means: there is no such folder, or the server refuses the
// change.
func (c *Conn) refusedChange(err error) error {
	var no *imap.Error
	switch {
	case !errors.As(err, &no):
		return err
	case no.Code == imap.ResponseCodeTryCreate || no.Code == imap.ResponseCodeNonExistent:
		return &Error{Kind: KindNoFolder, Err: c.answer(no)}
	case no.Type == imap.StatusResponseTypeBad || no.Code == imap.ResponseCodeOverQuota:
		return &Error{Kind: KindMessage, Err: c.answer(no)}
	}
	return &Error{Kind: kindOf(no, KindMessage), Err: c.answer(no), BackOff: backOff(no.Text)}
}

// Create makes a folder. After that, no folder is open. It is not an error if the folder already
// exists.
func (c *Conn) Create(ctx context.Context, folder string) error {
	c.folder = "" // which the error would name
	return c.do(ctx, "create the folder "+strconv.Quote(folder), smallAnswer, func() error {
		err := c.client.Create(folder, nil).Wait()
		var no *imap.Error
		if errors.As(err, &no) && no.Code == imap.ResponseCodeAlreadyExists {
			return nil
		}
		return c.refusedChange(err)
	})
}

// WithMessageID returns the UIDs of messages in the open folder whose Message-ID contains id.
func (c *Conn) WithMessageID(ctx context.Context, id string) ([]uint32, error) {
	field := imap.SearchCriteriaHeaderField{Key: "Message-ID", Value: id}
	return c.search(ctx, &imap.SearchCriteria{Header: []imap.SearchCriteriaHeaderField{field}}, 1, 1<<32-1)
}

// IsGmail reports whether the server is Google's, where EXPUNGE only removes a label and keeps the
// message (X-GM-EXT-1).
func (c *Conn) IsGmail() bool { return c.caps.Has("X-GM-EXT-1") }

// Trash is the folder for deleted messages (RFC 6154); empty when the server names none.
func (c *Conn) Trash(ctx context.Context) (folder string, _ error) {
	err := c.do(ctx, "list the folders", listAnswer, func() error {
		return c.eachFolder(func(f *imap.ListData) {
			if slices.Contains(f.Attrs, imap.MailboxAttrTrash) && len(f.Mailbox) <= maxName {
				folder = f.Mailbox
			}
		})
	})
	return folder, err
}
