package cmd

import (
	"fmt"
	"os"
	"os/user"
)

// who is the person at this command, for the audit trail. Behind sudo that is root, and whom sudo says it acts for.
func (a *app) who() string {
	name, host := fmt.Sprintf("uid %d", os.Getuid()), "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	if by, ok := a.env("SUDO_USER"); ok && by != "" && by != name {
		return fmt.Sprintf("%s@%s (%s by sudo)", name, host, by)
	}
	return name + "@" + host
}
