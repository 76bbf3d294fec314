package cmd

import (
	"errors"

	"github.com/spf13/cobra"

	"postrider/internal/inbox"
)

// inboxFlags are the settings of an inbox, for add and set.
type inboxFlags struct {
	host           string
	port           int
	security       inbox.Security
	allowPlaintext bool
	username       string
	auth           string
	description    string
	folders        []string
	start          inbox.Start
	password       passwordFlags
}

func (f *inboxFlags) register(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.host, "host", "", "the IMAP server's `NAME` or address")
	flags.IntVar(&f.port, "port", 0, "its port `N` (default 993 for tls, else 143)")
	flags.StringVar((*string)(&f.security), "security", "", "`tls|starttls|none` (default tls)")
	flags.BoolVar(&f.allowPlaintext, "allow-plaintext", false, "with --security none: send the password in the clear to a host other than this one")
	flags.StringVar(&f.username, "username", "", "`NAME` for the login (default ADDR)")
	flags.StringVar(&f.auth, "auth", "", "`auto|plain|login` (default auto)")
	flags.StringVar(&f.description, "description", "", "a note for people, any `TEXT`")
	flags.StringArrayVar(&f.folders, "folder", nil, "watch the folder `NAME`, may be repeated (default INBOX)")
	flags.StringVar((*string)(&f.start), "start", "", "`WHERE` the cursor of a folder begins: latest, now, all or since:YYYY-MM-DD (default latest)")
	f.password.register(c)
}

// check refuses what the store would take for a setting that was left out.
func (f *inboxFlags) check(c *cobra.Command) error {
	if c.Flags().Changed("port") && f.port == 0 {
		return usage(errors.New("--port is 0; use 1 to 65535"))
	}
	return nil
}

// inbox is the inbox that add makes; what is left out gets its default there.
func (f *inboxFlags) inbox(address string) inbox.Inbox {
	in := inbox.Inbox{
		Address: address, Description: f.description, Host: f.host, Port: f.port, Security: f.security,
		AllowPlaintext: f.allowPlaintext, Username: f.username, Auth: f.auth, Start: f.start,
	}
	for _, name := range f.folders {
		in.Folders = append(in.Folders, inbox.Folder{Name: name})
	}
	return in
}

// changes are the flags that were given, for set.
func (f *inboxFlags) changes(c *cobra.Command) inbox.Changes {
	return inbox.Changes{
		Description:    given(c, "description", &f.description),
		Host:           given(c, "host", &f.host),
		Port:           given(c, "port", &f.port),
		Security:       given(c, "security", &f.security),
		AllowPlaintext: given(c, "allow-plaintext", &f.allowPlaintext),
		Username:       given(c, "username", &f.username),
		Auth:           given(c, "auth", &f.auth),
		Start:          given(c, "start", &f.start),
		Folders:        f.folders,
	}
}

// given is the value of a flag, nil when it was not given.
func given[T any](c *cobra.Command, flag string, value *T) *T {
	if !c.Flags().Changed(flag) {
		return nil
	}
	return value
}
