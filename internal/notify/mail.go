package notify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"postrider/internal/forward"
	"postrider/internal/health"
)

// mail hands a digest to the relay. It has a null reverse-path (RFC 5321 4.5.5): should it not arrive, nothing comes back.
// An outcome that is not known does not count as told. Before the content goes out the lease is renewed: a run that was held up for
// too long sends nothing beside the one that has taken its place.
func (n *Notifier) mail(ctx context.Context, ch channel, d Digest) error {
	to := ch.address
	content, err := n.Composer.Report(forward.Report{To: to, Subject: d.subject(), Text: d.text(), At: d.At, About: d.about})
	if err != nil {
		return err
	}
	mail, err := n.Relay.Begin(ctx, forward.Envelope{To: []string{to}, NullOnly: true}, content)
	defer mail.Reset()
	if len(mail.Accepted()) > 0 {
		if err = n.Store.renew(context.WithoutCancel(ctx), ch, n.Config.Worker); err == nil {
			_, err = mail.Send()
		}
	}
	for _, o := range mail.Outcomes() {
		if o.Status == forward.Accepted {
			return nil
		}
		err = errors.Join(err, refusal(o))
	}
	if err != nil {
		return fmt.Errorf("mail a notice to %s: %w", to, err)
	}
	return nil
}

func refusal(o forward.Outcome) error {
	said := strings.TrimSpace(o.Enhanced + " " + o.Reply)
	if o.Code != 0 {
		said = fmt.Sprintf("the relay says %d %s", o.Code, said)
	}
	mend := o.Mend
	if mend == "" && o.Status == forward.Refused {
		mend = "see whether notify.to is right"
	}
	if mend != "" {
		said += " (" + mend + ")"
	}
	return fmt.Errorf("%s: %s", o.Status, said)
}

// subject has no words of strangers.
func (d Digest) subject() string {
	var parts []string
	add := func(n int, one, many string) {
		switch {
		case n == 1:
			parts = append(parts, "1 "+one)
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d %s", n, many))
		}
	}
	add(d.Counts.Dead, "message is dead", "messages are dead")
	add(d.Counts.Uncertain, "message is uncertain", "messages are uncertain")
	add(d.Counts.InboxUnreachable, "inbox is unreachable", "inboxes are unreachable")
	add(d.Counts.InboxReachable, "inbox is reachable again", "inboxes are reachable again")
	return "postrider: " + strings.Join(parts, ", ")
}

// text is the digest for people.
func (d Digest) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "What postrider on %s cannot settle by itself, and has not told you before.\n", d.Host)
	if d.atMost > 0 {
		fmt.Fprintf(&b, "What comes up next is told together, in %s at the earliest (notify.at_most).\n", health.Span(d.atMost))
	}
	for _, in := range d.Inboxes {
		in.text(&b)
	}
	if d.MoreInboxes > 0 {
		fmt.Fprintf(&b, "\nand %d more inboxes: `postrider status` shows all.\n", d.MoreInboxes)
	}
	for _, t := range d.Tasks {
		t.text(&b)
	}
	if d.MoreTasks > 0 {
		fmt.Fprintf(&b, "\nand %d more messages: `postrider task list --status dead --status uncertain` shows all.\n", d.MoreTasks)
	}
	return b.String()
}

func (in Inbox) text(b *strings.Builder) {
	if in.Until != nil {
		fmt.Fprintf(b, "\nInbox %s is reachable again since %s. It was not since %s; what came meanwhile is being forwarded.\n",
			in.Email, when(*in.Until), when(in.Since))
		return
	}
	fmt.Fprintf(b, "\nInbox %s is unreachable since %s (%d runs in a row). What comes is not forwarded until that is mended.\n",
		in.Email, when(in.Since), in.FailedScans)
	fmt.Fprintf(b, "  error:    %s\n  try:      %s\n", in.Error, strings.Join(in.Commands, "\n            "))
}

func (t Task) text(b *strings.Builder) {
	fmt.Fprintf(b, "\nTask %d is %s since %s\n", t.ID, t.Status, when(t.Since))
	for _, f := range []struct{ name, value string }{
		{"inbox", t.Inbox + ", folder " + line(t.Folder)}, {"from", t.Sender}, {"subject", t.Subject}, {"route", line(t.Route)}, {"reason", t.Reason},
	} {
		if f.value != "" {
			fmt.Fprintf(b, "  %-9s %s\n", f.name+":", f.value)
		}
	}
	for _, d := range t.Deliveries {
		fmt.Fprintf(b, "  %-9s %s\n", cmp.Or(fates[d.Status], "unclear")+":", d.line())
	}
	if t.MoreDeliveries > 0 {
		fmt.Fprintf(b, "            and %d more recipients\n", t.MoreDeliveries)
	}
	fmt.Fprintf(b, "  then:     %s\n", strings.Join(t.Commands, "\n            "))
}

// fates are the states of a delivery, for people.
var fates = map[string]string{"delivered": "has it", "failed": "lacks it", "pending": "lacks it", "sending": "may have"}

func (d Delivery) line() string {
	said := d.Reply
	if d.Code != 0 {
		said = strings.TrimSpace(fmt.Sprintf("%d %s", d.Code, d.Reply))
	}
	if said == "" {
		return line(d.Recipient)
	}
	return line(d.Recipient) + " (" + said + ")"
}

func when(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
