package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/pass"
)

type rewindOptions struct {
	folder      string
	toUID       uint32
	toStart     bool
	since       string
	dryRun, yes bool
}

func (a *app) inboxRewindCommand() *cobra.Command {
	var opts rewindOptions
	c := &cobra.Command{
		Use:   "rewind ADDR [--folder NAME] --to-uid N | --to-start | --since YYYY-MM-DD",
		Short: "Move the cursor of a folder back, so that messages that were passed over are registered",
		Long: `rewind moves a cursor back: what lies above it and was never registered is registered by the
next run, as if it were new. What was registered stays so and is not forwarded again. It says
how many messages that concerns before it asks.
` + exitHelp,
		Args:              takes(1, 1, "the ADDR of one inbox"),
		ValidArgsFunction: a.addresses,
		RunE: func(c *cobra.Command, args []string) error {
			if err := opts.check(c); err != nil {
				return err
			}
			return a.inboxRewind(c.Context(), args[0], opts)
		},
	}
	c.Flags().StringVar(&opts.folder, "folder", "", "only the folder `NAME` (default all that are watched)")
	c.Flags().Uint32Var(&opts.toUID, "to-uid", 0, "messages above UID `N`")
	c.Flags().BoolVar(&opts.toStart, "to-start", false, "all messages in the folder")
	c.Flags().StringVar(&opts.since, "since", "", "messages from the first one received on that `DAY`, YYYY-MM-DD, or later")
	c.Flags().BoolVar(&opts.dryRun, "dry-run", false, "only say how many messages that concerns")
	c.Flags().BoolVar(&opts.yes, "yes", false, "do not ask")
	return c
}

func (o *rewindOptions) check(c *cobra.Command) error {
	ways := 0
	for _, flag := range []string{"to-uid", "to-start", "since"} {
		if c.Flags().Changed(flag) {
			ways++
		}
	}
	if ways != 1 {
		return usage(errors.New("say how far back: one of --to-uid N, --to-start or --since YYYY-MM-DD"))
	}
	if c.Flags().Changed("since") {
		if _, err := time.Parse(time.DateOnly, o.since); err != nil {
			return usage(fmt.Errorf("--since is %q; write the day as YYYY-MM-DD", o.since))
		}
	}
	return nil
}

// rewind is one cursor to be moved, and what that concerns.
type rewind struct {
	folder     inbox.Folder
	to         uint32
	registered int // on the server above the new cursor: these will not be forwarded again
	fresh      int // and these the next run registers
}

func (a *app) inboxRewind(ctx context.Context, address string, opts rewindOptions) error {
	return a.with(ctx, func(s *services) error {
		in, err := s.inboxes.Get(ctx, address)
		if err != nil {
			return err
		}
		folders, err := opts.folders(in)
		if err != nil {
			return err
		}
		plans, err := s.planRewind(ctx, in, folders, opts)
		if err != nil {
			return err
		}
		plans, err = a.tellRewind(in, plans)
		if err != nil || opts.dryRun || len(plans) == 0 {
			return err
		}
		if err := a.confirm(opts.yes, fmt.Sprintf("Rewind inbox %s?", in.Address)); err != nil {
			return err
		}
		return s.underLease(ctx, in, func(by inbox.Scan) error {
			for _, p := range plans {
				if err := s.inboxes.Rewind(ctx, by, p.folder.ID, p.folder.UIDValidity, p.to); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// folders are those to rewind.
func (o *rewindOptions) folders(in inbox.Inbox) ([]inbox.Folder, error) {
	names := watched(in)
	chosen := slices.DeleteFunc(slices.Clone(in.Folders), func(f inbox.Folder) bool {
		inbox := f.Name == "INBOX" && strings.EqualFold(o.folder, f.Name) // the one name without case (RFC 3501 5.1)
		return !f.Active || o.folder != "" && f.Name != o.folder && !inbox
	})
	switch {
	case len(chosen) == 0:
		return nil, usage(fmt.Errorf("inbox %s does not watch a folder %q; it watches %s", in.Address, o.folder, strings.Join(names, ", ")))
	case len(chosen) > 1 && o.since == "" && !o.toStart:
		return nil, usage(fmt.Errorf("UIDs count in one folder alone; say which with --folder: %s", strings.Join(names, ", ")))
	}
	return chosen, nil
}

// planRewind looks on the server. It changes nothing.
func (s *services) planRewind(ctx context.Context, in inbox.Inbox, folders []inbox.Folder, opts rewindOptions) ([]rewind, error) {
	conn, err := s.connect(ctx, in)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	var plans []rewind
	for _, f := range folders {
		p, err := s.planFolder(ctx, conn, in, f, opts)
		if err != nil {
			return nil, err
		}
		plans = append(plans, p)
	}
	return plans, nil
}

func (s *services) planFolder(ctx context.Context, conn *imapsrc.Conn, in inbox.Inbox, f inbox.Folder, opts rewindOptions) (rewind, error) {
	p := rewind{folder: f, to: opts.toUID}
	if f.InitializedAt == nil {
		return p, fmt.Errorf("folder %q was never scanned and has no cursor yet; say where it begins with `postrider inbox set %s --start all`", f.Name, in.Address)
	}
	info, next, err := openFolder(ctx, conn, f.Name)
	if err != nil {
		return p, err
	}
	if info.UIDValidity != serverEpoch(f) {
		return p, fmt.Errorf("the UIDVALIDITY of folder %q has changed since the last run; do `postrider run --inbox %s` first, which compares all its messages with those registered",
			f.Name, in.Address)
	}
	if opts.since != "" {
		if p.to, err = pass.StartUID(ctx, conn, inbox.Start("since:"+opts.since), info, next); err != nil {
			return p, err
		}
	}
	uids, err := conn.UIDs(ctx, p.to+1, next-1)
	if err != nil {
		return p, err
	}
	return p, s.countRewind(ctx, &p, uids)
}

// countRewind tells the messages that are registered from the rest.
func (s *services) countRewind(ctx context.Context, p *rewind, uids []uint32) error {
	for part := range slices.Chunk(uids, 1000) {
		fresh, err := s.queue.Unregistered(ctx, p.folder.ID, p.folder.UIDValidity, part)
		if err != nil {
			return err
		}
		p.fresh += len(fresh)
	}
	p.registered = len(uids) - p.fresh
	return nil
}

// tellRewind says what each plan would do, and returns those that move a cursor.
func (a *app) tellRewind(in inbox.Inbox, plans []rewind) (moves []rewind, err error) {
	for _, p := range plans {
		where := fmt.Sprintf("%s %s", in.Address, printable(p.folder.Name))
		if p.to >= p.folder.LastSeenUID {
			_, err = fmt.Fprintf(a.out, "%s: the cursor stands at UID %d, not above UID %d; there is nothing to rewind\n", where, p.folder.LastSeenUID, p.to)
		} else {
			moves = append(moves, p)
			_, err = fmt.Fprintf(a.out, "%s: from UID %d back to UID %d, with %d messages above it on the server: %d are registered and will not be forwarded again, the next run registers %d\n",
				where, p.folder.LastSeenUID, p.to, p.registered+p.fresh, p.registered, p.fresh)
		}
		if err != nil {
			return nil, err
		}
	}
	return moves, nil
}

// underLease does f while no run works on the inbox.
func (s *services) underLease(ctx context.Context, in inbox.Inbox, f func(by inbox.Scan) error) error {
	busy, err := s.inboxes.UnderScan(ctx, in.ID, s.worker(), f)
	if err == nil && busy != nil {
		return &exitError{exitRetry, fmt.Errorf("inbox %s is being worked on by %s (until %s unless renewed); nothing was changed, try again after that",
			in.Address, busy.Holder, busy.Until.Format(time.RFC3339))}
	}
	return err
}
