package pass

import (
	"context"
	"errors"
	"log/slog"

	"postrider/internal/inbox"
)

// visit is one inbox while it is compared with the registry: by an audit, or by a replay.
type visit struct {
	pass    *Pass
	in      inbox.Inbox
	log     *slog.Logger
	session *session
}

// compare calls do for each of the boxes, for several at once, as soon as its server has a place for
// one more connection. failed gets the error of an inbox that could not be compared to its end.
func (p *Pass) compare(ctx context.Context, boxes []inbox.Inbox,
	do func(i int, v visit) error, failed func(i int, err error),
) {
	hosts := newHosts(p.Config.PerHost)
	p.each(boxes, func(i int, in inbox.Inbox) {
		log := p.Log.With("inbox", in.Address)
		v := visit{pass: p, in: in, log: log}
		v.session = newSession(func(ctx context.Context) (Source, error) { return p.Dial(ctx, in) }, log)
		defer v.session.close()
		leave, err := hosts.enter(ctx, in.Host)
		if err == nil {
			err = do(i, v)
			leave()
		}
		if ctx.Err() != nil {
			err = errors.New("interrupted before all of it was compared")
		} else if err != nil {
			log.Error("the inbox could not be compared", "error", err)
		}
		if err != nil {
			failed(i, err)
		}
	})
}
