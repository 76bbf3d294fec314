package cmd

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/pass"
)

// inboxCheck is what a look at the server showed, as JSON.
type inboxCheck struct {
	Email        string        `json:"email"`
	Error        string        `json:"error"` // why there is nothing more to tell; empty when the login worked
	Server       string        `json:"server"`
	Capabilities []string      `json:"capabilities"`
	Folders      []string      `json:"folders"` // all that there are on the server
	Watched      []folderCheck `json:"watched"`
}

// folderCheck is one watched folder.
type folderCheck struct {
	Name        string `json:"name"`
	Error       string `json:"error"`
	Messages    uint32 `json:"messages"`
	UIDValidity uint32 `json:"uid_validity"`
	UIDNext     uint32 `json:"uid_next"`
	Scanned     bool   `json:"scanned"`          // false: the cursor is where it would start
	Changed     uint32 `json:"uid_validity_was"` // the UIDVALIDITY of the last scan, where it was another
	Cursor      uint32 `json:"cursor"`
	Above       int    `json:"above"` // messages above the cursor
}

func (a *app) inboxCheckCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "check ADDR... [--json]",
		Short: "Log in to inboxes and show what is there and where the cursor would start",
		Long: `check logs in and shows what the server offers, its folders, and for each watched folder where
the cursor stands or would start, and how many messages lie above it. It changes nothing. The
exit code is 75 when some of the inboxes fail, and 1 when all do.
` + exitHelp,
		Args:              takes(1, 0, "the ADDR of an inbox, or several"),
		ValidArgsFunction: a.addresses,
		RunE:              func(c *cobra.Command, args []string) error { return a.inboxCheck(c.Context(), args, asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return c
}

func (a *app) inboxCheck(ctx context.Context, addresses []string, asJSON bool) error {
	return a.with(ctx, func(s *services) error {
		boxes, err := s.all(ctx, addresses)
		if err != nil {
			return err
		}
		d, err := s.dialer()
		if err != nil {
			return err
		}
		failed := 0
		for _, in := range boxes {
			check := look(ctx, d, in)
			if check.failed() {
				failed++
			}
			show := a.showCheck
			if asJSON {
				show = func(c inboxCheck) error { return a.printJSON(c) }
			}
			if err := show(check); err != nil {
				return err
			}
		}
		return outcome(failed, len(boxes))
	})
}

// outcome is the exit code of a check whose failures have been printed.
func outcome(failed, all int) error {
	switch failed {
	case 0:
		return nil
	case all:
		return &exitError{code: exitFailed}
	}
	return errRetry
}

func (c inboxCheck) failed() bool {
	for _, f := range c.Watched {
		if f.Error != "" {
			return true
		}
	}
	return c.Error != ""
}

// look logs in and looks into every watched folder.
func look(ctx context.Context, d *dialer, in inbox.Inbox) inboxCheck {
	check := inboxCheck{Email: in.Address, Server: server(in), Capabilities: []string{}, Folders: []string{}, Watched: []folderCheck{}}
	conn, err := d.dial(ctx, in)
	if err != nil {
		check.Error = oneLine(err)
		return check
	}
	defer func() { _ = conn.Close() }()
	if name := conn.ServerName(); name != "" {
		check.Server += ", " + name
	}
	check.Capabilities = append(check.Capabilities, conn.Capabilities()...)
	folders, err := conn.Folders(ctx)
	if err != nil {
		check.Error = oneLine(err)
		return check
	}
	check.Folders = append(check.Folders, folders...)
	for _, f := range in.Folders {
		if !f.Active {
			continue
		}
		fc, err := lookInto(ctx, conn, f, in.Start)
		if err != nil {
			fc.Error = oneLine(err)
		}
		check.Watched = append(check.Watched, fc)
	}
	return check
}

func lookInto(ctx context.Context, conn *imapsrc.Conn, f inbox.Folder, start inbox.Start) (folderCheck, error) {
	fc := folderCheck{Name: f.Name, Scanned: f.InitializedAt != nil, Cursor: f.LastSeenUID}
	info, next, err := openFolder(ctx, conn, f.Name)
	if err != nil {
		return fc, err
	}
	fc.Messages, fc.UIDValidity, fc.UIDNext = info.Messages, info.UIDValidity, next
	switch {
	case !fc.Scanned:
		if fc.Cursor, err = pass.StartUID(ctx, conn, start, info, next); err != nil {
			return fc, err
		}
	case serverEpoch(f) != info.UIDValidity:
		fc.Changed, fc.Cursor = serverEpoch(f), 0
	}
	above, err := conn.UIDs(ctx, fc.Cursor+1, next-1)
	fc.Above = len(above)
	return fc, err
}

// openFolder opens a folder and tells its UIDNEXT, also where the server does not.
func openFolder(ctx context.Context, conn *imapsrc.Conn, name string) (info imapsrc.Folder, next uint32, err error) {
	if info, err = conn.Select(ctx, name); err != nil {
		return info, 0, err
	}
	next, err = pass.UIDNext(ctx, conn, info)
	return info, next, err
}

func (a *app) showCheck(c inboxCheck) error {
	var b strings.Builder
	if c.Error != "" {
		fmt.Fprintf(&b, "%s: FAILED: %s\n", c.Email, printable(c.Error))
	} else {
		fmt.Fprintf(&b, "%s: logged in to %s\n  offers: %s\n  folders: %s\n", c.Email, printable(c.Server),
			printable(strings.Join(c.Capabilities, " ")), printable(strings.Join(c.Folders, ", ")))
	}
	for _, f := range c.Watched {
		fmt.Fprintf(&b, "  %s: %s\n", printable(f.Name), f)
	}
	_, err := fmt.Fprint(a.out, b.String())
	return err
}

// String is what there is to say about the folder, in one line.
func (f folderCheck) String() string {
	there := fmt.Sprintf("%d messages, UIDVALIDITY %d, UIDNEXT %d; ", f.Messages, f.UIDValidity, f.UIDNext)
	switch {
	case f.Error != "":
		return "FAILED: " + printable(f.Error)
	case !f.Scanned:
		return there + fmt.Sprintf("never scanned, the cursor would start at UID %d with %d messages above it", f.Cursor, f.Above)
	case f.Changed != 0:
		return there + fmt.Sprintf("UIDVALIDITY was %d at the last scan: the next run compares all messages with those registered", f.Changed)
	}
	return there + fmt.Sprintf("the cursor stands at UID %d with %d messages above it", f.Cursor, f.Above)
}
