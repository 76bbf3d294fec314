package pass

import (
	"context"
	"fmt"
	"slices"

	"postrider/internal/inbox"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

// Rewind is the cursor of a folder that moves back, and the messages above its new place.
type Rewind struct {
	Folder     inbox.Folder
	To         uint32
	Registered int // these are not forwarded again
	Fresh      int // these the next run registers
}

// Unscanned reports whether the folder was never scanned, so that there is no cursor to move.
func (r Rewind) Unscanned() bool { return r.Folder.InitializedAt == nil }

// Moves reports whether the cursor is above its new place.
func (r Rewind) Moves() bool { return r.To < r.Folder.LastSeenUID }

// PlanRewind finds out on the server where the cursors of the folders would go. It changes nothing.
// Of several folders, those that were never scanned do not move. It is an error if all are.
func PlanRewind(
	ctx context.Context, src Source, known tasks.Registrar, in inbox.Inbox, back inbox.Back,
) ([]Rewind, error) {
	folders, err := back.Folders(in)
	if err != nil {
		return nil, err
	}
	var plans []Rewind
	for _, f := range folders {
		p := Rewind{Folder: f, To: back.UID}
		if p.Unscanned() && slices.ContainsFunc(folders, func(f inbox.Folder) bool { return f.InitializedAt != nil }) {
			plans = append(plans, p)
			continue
		}
		if err := p.plan(ctx, src, known, in, back.Since); err != nil {
			return nil, err
		}
		plans = append(plans, p)
	}
	return plans, nil
}

func (r *Rewind) plan(ctx context.Context, src Source, known tasks.Registrar, in inbox.Inbox, since string) error {
	if r.Unscanned() {
		return fmt.Errorf("folder %q was never scanned and has no cursor yet; "+
			"to choose where it begins: `postrider inbox set %s --start all`",
			r.Folder.Name, text.Arg(in.Address))
	}
	info, next, err := selectFolder(ctx, src, r.Folder.Name)
	switch {
	case err != nil:
		return err
	case info.UIDValidity != r.Folder.Epoch():
		return fmt.Errorf("the UIDVALIDITY of folder %q has changed since the last run; "+
			"first do `postrider run --inbox %s`, which compares all its messages with the registered ones",
			r.Folder.Name, text.Arg(in.Address))
	case since != "":
		if r.To, err = StartUID(ctx, src, inbox.Start("since:"+since), info, next); err != nil {
			return err
		}
	}
	uids, err := src.UIDs(ctx, r.To+1, next-1)
	if err != nil {
		return err
	}
	for part := range slices.Chunk(uids, 1000) {
		fresh, err := known.Unregistered(ctx, r.Folder.ID, r.Folder.UIDValidity, part)
		if err != nil {
			return err
		}
		r.Fresh += len(fresh)
	}
	r.Registered = len(uids) - r.Fresh
	return nil
}
