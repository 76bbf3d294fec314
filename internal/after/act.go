package after

import (
	"context"
	"slices"

	"postrider/internal/imapsrc"
	"postrider/internal/route"
)

// act carries out the action on messages that were identified. What a server refuses for several
// messages is tried for each.
func (v *visit) act(ctx context.Context, at place, jobs []*job) {
	if len(jobs) == 0 {
		return
	}
	err := v.do(ctx, at, jobs)
	if err == nil {
		err = v.verify(ctx, at, open(jobs))
	}
	switch jobs = open(jobs); {
	case err == nil:
		_, did := words(at.action)
		for _, j := range jobs {
			j.done(did)
			v.log.Info(did, "task", j.task.ID, "folder", at.folder, "uid", j.task.UID)
		}
	case ofKind(err, imapsrc.KindMessage) && len(jobs) > 1:
		for _, j := range jobs {
			if err := v.openFolder(ctx, at); err != nil {
				v.fail(ctx, open(jobs), err)
				return
			}
			if v.act(ctx, at, []*job{j}); v.stopped {
				return
			}
		}
	default:
		v.fail(ctx, jobs, err)
	}
}

// verify refuses the jobs whose message is still in the open folder: to a login without the right
// to delete, some servers answer OK and do nothing. A message without a size counts as gone: the
// server does not describe it.
func (v *visit) verify(ctx context.Context, at place, jobs []*job) error {
	if _, marks := at.action.Flag(); marks || len(jobs) == 0 {
		return nil
	}
	if v.conn.IsGmail() && at.action != route.Delete { // a move adds a label: from All Mail it takes nothing
		return nil
	}
	there, err := v.conn.Metadata(ctx, uidsOf(jobs))
	for _, j := range jobs {
		if slices.ContainsFunc(there, func(m imapsrc.Meta) bool { return m.UID == j.task.UID && m.Size > 0 }) {
			j.stays("the server answers OK, but the message is still in its folder; " +
				"the login may lack the right to delete there")
		}
	}
	return err
}

func (v *visit) do(ctx context.Context, at place, jobs []*job) error {
	uids := uidsOf(jobs)
	if flag, ok := at.action.Flag(); ok {
		if !v.conn.Keeps(flag) {
			return &cannot{"the folder does not keep the flag " + flag}
		}
		return v.conn.AddFlag(ctx, uids, flag)
	}
	if folder, ok := at.action.Folder(); ok {
		return v.move(ctx, at, jobs, folder)
	}
	if v.conn.IsGmail() { // where EXPUNGE archives a message
		trash, err := v.conn.Trash(ctx)
		if err == nil && trash == "" {
			err = errNoTrash
		}
		if err != nil {
			return err
		}
		return v.conn.Move(ctx, uids, trash)
	}
	if !v.conn.ExpungesByUID() {
		return errNoUIDPLUS
	}
	return v.conn.Expunge(ctx, uids)
}

func uidsOf(jobs []*job) []uint32 {
	uids := make([]uint32, len(jobs))
	for i, j := range jobs {
		uids[i] = j.task.UID
	}
	return uids
}
