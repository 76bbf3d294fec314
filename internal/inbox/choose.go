package inbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

// Named looks up inboxes by their addresses, each once and in that order, disabled ones too.
func (s *Store) Named(ctx context.Context, addresses []string) ([]Inbox, error) {
	var boxes []Inbox
	for _, address := range addresses {
		in, err := s.Get(ctx, address)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(boxes, func(known Inbox) bool { return known.ID == in.ID }) {
			boxes = append(boxes, in)
		}
	}
	return boxes, nil
}

// HostPort is the server of the inbox as host:port, with an IPv6 address in brackets.
func (in Inbox) HostPort() string { return net.JoinHostPort(in.Host, strconv.Itoa(in.Port)) }

// Server is where the inbox is: host:port and security.
func (in Inbox) Server() string { return in.HostPort() + " " + string(in.Security) }

// Account is equal for inboxes that log in to one account: by server and username, in any case.
func (in Inbox) Account() string { return strings.ToLower(in.HostPort() + " " + in.Username) }

// Watched are the names of the folders that are watched.
func (in Inbox) Watched() []string {
	var names []string
	for _, f := range in.Folders {
		if f.Active {
			names = append(names, f.Name)
		}
	}
	return names
}

// Epoch is the UIDVALIDITY that the server had at the last scan.
func (f Folder) Epoch() uint32 { return uint32(f.UIDValidity) }

// Back is how far back the cursors of an inbox go in a rewind.
type Back struct {
	Folder string // only this one; empty for all that are watched
	UID    uint32 // to this UID; 0 for the beginning of the folder
	Since  string // or to the first message received on that day, YYYY-MM-DD; empty for UID
}

// Folders are the folders to rewind. A choice that makes no sense is an *InvalidError.
func (b Back) Folders(in Inbox) ([]Folder, error) {
	chosen := slices.DeleteFunc(slices.Clone(in.Folders), func(f Folder) bool {
		// INBOX is the one name without case (RFC 3501 5.1).
		named := f.Name == b.Folder || f.Name == "INBOX" && strings.EqualFold(b.Folder, f.Name)
		return !f.Active || b.Folder != "" && !named
	})
	names := strings.Join(in.Watched(), ", ")
	switch {
	case len(chosen) == 0:
		return nil, &InvalidError{
			fmt.Errorf("inbox %s does not watch a folder %q; it watches %s", in.Address, b.Folder, names),
		}
	case len(chosen) > 1 && b.UID > 0 && b.Since == "":
		return nil, &InvalidError{errors.New("a UID belongs to one folder; choose it with --folder: " + names)}
	}
	return chosen, nil
}
