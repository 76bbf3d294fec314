package cmd

import (
	"fmt"
	"os"
	"os/user"
)

// who is the person at this command, for the audit trail. Behind sudo that is root, and whom sudo says it acts for.
func (a *app) who(host string) string {
	name := fmt.Sprintf("uid %d", os.Getuid()) // of a directory service that a static binary cannot ask
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if by, ok := a.env("SUDO_USER"); ok && by != "" && by != name {
		return fmt.Sprintf("%s@%s (%s by sudo)", name, host, by)
	}
	return name + "@" + host
}
