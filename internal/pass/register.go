package pass

import (
	"context"
	"errors"
	"slices"

	"postrider/internal/inbox"
)

// Register registers what is new in the folders of the boxes that have a cursor, as a pass does, and reports on each box, in the order
// given. Nothing is routed, claimed, sent or deleted, and no folder gets its first scan. What is registered so has no route, and stays
// received until a pass works it off: that one decides on it and reserves it, as on what could not be read before.
func (p *Pass) Register(ctx context.Context, boxes []inbox.Inbox) Report {
	start := p.Now()
	report := Report{StartedAt: start.UTC(), Inboxes: make([]InboxReport, len(boxes))}
	r := &running{Pass: p, hosts: newHosts(p.Config.PerHost)}
	p.each(boxes, func(i int, in inbox.Inbox) { report.Inboxes[i] = r.registerNew(ctx, in) })
	report.finish(p.Now().Sub(start), nil, ctx.Err())
	return report
}

func (r *running) registerNew(ctx context.Context, in inbox.Inbox) InboxReport {
	b := r.box(in)
	defer b.mail.close()
	leave, err := r.hosts.enter(ctx, in.Host)
	if err != nil {
		return b.report // stopped while it waited
	}
	defer leave()
	token, busy, err := b.acquire(ctx)
	switch {
	case err == nil && busy != nil:
		b.stepAside(busy, "it registers what is new")
	case err == nil:
		err = b.scanning(ctx, token, b.registerBegun)
	}
	b.failedWith(ctx, err)
	return b.report
}

// registerBegun scans the folders that have a cursor.
func (b *box) registerBegun(ctx context.Context) error {
	b.in.Folders = slices.DeleteFunc(b.in.Folders, func(f inbox.Folder) bool { return f.InitializedAt == nil })
	folders, err := b.open(ctx)
	if scanLost(err) {
		return err
	}
	return errors.Join(err, b.scan(ctx, folders, nil))
}
