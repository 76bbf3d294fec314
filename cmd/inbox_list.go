package cmd

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"postrider/internal/inbox"
)

// inboxView is an inbox as JSON. The password is not in it, only where it comes from.
type inboxView struct {
	Email          string         `json:"email"`
	Active         bool           `json:"active"`
	Description    string         `json:"description"`
	Host           string         `json:"host"`
	Port           int            `json:"port"`
	Security       inbox.Security `json:"security"`
	AllowPlaintext bool           `json:"allow_plaintext"`
	Username       string         `json:"username"`
	Auth           string         `json:"auth"`
	PasswordFrom   string         `json:"password_from"`
	Start          inbox.Start    `json:"start"`
	Folders        []folderView   `json:"folders"`
	LastScannedAt  *time.Time     `json:"last_scanned_at"`
	LastError      string         `json:"last_error"`
	CreatedAt      time.Time      `json:"created_at"`
	UpdatedAt      time.Time      `json:"updated_at"`
}

// folderView is a folder as JSON.
type folderView struct {
	Name          string     `json:"name"`
	Active        bool       `json:"active"`
	UIDValidity   uint32     `json:"uid_validity"`
	LastSeenUID   uint32     `json:"last_seen_uid"`
	StartUID      uint32     `json:"start_uid"`
	InitializedAt *time.Time `json:"initialized_at"`
	LastScannedAt *time.Time `json:"last_scanned_at"`
}

func viewInbox(in inbox.Inbox) inboxView {
	v := inboxView{
		Email: in.Address, Active: in.Active, Description: in.Description, Host: in.Host, Port: in.Port,
		Security: in.Security, AllowPlaintext: in.AllowPlaintext, Username: in.Username, Auth: in.Auth,
		PasswordFrom: in.PasswordFrom(), Start: in.Start, Folders: []folderView{},
		LastScannedAt: utc(in.LastScannedAt), LastError: in.LastError, CreatedAt: in.CreatedAt.UTC(), UpdatedAt: in.UpdatedAt.UTC(),
	}
	for _, f := range in.Folders {
		v.Folders = append(v.Folders, folderView{
			Name: f.Name, Active: f.Active, UIDValidity: serverEpoch(f), LastSeenUID: f.LastSeenUID, StartUID: f.StartUID,
			InitializedAt: utc(f.InitializedAt), LastScannedAt: utc(f.LastScannedAt),
		})
	}
	return v
}

// serverEpoch is the UIDVALIDITY that the server had when the folder was last scanned.
func serverEpoch(f inbox.Folder) uint32 { return uint32(f.UIDValidity) }

func (a *app) inboxListCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list [--json]",
		Short: "List the inboxes",
		Args:  takesNone,
		RunE:  func(c *cobra.Command, _ []string) error { return a.inboxList(c.Context(), asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return c
}

const noInbox = "There is no inbox; add one with `postrider inbox add ADDR --host HOST`."

func (a *app) inboxList(ctx context.Context, asJSON bool) error {
	return a.with(ctx, func(s *services) error {
		boxes, err := s.inboxes.List(ctx, false)
		if err != nil {
			return err
		}
		t := newTable(a.out, "inbox", "active", "server", "folders", "last scan", "last error")
		for _, in := range boxes {
			if asJSON {
				if err := a.printJSON(viewInbox(in)); err != nil {
					return err
				}
				continue
			}
			t.AppendRow(table.Row{
				in.Address, yesNo(in.Active), server(in), strings.Join(watched(in), ", "),
				a.when(in.LastScannedAt), shorten(printable(in.LastError), 60),
			})
		}
		if asJSON {
			return nil
		}
		return a.show(t, noInbox)
	})
}

func (a *app) inboxShowCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:               "show ADDR [--json]",
		Short:             "Show the settings of an inbox and where its cursors stand",
		Args:              takes(1, 1, "the ADDR of one inbox"),
		ValidArgsFunction: a.addresses,
		RunE:              func(c *cobra.Command, args []string) error { return a.inboxShow(c.Context(), args[0], asJSON) },
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
		if asJSON {
			return a.printJSON(viewInbox(in))
		}
		err = a.fields(
			"inbox", in.Address, "description", in.Description, "active", yesNo(in.Active), "server", server(in),
			"username", in.Username, "auth", in.Auth, "password", in.PasswordFrom(), "start", string(in.Start),
			"added", a.when(&in.CreatedAt), "changed", a.when(&in.UpdatedAt),
			"last scan", a.when(in.LastScannedAt), "last error", in.LastError)
		t := newTable(a.out, "folder", "watched", "UIDVALIDITY", "cursor", "start", "last scan")
		for _, f := range in.Folders {
			if f.InitializedAt == nil {
				t.AppendRow(table.Row{printable(f.Name), yesNo(f.Active), "", "", "", "never"})
				continue
			}
			t.AppendRow(table.Row{printable(f.Name), yesNo(f.Active), serverEpoch(f), f.LastSeenUID, f.StartUID, a.when(f.LastScannedAt)})
		}
		t.Render()
		return err
	})
}

// watched are the names of the folders that are watched.
func watched(in inbox.Inbox) []string {
	var names []string
	for _, f := range in.Folders {
		if f.Active {
			names = append(names, printable(f.Name))
		}
	}
	return names
}

func server(in inbox.Inbox) string {
	return net.JoinHostPort(in.Host, strconv.Itoa(in.Port)) + " " + string(in.Security)
}

// fields prints names and values side by side; those without a value are left out.
func (a *app) fields(pairs ...string) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for ; len(pairs) > 1; pairs = pairs[2:] {
		if pairs[1] == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "%s\t%s\n", pairs[0], printable(pairs[1])); err != nil {
			return err
		}
	}
	return w.Flush()
}

func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false) // Message-IDs are full of angle brackets
	return enc.Encode(v)
}
