package testserver

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
)

// CreateFolder makes a folder. One that was deleted before comes back with another UIDVALIDITY.
func (s *IMAP) CreateFolder(t testing.TB, user, folder string) {
	t.Helper()
	s.session(t, "create the folder "+folder, user, func(c *imapclient.Client) error {
		return c.Create(folder, nil).Wait()
	})
}

// DeleteFolder deletes a folder with all that is in it.
func (s *IMAP) DeleteFolder(t testing.TB, user, folder string) {
	t.Helper()
	s.session(t, "delete the folder "+folder, user, func(c *imapclient.Client) error {
		return c.Delete(folder).Wait()
	})
}

// Append puts messages into a folder, which it makes if need be, and returns their UIDs in the same
// order.
func (s *IMAP) Append(t testing.TB, user, folder string, msgs ...[]byte) []uint32 {
	t.Helper()
	var uids []uint32
	s.session(t, fmt.Sprintf("append %d messages to %s", len(msgs), folder), user, func(c *imapclient.Client) error {
		if err := createMissing(c, folder); err != nil {
			return err
		}
		var err error
		uids, err = appendAll(c, folder, msgs)
		return err
	})
	return uids
}

func createMissing(c *imapclient.Client, folder string) error {
	err := c.Create(folder, nil).Wait()
	var no *imap.Error
	// Cyrus has no code.
	if errors.As(err, &no) &&
		(no.Code == imap.ResponseCodeAlreadyExists || strings.Contains(no.Text, "already exists")) {
		return nil
	}
	return err
}

// appendAll does not wait for one answer before it sends the next message: with LITERAL+ (RFC 7888)
// it need not.
func appendAll(c *imapclient.Client, folder string, msgs [][]byte) ([]uint32, error) {
	var cmds []*imapclient.AppendCommand
	for _, msg := range msgs {
		cmd := c.Append(folder, int64(len(msg)), nil)
		_, err := cmd.Write(msg)
		if err := errors.Join(err, cmd.Close()); err != nil {
			return nil, err
		}
		cmds = append(cmds, cmd)
	}
	var uids []uint32
	for _, cmd := range cmds {
		data, err := cmd.Wait()
		if err != nil {
			return nil, err
		}
		uids = append(uids, uint32(data.UID))
	}
	return uids, nil
}

// Expunge removes the messages with these UIDs.
func (s *IMAP) Expunge(t testing.TB, user, folder string, uids ...uint32) {
	t.Helper()
	var set imap.UIDSet
	for _, uid := range uids {
		set.AddNum(imap.UID(uid))
	}
	s.session(t, "expunge messages of "+folder, user, func(c *imapclient.Client) error {
		if _, err := c.Select(folder, nil).Wait(); err != nil {
			return err
		}
		flags := &imap.StoreFlags{Op: imap.StoreFlagsAdd, Silent: true, Flags: []imap.Flag{imap.FlagDeleted}}
		if err := c.Store(set, flags, nil).Close(); err != nil {
			return err
		}
		return c.UIDExpunge(set).Close()
	})
}

// session runs f on one connection of the user's.
func (s *IMAP) session(t testing.TB, doing, user string, f func(*imapclient.Client) error) {
	t.Helper()
	password, known := s.passwords.Load(user)
	if !known {
		t.Fatalf("%s of %s: no such user; AddUser comes first", doing, user)
	}
	c, err := s.dial(user, password.(string))
	if err != nil {
		t.Fatalf("%s of %s: %v", doing, user, err)
	}
	defer func() { _ = c.Close() }()
	if err := f(c); err != nil {
		t.Fatalf("%s of %s: %v", doing, user, err)
	}
	if err := c.Logout().Wait(); err != nil {
		t.Fatalf("%s of %s: log out: %v", doing, user, err)
	}
}

func (s *IMAP) dial(user, password string) (*imapclient.Client, error) {
	c, err := imapclient.DialInsecure(address(s.Port), nil)
	if err != nil {
		return nil, err
	}
	if err := c.Login(user, password).Wait(); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}
