package after

import (
	"context"
	"slices"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/message"
	"postrider/internal/route"
	"postrider/internal/tasks"
)

// identify decides the jobs whose message is not the one that their task registered. It returns
// only database errors.
func (v *visit) identify(ctx context.Context, at place, jobs []*job) error {
	if len(jobs) == 0 {
		return nil
	}
	metas, err := v.conn.Metadata(ctx, uidsOf(jobs))
	if err != nil {
		v.fail(ctx, jobs, err)
		return nil
	}
	there := map[uint32]imapsrc.Meta{}
	for _, m := range metas {
		there[m.UID] = m
	}
	var doubtful []*job
	for _, j := range jobs {
		m, ok := there[j.task.UID]
		if !ok {
			j.gone(at.action)
			continue
		}
		noted, err := v.worker.Registry.Noted(ctx, at.folderID, at.epoch, j.task.UID, j.task.UID)
		if err != nil {
			return err
		}
		if len(noted) != 1 {
			j.dead("the registry does not know the message of this UID")
			continue
		}
		j.noted, j.size = noted[0], m.Size
		now := tasks.Stated{Received: m.Received, Size: m.Size}
		date, size := j.noted.Stated.Differs(now)
		switch {
		case j.noted.Like(now) == tasks.Another:
			j.dead("the UID has another message now")
		case date, size, at.action == route.Delete, !known(j.noted.Stated, now):
			doubtful = append(doubtful, j)
		}
	}
	v.read(ctx, doubtful)
	return nil
}

// known reports whether size and date are there to be compared.
func known(noted, now tasks.Stated) bool {
	return noted.Size > 0 && now.Size > 0 && !noted.Received.IsZero() && !now.Received.IsZero()
}

// read compares the contents of messages with what was noted.
func (v *visit) read(ctx context.Context, jobs []*job) {
	var uids []uint32
	by := map[uint32]*job{}
	for _, j := range jobs {
		if !j.noted.Read() {
			j.skip("its content was never read, so the message cannot be identified")
			continue
		}
		by[j.task.UID] = j
		uids = append(uids, j.task.UID)
	}
	if len(uids) == 0 {
		return
	}
	same := map[uint32]bool{}
	res, err := v.conn.Bodies(ctx, uids, func(uid uint32, m *message.Message) error {
		if j := by[uid]; j != nil {
			if same[uid] = m.Fingerprint == j.noted.Fingerprint; !same[uid] {
				j.dead("the UID has another message now")
			}
		}
		return m.Close()
	})
	for _, uid := range res.Vanished {
		by[uid].gone(route.Action(by[uid].claim.Action))
	}
	for uid, err := range res.Failed {
		by[uid].refused("its content cannot be read: " + err.Error())
	}
	if err == nil {
		err = &notNow{"the server did not send the content"}
	}
	if missing := slices.DeleteFunc(open(jobs), func(j *job) bool { return same[j.task.UID] }); len(missing) > 0 {
		v.fail(ctx, missing, err)
	}
}

// uncopied are the jobs whose message no try has copied to the open folder.
func (v *visit) uncopied(ctx context.Context, opened imapsrc.Folder, jobs []*job) (missing []*job, _ error) {
	for _, j := range jobs {
		there, err := v.copied(ctx, opened, j)
		if err != nil {
			return nil, err
		}
		if !there && !j.copied {
			missing = append(missing, j)
		}
	}
	return missing, nil
}

// maxCandidates bounds how many messages are read to find a copy: the newest ones.
const maxCandidates = 10

// copied finds no copy of a message whose content is not known: an extra copy is better than a lost
// message. The folder may be that of the message under another name; the message itself is no copy.
func (v *visit) copied(ctx context.Context, opened imapsrc.Folder, j *job) (bool, error) {
	if !j.noted.Read() {
		return false, nil
	}
	var uids []uint32
	var err error
	if id := j.task.Identity.MessageID; id != "" {
		uids, err = v.conn.WithMessageID(ctx, id)
	} else { // a copy keeps its INTERNALDATE; a day more, because the server has a time zone
		uids, err = v.conn.Since(ctx, 1, 1<<32-1, j.noted.Stated.Received.Add(-24*time.Hour))
	}
	if err != nil || len(uids) == 0 {
		return false, err
	}
	metas, err := v.conn.Metadata(ctx, uids)
	if err != nil {
		return false, err
	}
	var alike []uint32
	for _, m := range metas {
		itself := opened.UIDValidity == uint32(j.task.Epoch) && m.UID == j.task.UID
		if m.Size == j.size && !itself {
			alike = append(alike, m.UID)
		}
	}
	if len(alike) == 0 {
		return false, nil
	}
	found := false
	_, err = v.conn.Bodies(ctx, alike[max(0, len(alike)-maxCandidates):], func(_ uint32, m *message.Message) error {
		found = found || m.Fingerprint == j.noted.Fingerprint
		return m.Close()
	})
	return found, err
}
