package after

import (
	"context"
	"fmt"
	"slices"

	"postrider/internal/imapsrc"
)

func (v *visit) move(ctx context.Context, at place, jobs []*job, folder string) error {
	switch {
	case v.conn.Moves():
		return v.creating(ctx, folder, func() error { return v.conn.Move(ctx, uidsOf(jobs), folder) })
	case v.conn.ExpungesByUID():
		return v.copyAndExpunge(ctx, at, jobs, folder)
	}
	return errNoMove
}

// maxCopies is how often a message is copied that is not confirmed, or not deleted afterwards.
const maxCopies = 3

// copyAndExpunge moves messages on servers without MOVE. Killed in between, the next try finds the
// copies.
func (v *visit) copyAndExpunge(ctx context.Context, at place, jobs []*job, folder string) error {
	var missing []*job
	err := v.creating(ctx, folder, func() error {
		opened, err := v.conn.Select(ctx, folder)
		if err == nil {
			missing, err = v.uncopied(ctx, opened, jobs)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := v.openFolder(ctx, at); err != nil {
		return err
	}
	if len(missing) > 0 {
		copied, err := v.conn.Copy(ctx, uidsOf(missing), folder)
		if err != nil {
			return err
		}
		for _, j := range missing {
			switch {
			case slices.Contains(copied, j.task.UID):
				j.copied = true
			case j.claim.Attempts >= maxCopies: // nor was one found by those before
				j.dead("the server does not confirm the copy (no COPYUID); look into the folder " + folder)
			default: // if it was copied, the next try finds it
				j.refused("the server does not confirm the copy (no COPYUID)")
			}
		}
	}
	if jobs = open(jobs); len(jobs) == 0 {
		return nil
	}
	return v.conn.Expunge(ctx, uidsOf(jobs))
}

// creating runs f, and once more after it made the folder, if that was missing and may be made.
func (v *visit) creating(ctx context.Context, folder string, f func() error) error {
	err := f()
	if !ofKind(err, imapsrc.KindNoFolder) {
		return err
	}
	if !v.worker.CreateFolders {
		return &notNow{fmt.Sprintf("there is no folder %q; create it, or set after.create_folders", folder)}
	}
	made := v.conn.Create(ctx, folder) // fails if another client has just created it
	if err = f(); made != nil && err != nil {
		return made
	}
	return err
}
