package notify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"postrider/internal/forward"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

// mail sends a digest to the relay. It has a null reverse-path (RFC 5321 4.5.5), so that it never
// bounces. When the outcome is unknown, the digest counts as not sent. mail renews the lease before
// the content, so that a run whose lease was taken over sends nothing.
func (n *Notifier) mail(ctx context.Context, ch channel, d Digest) error {
	to := ch.address
	content, err := n.Composer.Report(forward.Report{
		To: to, Subject: d.subject(), Text: d.text(), At: d.At, About: d.about,
	})
	if err != nil {
		return err
	}
	var outcomes []forward.Outcome
	for left := []string{to}; len(left) > 0 && err == nil; {
		outcomes, left, err = n.transact(ctx, ch, left, content)
	}
	for _, o := range outcomes {
		if o.Status == forward.Accepted {
			return nil
		}
		err = errors.Join(err, refusal(o))
	}
	if err != nil {
		return fmt.Errorf("mail a failure notice to %s: %w", to, err)
	}
	return nil
}

// transact is one transaction with the relay. It returns the recipients that are left for the next.
func (n *Notifier) transact(
	ctx context.Context, ch channel, to []string, c *forward.Content,
) ([]forward.Outcome, []string, error) {
	mail, err := n.Begin(ctx, forward.Envelope{To: to, NullOnly: true}, c)
	defer mail.Reset()
	if len(mail.Accepted()) > 0 {
		if err = n.Store.renew(context.WithoutCancel(ctx), ch, n.Config.Worker); err == nil {
			_, err = mail.Send()
		}
	}
	return mail.Outcomes(), mail.Rest(), err
}

func refusal(o forward.Outcome) error {
	reply := strings.TrimSpace(o.Enhanced + " " + o.Reply)
	if o.Code != 0 {
		reply = fmt.Sprintf("the relay says %d %s", o.Code, reply)
	}
	fix := o.Fix
	if fix == "" && o.Status == forward.Refused {
		fix = "check notify.to"
	}
	if fix != "" {
		reply += " (" + fix + ")"
	}
	return fmt.Errorf("%s: %s", o.Status, reply)
}

// subject holds no text from messages.
func (d Digest) subject() string {
	var parts []string
	add := func(n int, one, many string) {
		if n > 0 {
			parts = append(parts, text.Number(n, one, many))
		}
	}
	add(d.Counts.Dead, "message is dead", "messages are dead")
	add(d.Counts.Uncertain, "message is uncertain", "messages are uncertain")
	add(d.Counts.Bounced, "message bounced", "messages bounced")
	add(d.Counts.InboxUnreachable, "inbox is unreachable", "inboxes are unreachable")
	add(d.Counts.NeedsLogin, "inbox needs a login", "inboxes need a login")
	add(d.Counts.RecipientBounces, "recipient bounces repeatedly", "recipients bounce repeatedly")
	add(d.Counts.InboxReachable, "inbox is reachable again", "inboxes are reachable again")
	return "postrider: " + strings.Join(parts, ", ")
}

// text is the body of the mail.
func (d Digest) text() string {
	var b strings.Builder
	if d.Counts == (Counts{InboxReachable: d.Counts.InboxReachable}) {
		fmt.Fprintf(&b, "postrider on %s has good news. There is nothing to do.\n", d.Host)
	} else {
		fmt.Fprintf(&b, "postrider on %s needs your help. This is new since the last notice.\n", d.Host)
	}
	if d.atMost > 0 {
		fmt.Fprintf(&b, "The next notice comes in %s at the earliest (notify.at_most).\n", text.Duration(d.atMost))
	}
	for _, in := range d.Inboxes {
		in.text(&b)
	}
	if d.MoreInboxes > 0 {
		more := text.Number(d.MoreInboxes, "more inbox", "more inboxes")
		fmt.Fprintf(&b, "\nand %s: `postrider status` shows all.\n", more)
	}
	d.recipientsText(&b)
	for _, t := range d.Tasks {
		t.text(&b)
	}
	if d.MoreTasks > 0 {
		fmt.Fprintf(&b, "\nand %s: `postrider task list --status dead --status uncertain`%s shows all.\n",
			text.Count(d.MoreTasks, "more message"), alsoBounced(d.Counts.Bounced))
	}
	return b.String()
}

func (in Inbox) text(b *strings.Builder) {
	if in.Until != nil {
		fmt.Fprintf(b, "\nInbox %s has been reachable again since %s. It had been unreachable since %s. "+
			"Mail that arrived in between is being forwarded.\n", in.Email, when(*in.Until), when(in.Since))
		return
	}
	what := "has been unreachable"
	if in.Kind == NeedsLogin {
		what = "has needed a login"
	}
	fmt.Fprintf(b, "\nInbox %s %s since %s (failed runs in a row: %d). "+
		"Its mail is not forwarded until this is fixed.\n", in.Email, what, when(in.Since), in.FailedScans)
	fmt.Fprintf(b, "  error:    %s\n  try:      %s\n", in.Error, strings.Join(in.Commands, "\n            "))
}

// alsoBounced is the command that shows the messages that bounced.
func alsoBounced(n int) string {
	if n == 0 {
		return ""
	}
	return " and `postrider task list --bounced`"
}

func (t Task) text(b *strings.Builder) {
	if t.Status == string(Bounced) {
		fmt.Fprintf(b, "\nTask %d bounced after the relay had accepted it (reported %s)\n", t.ID, when(t.Since))
	} else {
		fmt.Fprintf(b, "\nTask %d has been %s since %s\n", t.ID, t.Status, when(t.Since))
	}
	for _, f := range []struct{ name, value string }{
		{"inbox", t.where()},
		{"from", t.Sender},
		{"subject", t.Subject},
		{"route", line(t.Route)},
		{"reason", t.Reason},
	} {
		if f.value != "" {
			fmt.Fprintf(b, "  %-9s %s\n", f.name+":", f.value)
		}
	}
	for _, d := range t.Deliveries {
		fmt.Fprintf(b, "  %-9s %s\n", d.label()+":", d.line())
	}
	if t.MoreDeliveries > 0 {
		fmt.Fprintf(b, "            and %s\n", text.Count(t.MoreDeliveries, "more recipient"))
	}
	fmt.Fprintf(b, "  try:      %s\n", strings.Join(t.Commands, "\n            "))
}

// where is empty for a task that cannot be read.
func (t Task) where() string {
	if t.Inbox == "" {
		return ""
	}
	return t.Inbox + ", folder " + line(t.Folder)
}

// deliveryLabels are the labels of a recipient's line, by the state of the delivery.
var deliveryLabels = map[string]string{
	"delivered": "has it", "failed": "lacks it", "pending": "lacks it", "sending": "may have",
	"duplicate": "has it", "bounced": "lacks it",
}

func (d Delivery) label() string {
	if d.delayed != "" {
		return "lacks it"
	}
	return cmp.Or(deliveryLabels[d.Status], "unclear")
}

func (d Delivery) line() string {
	reply := cmp.Or(d.delayed, d.Reply)
	if d.delayed == "" && d.Code != 0 && d.Status != string(tasks.Bounced) { // whose words begin with it
		reply = strings.TrimSpace(fmt.Sprintf("%d %s", d.Code, d.Reply))
	}
	if reply == "" {
		return line(d.Recipient)
	}
	return line(d.Recipient) + " (" + reply + ")"
}

func when(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
