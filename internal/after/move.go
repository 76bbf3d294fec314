package after

import (
	"context"
	"fmt"

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

// copyAndExpunge moves messages on servers without MOVE. Killed in between, the next try finds the
// copies.
func (v *visit) copyAndExpunge(ctx context.Context, at place, jobs []*job, folder string) error {
	var there map[*job]bool
	err := v.creating(ctx, folder, func() (err error) {
		if _, err = v.conn.Select(ctx, folder); err == nil {
			there, err = v.copies(ctx, jobs)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := v.openFolder(ctx, at); err != nil {
		return err
	}
	var missing []*job
	for _, j := range jobs {
		if !there[j] {
			missing = append(missing, j)
		}
	}
	if len(missing) > 0 {
		if err := v.conn.Copy(ctx, uidsOf(missing), folder); err != nil {
			return err
		}
	}
	return v.conn.Expunge(ctx, uidsOf(jobs))
}

// creating runs f, and once more after it made the folder, if that was missing and may be made.
func (v *visit) creating(ctx context.Context, folder string, f func() error) error {
	err := f()
	if !ofKind(err, imapsrc.KindNoFolder) {
		return err
	}
	if !v.CreateFolders {
		return &notNow{fmt.Sprintf("there is no folder %q; create it, or set after.create_folders", folder)}
	}
	if err := v.conn.Create(ctx, folder); err != nil {
		return err
	}
	return f()
}
