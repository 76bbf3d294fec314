package after

import (
	"context"
	"fmt"
	"slices"

	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/route"
	"postrider/internal/text"
)

// Check says which of the actions cannot be done in an inbox, and how to fix it. It changes
// nothing. Of all actions, forwarded are those for forwarded messages.
func (w *Worker) Check(
	ctx context.Context, conn Server, in inbox.Inbox, active []inbox.Inbox, actions, forwarded []route.Action,
) (problems []string, _ error) {
	if slices.ContainsFunc(actions, func(a route.Action) bool { _, marks := a.Flag(); return !marks }) {
		for _, folder := range in.Watched() {
			if other := sharedWith(in, active, folder); other != "" {
				problems = append(problems, fmt.Sprintf(
					"after: the inbox %s has the same account and watches the folder %q, too, "+
						"so nothing in it is moved or deleted; watch it in one inbox only", other, folder))
			}
		}
	}
	for _, action := range actions {
		folder, moves := action.Folder()
		if other := w.forwardsAgain(in, active, folder); moves && other != "" && slices.Contains(forwarded, action) {
			problems = append(problems, fmt.Sprintf(
				"after: the inbox %s has the same account and watches the folder %q, "+
					"so no forwarded message is moved there; use another folder, "+
					"watch it in one inbox only, or set dedupe to all", other, folder))
		}
		problem, err := w.check(ctx, conn, in, action)
		if err != nil {
			return nil, err
		}
		if problem != "" {
			problems = append(problems, "after: "+problem)
		}
	}
	return problems, nil
}

func (w *Worker) check(ctx context.Context, conn Server, in inbox.Inbox, action route.Action) (string, error) {
	flag, marks := action.Flag()
	for _, folder := range in.Watched() {
		if _, err := conn.SelectToChange(ctx, folder); err != nil {
			return "", err
		}
		if marks && !conn.Keeps(flag) {
			return fmt.Sprintf("the folder %s does not keep the flag %s", folder, flag), nil
		}
	}
	folder, moves := action.Folder()
	switch {
	case marks:
		return "", nil
	case moves && !conn.Moves() && !conn.ExpungesByUID():
		return errNoMove.Error(), nil
	case moves:
		_, err := conn.Select(ctx, folder)
		if ofKind(err, imapsrc.KindNoFolder) {
			if w.CreateFolders {
				return "", nil
			}
			return text.Brief(err) + "; create it, or set after.create_folders", nil
		}
		return "", err
	case !in.AllowDelete:
		return fmt.Sprintf("nothing is deleted here before it is allowed: "+
			"postrider inbox set %s --allow-delete", text.Arg(in.Address)), nil
	case conn.IsGmail():
		trash, err := conn.Trash(ctx)
		if err == nil && trash == "" {
			return errNoTrash.Error(), nil
		}
		return "", err
	case !conn.ExpungesByUID():
		return errNoUIDPLUS.Error(), nil
	}
	return "", nil
}
