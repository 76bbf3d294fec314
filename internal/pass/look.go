package pass

import (
	"context"
	"errors"
	"slices"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/text"
)

// Server is a Source that can be looked at, *imapsrc.Conn.
type Server interface {
	Source
	ServerName() string // empty before the first command
	Capabilities() []string
	Folders(ctx context.Context) ([]string, error)
	Counts(ctx context.Context, folders []string) (map[string]uint32, error)
}

// InboxCheck is what a login to an inbox showed. It is what `inbox check --json` prints.
type InboxCheck struct {
	Email        string        `json:"email"`
	Error        string        `json:"error"` // why nothing more is known; empty when the login worked
	Server       string        `json:"server"`
	Capabilities []string      `json:"capabilities"`
	Folders      []string      `json:"folders"` // all folders on the server
	Watched      []FolderCheck `json:"watched"`

	Counts map[string]uint32 `json:"counts"` // messages by folder, as far as the server counts them
}

// FolderCheck is one watched folder.
type FolderCheck struct {
	Name        string `json:"name"`
	Error       string `json:"error"`
	Messages    uint32 `json:"messages"`
	UIDValidity uint32 `json:"uid_validity"`
	UIDNext     uint32 `json:"uid_next"`
	Scanned     bool   `json:"scanned"`          // false: the cursor is where it would start
	Changed     uint32 `json:"uid_validity_was"` // at the last scan, when it differs
	Cursor      uint32 `json:"cursor"`
	Above       int    `json:"above"` // messages above the cursor

	First   *FirstMessage `json:"first"` // the first above the cursor, of a folder that was never scanned
	Missing bool          `json:"-"`     // the server does not open a folder of that name
}

// Failed reports whether the login or a folder failed.
func (c InboxCheck) Failed() bool {
	return c.Error != "" || slices.ContainsFunc(c.Watched, func(f FolderCheck) bool { return f.Error != "" })
}

// Look logs in to an inbox and looks into each watched folder. It changes nothing.
func Look[S Server](ctx context.Context, dial Dial[S], in inbox.Inbox) InboxCheck {
	check := InboxCheck{
		Email: in.Address, Server: in.Server(), Capabilities: []string{}, Folders: []string{}, Watched: []FolderCheck{},
		Counts: map[string]uint32{},
	}
	src, err := dial(ctx, in)
	if err != nil {
		check.Error = text.Error(err)
		return check
	}
	defer func() { _ = src.Close() }()
	check.Capabilities = append(check.Capabilities, src.Capabilities()...)
	folders, err := src.Folders(ctx)
	if err == nil {
		check.Counts, err = src.Counts(ctx, folders)
	}
	if name := src.ServerName(); name != "" { // known since the first command
		check.Server += ", " + name
	}
	if err != nil {
		check.Error = text.Error(err)
		return check
	}
	check.Folders = append(check.Folders, folders...)
	for _, f := range in.Folders {
		if !f.Active {
			continue
		}
		fc, err := lookInto(ctx, src, f, in.Start)
		if err != nil {
			fc.Error, fc.Missing = text.Brief(err), imapsrc.KindOf(err) == imapsrc.KindNoFolder
		}
		check.Watched = append(check.Watched, fc)
	}
	return check
}

// OpenFolders opens each watched folder, as a pass does. The error names all that cannot be opened.
func OpenFolders(ctx context.Context, src Source, in inbox.Inbox) error {
	var errs []error
	for _, name := range in.Watched() {
		_, err := src.Select(ctx, name)
		if errs = append(errs, err); lost(err) {
			break
		}
	}
	return errors.Join(errs...)
}

func lookInto(ctx context.Context, src Source, f inbox.Folder, start inbox.Start) (FolderCheck, error) {
	fc := FolderCheck{Name: f.Name, Scanned: f.InitializedAt != nil, Cursor: f.LastSeenUID}
	info, next, err := selectFolder(ctx, src, f.Name)
	if err != nil {
		return fc, err
	}
	fc.Messages, fc.UIDValidity, fc.UIDNext = info.Messages, info.UIDValidity, next
	switch {
	case !fc.Scanned:
		if fc.Cursor, err = StartUID(ctx, src, start, info, next); err != nil {
			return fc, err
		}
	case f.Epoch() != info.UIDValidity:
		fc.Changed, fc.Cursor = f.Epoch(), 0
	}
	above, err := src.UIDs(ctx, fc.Cursor+1, next-1)
	fc.Above = len(above)
	if err == nil && !fc.Scanned && len(above) > 0 {
		fc.First, err = lookAt(ctx, src, above[0])
	}
	return fc, err
}

// selectFolder opens a folder and returns its UIDNEXT, even when the server gives none.
func selectFolder(ctx context.Context, src Source, name string) (info imapsrc.Folder, next uint32, err error) {
	if info, err = src.Select(ctx, name); err != nil {
		return info, 0, err
	}
	next, err = UIDNext(ctx, src, info)
	return info, next, err
}
