package pass

import (
	"context"
	"fmt"
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

// compare calls do for each of the boxes, for several at once, as a pass does. After each of them
// it calls ended, with the error of an inbox that could not be compared to its end.
func (p *Pass) compare(ctx context.Context, boxes []inbox.Inbox,
	do func(i int, v visit) error, ended func(i int, err error),
) {
	hosts := newHosts()
	dial := through(hosts, p.Dial)
	p.Config.Turns.Each(boxes, func(i int, in inbox.Inbox) {
		log := p.Log.With("inbox", in.Address)
		v := visit{pass: p, in: in, log: log}
		v.session = newSession(func(ctx context.Context) (Source, error) { return dial(ctx, in) }, log)
		defer v.session.close()
		err := do(i, v)
		if ctx.Err() != nil {
			err = fmt.Errorf("interrupted before all of it was compared: %w", context.Cause(ctx))
		} else if err != nil {
			level := slog.LevelError
			if hosts.names(in.Address) {
				level = slog.LevelInfo
			}
			log.Log(ctx, level, "the inbox could not be compared", "error", err)
		}
		ended(i, err)
	})
	hosts.report(ctx, p.Log, slog.LevelError)
}
