package cmd

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"postrider/internal/inbox"
	"postrider/internal/pass"
	"postrider/internal/text"
)

func (a *app) inboxShowCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "show ADDR [--json]",
		Short: "Show the settings and cursors of an inbox",
		Long: `show shows the settings of an inbox, and the cursors of its folders.
` + exitHelp,
		Args:              takes(1, "the ADDR of one inbox"),
		ValidArgsFunction: a.addresses,
		RunE: func(c *cobra.Command, args []string) error {
			return a.inboxShow(c.Context(), args[0], asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func (a *app) inboxShow(ctx context.Context, address string, asJSON bool) error {
	return a.with(ctx, func(s *services) error {
		in, err := s.inboxes.Get(ctx, address)
		if err != nil {
			return err
		}
		logins, err := s.logins(ctx)
		if err != nil {
			return err
		}
		if asJSON {
			a.printJSON(s.inboxes.View(in, logins[in.ID]))
			return nil
		}
		a.fields(
			"inbox", in.Address, "description", in.Description, "active", yesNo(in.Active), "server", in.Server(),
			"username", in.Username, "auth", in.Auth, "CA file", in.CAFile, "TLS fingerprint", in.TLSFingerprint,
			"client certificate", in.ClientCert, "password", s.inboxes.PasswordFrom(in), "start", string(in.Start),
			"may delete", yesNo(in.AllowDelete), "labels", strings.Join(in.Labels.Texts(), ", "),
			"added", a.when(&in.CreatedAt), "changed", a.when(&in.UpdatedAt),
			"last scan", a.when(in.LastScannedAt), "last error", scanError(in.Address, in.LastError, logins[in.ID]))
		g := a.table("folder", "watched", "UIDVALIDITY", "cursor", "start", "last scan")
		for _, f := range in.Folders {
			if f.InitializedAt == nil {
				g.Add(f.Name, yesNo(f.Active), "", "", "", "never")
				continue
			}
			g.Add(f.Name, yesNo(f.Active), f.Epoch(), f.LastSeenUID, f.StartUID, a.when(f.LastScannedAt))
		}
		a.printed(g.Print(a.out))
		return nil
	})
}

func (a *app) showCheck(c pass.InboxCheck) {
	if c.Error != "" {
		a.print("%s: FAILED: %s\n", c.Email, text.Line(c.Error))
	} else {
		a.print("%s: logged in to %s\n  offers: %s\n  folders: %s\n", c.Email, text.Line(c.Server),
			text.Line(strings.Join(c.Capabilities, " ")), folderList(c))
	}
	for _, f := range c.Watched {
		a.print("  %s: %s\n", text.Line(f.Name), folderCheck(f))
	}
}

// folderCheck is what there is to say about the folder, in one line.
func folderCheck(f pass.FolderCheck) string {
	there := fmt.Sprintf("%s, UIDVALIDITY %d, UIDNEXT %d; ",
		text.Count(int(f.Messages), "message"), f.UIDValidity, f.UIDNext)
	above := fmt.Sprintf("UID %d with %s above it", f.Cursor, text.Count(f.Above, "message"))
	switch {
	case f.Error != "":
		return "FAILED: " + text.Line(f.Error)
	case !f.Scanned:
		return there + "never scanned, the cursor would start at " + above
	case f.Changed != 0:
		return there + fmt.Sprintf("UIDVALIDITY was %d at the last scan: "+
			"the next run compares all messages with the registered ones", f.Changed)
	}
	return there + "the cursor is at " + above
}

// showRewind returns the plans that move a cursor, and says which do not; of those that do, it says
// what they would do if asked to.
func (a *app) showRewind(in inbox.Inbox, plans []pass.Rewind, asked bool) (moves []pass.Rewind) {
	for _, p := range plans {
		where := in.Address + " " + text.Line(p.Folder.Name)
		if p.Moves() {
			moves = append(moves, p)
		}
		switch {
		case p.Unscanned():
			a.print("%s: was never scanned and has no cursor yet; there is nothing to rewind\n", where)
		case !p.Moves():
			a.print("%s: the cursor is at UID %d, not above UID %d; there is nothing to rewind\n",
				where, p.Folder.LastSeenUID, p.To)
		case asked:
			a.print("%s: from UID %d back to UID %d, with %s above it on the server: "+
				"%d registered and not forwarded again, %d to be registered by the next run\n",
				where, p.Folder.LastSeenUID, p.To, text.Count(p.Registered+p.Fresh, "message"), p.Registered, p.Fresh)
		}
	}
	return moves
}

// rewound says what was done, and what the next run makes of it.
func (a *app) rewound(in inbox.Inbox, p pass.Rewind) {
	next := "All messages above it are registered already: the next run forwards none of them."
	if p.Fresh > 0 {
		next = fmt.Sprintf("The next run registers %s and forwards them by the current routes; "+
			"to see how: postrider run --dry-run --inbox %s",
			text.Count(p.Fresh, "message"), text.Arg(in.Address))
	}
	a.tell("Done: the cursor of %s %s is at UID %d. %s\n", in.Address, text.Line(p.Folder.Name), p.To, next)
}
