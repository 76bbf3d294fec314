package pass

import (
	"context"
	"fmt"

	"postrider/internal/imapsrc"
)

// eachWindow lists the folder, up to the cursor and to the last registered message at least: the
// last messages may be gone.
func (a *auditor) eachWindow(
	ctx context.Context, f *auditedFolder, each func(*window, []uint32) error,
) (listed int, _ error) {
	for w := newWindow(1, max(f.folder.next, f.known+1)); w.more(); {
		uids, err := a.visit.session.list(ctx, f.folder, w.from, w.to)
		if err == nil {
			err = each(w, uids)
		}
		if err != nil {
			return listed, err
		}
		listed += len(uids)
		w.advance(len(uids))
	}
	return listed, nil
}

// complete returns an error if the server says that the folder has more messages than it lists,
// because nothing is known about the others. It counts twice, because messages come and go.
func (a *auditor) complete(ctx context.Context, f *auditedFolder, listed int) error {
	for counted := 1; listed < int(f.said); counted++ {
		before := f.said
		err := a.visit.session.reopen(ctx, f.folder.row.Name, func(src Source, info imapsrc.Folder) (err error) {
			f.said = info.Messages
			f.folder.next, err = UIDNext(ctx, src, info) // what has arrived is counted, too
			return err
		})
		if said := min(before, f.said); err == nil && counted > 1 && listed < int(said) {
			err = fmt.Errorf("the server says that the folder has %d messages, and lists %d; "+
				"nothing can be proved about the others", said, listed)
		}
		if err != nil {
			return err
		}
		if listed, err = a.eachWindow(ctx, f, func(*window, []uint32) error { return nil }); err != nil {
			return err
		}
	}
	return nil
}
