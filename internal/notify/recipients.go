package notify

import (
	"fmt"
	"strings"
	"time"

	"postrider/internal/text"
)

// maxRecipients is how many recipients a digest lists; the rest is counted.
const maxRecipients = 50

// Repeated is a recipient whose mail bounces repeatedly.
type Repeated struct {
	ID        int64
	Recipient string
	Since     time.Time
	Bounces   int
	Why       string // what the last one said
	Suspended bool   // nothing is sent to it
}

// repeatedRow is a row of sqlRepeated.
type repeatedRow struct {
	Repeated
	since int64  // microseconds since 1970
	told  dbTime // the Since that was reported last
}

func (r *repeatedRow) into() []any {
	return []any{&r.ID, &r.Recipient, &r.since, &r.Bounces, &r.Why, &r.Suspended, &r.told}
}

// addRepeated adds a row to the news.
func (n *News) addRepeated(r repeatedRow) {
	r.Since = time.UnixMicro(r.since).UTC()
	if !r.Since.Equal(r.told.at) {
		n.Recipients = append(n.Recipients, r.Repeated)
	}
}

// Recipient is a recipient whose mail bounces repeatedly.
type Recipient struct {
	Recipient  string    `json:"recipient"`
	Since      time.Time `json:"since"`
	Bounces    int       `json:"bounces"`
	LastBounce string    `json:"last_bounce"`
	Suspended  bool      `json:"suspended"` // nothing is sent to it
	Commands   []string  `json:"commands"`
}

func (d *Digest) addRepeated(all []Repeated) {
	d.Counts.RecipientBounces = len(all)
	for _, r := range all {
		d.about = append(d.about, fmt.Sprint("recipient ", r.ID, " ", r.Since.UnixMicro()))
		if len(d.Recipients) < maxRecipients {
			who, command := line(r.Recipient), "postrider recipient list"
			if r.Suspended {
				command = "postrider recipient resume " + text.Arg(who)
			}
			d.Recipients = append(d.Recipients,
				Recipient{who, r.Since, r.Bounces, line(r.Why), r.Suspended, []string{command}})
		}
	}
	d.MoreRecipients = len(all) - len(d.Recipients)
}

func (d Digest) recipientsText(b *strings.Builder) {
	for _, r := range d.Recipients {
		fmt.Fprintf(b, "\nMail to %s has bounced %s.", r.Recipient, text.Count(r.Bounces, "time"))
		if r.Suspended {
			b.WriteString(" Nothing more is sent to it until it is resumed.")
		}
		fmt.Fprintf(b, "\n  last:     %s\n  try:      %s\n", r.LastBounce, strings.Join(r.Commands, "\n            "))
	}
	if d.MoreRecipients > 0 {
		more := text.Count(d.MoreRecipients, "more recipient")
		fmt.Fprintf(b, "\nand %s: `postrider recipient list` shows all.\n", more)
	}
}
