package pass

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"postrider/internal/imapsrc"
	"postrider/internal/message"
	"postrider/internal/text"
)

// Why a message is not compared that is not on the server.
var (
	errGone  = errors.New("it is no longer on the server")
	errOther = errors.New("it is no longer on the server, which gave its UID to another message")
)

// read decides about messages of one folder and UIDVALIDITY: by their headers, and by the whole
// messages where those are not enough. It returns only the error of ctx; any other error is why a
// message is not compared.
func (a *replayer) read(ctx context.Context, place string, list []*replayed) error {
	for _, fetch := range []fetcher{Source.Headers, Source.Bodies} {
		if len(list) > 0 && a.shut == nil && a.bad[place] == nil {
			if err := a.fetchAll(ctx, list, fetch); ctx.Err() != nil {
				return ctx.Err()
			} else if err != nil {
				a.failed(place, err)
			}
		}
		list = slices.DeleteFunc(slices.Clone(list), func(it *replayed) bool {
			return it.now != nil || it.unknown != ""
		})
	}
	for _, it := range list {
		it.unknown = text.Error(cmp.Or(a.shut, a.bad[place], errGone))
	}
	return nil
}

// failed notes that nothing more can be fetched from the inbox, or from the folder, and logs it
// once.
func (a *replayer) failed(place string, err error) {
	if errors.Is(err, errEpoch) {
		err = errors.New("the UIDVALIDITY of its folder has changed since it was registered, " +
			"and no run has found it again")
	} else {
		a.found.Error = text.Error(err)
		a.visit.log.Error("messages could not be compared", "error", err)
	}
	if !a.visit.session.connected() {
		a.shut = err
	} else {
		a.bad[place] = err
	}
}

// fetchAll hands each message to the routes as soon as it is there, and keeps none. It leaves out a
// message that breaks the connection.
func (a *replayer) fetchAll(ctx context.Context, list []*replayed, fetch fetcher) error {
	left := make(map[uint32]*replayed, len(list))
	for _, it := range list {
		left[it.task.UID] = it
	}
	name, epoch := list[0].task.Folder, list[0].task.Epoch
	return a.visit.session.retry(ctx, func() error {
		err := a.visit.session.within(ctx, name, epoch, func(src Source) error {
			return a.fetchSome(ctx, src, left, fetch)
		})
		var e *imapsrc.Error
		if errors.As(err, &e) && left[e.UID] != nil {
			left[e.UID].unknown = text.Error(err)
			delete(left, e.UID)
		}
		return err
	})
}

func (a *replayer) fetchSome(ctx context.Context, src Source, left map[uint32]*replayed, fetch fetcher) error {
	var uids []uint32
	for uid := range left {
		uids = append(uids, uid)
	}
	if len(uids) == 0 {
		return nil
	}
	res, err := fetch(src, ctx, uids, func(uid uint32, m *message.Message) error {
		switch it := left[uid]; {
		case it == nil:
		case !isOf(it.task, m):
			it.unknown = errOther.Error()
			delete(left, uid)
		default:
			a.decide(ctx, it, m)
			delete(left, uid)
		}
		return m.Close()
	})
	for _, uid := range res.Vanished {
		left[uid].unknown = errGone.Error()
		delete(left, uid)
	}
	for uid, why := range res.Failed {
		left[uid].unknown = text.Error(why)
		delete(left, uid)
	}
	return err
}
