package testserver

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
)

// account is the system user that a server runs as.
type account struct {
	name, group string
	uid, gid    uint32
}

// plainAccount is whoever runs the tests, or nobody when that is root: Dovecot serves no mail of
// root's.
func plainAccount() (*account, error) {
	u, err := user.Current()
	if err == nil && os.Getuid() == 0 {
		u, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, fmt.Errorf("find the user to run servers as: %w", err)
	}
	g, err := user.LookupGroupId(u.Gid)
	if err != nil {
		return nil, fmt.Errorf("find the group to run servers as: %w", err)
	}
	uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
	if uidErr != nil || gidErr != nil {
		return nil, fmt.Errorf("find the user to run servers as: %q has no numeric id", u.Username)
	}
	return &account{name: u.Username, group: g.Name, uid: uint32(uid), gid: uint32(gid)}, nil
}

// own gives path to the account; without root's rights it is the account's already.
func (a *account) own(path string) error {
	if os.Getuid() != 0 {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}
