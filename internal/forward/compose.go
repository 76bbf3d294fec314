package forward

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/mail"
	"strconv"
	"strings"
	"text/template"
	"time"
	"unicode"

	"postrider/internal/address"
	"postrider/internal/arc"
	"postrider/internal/dkim"
	"postrider/internal/dmarc"
	"postrider/internal/message"
)

// Mode is the form in which a message is sent.
type Mode string

// The modes. A notice stands for a message that was not downloaded, and says where that is.
const (
	Redirect Mode = "redirect" // the original, octet for octet, below fields on top
	Rewrite  Mode = "rewrite"  // the original's body, below a header in the forwarder's name
	Attach   Mode = "attach"   // a new message with the original in it
	Notice   Mode = "notice"
	// Auto is only used in a Style. It becomes redirect or rewrite, whichever receivers accept, or
	// attach when they accept neither.
	Auto Mode = "auto"
)

// Style is how a message is to go out.
type Style struct {
	Mode   Mode
	Resent bool // redirect: a Resent- block on top (RFC 5322 3.6.6)
	// Fallback: a message is attached when it cannot go out, or would not arrive, by its mode.
	Fallback bool
}

// Trace says which inbox a message came through, and as which task.
type Trace struct {
	Inbox  string // its address
	TaskID int64
	Queued time.Time // when the task was queued last
}

// Origin is where a message came from.
type Origin struct {
	Trace
	Folder     string
	UID        uint32
	Registered time.Time // the date of what is composed: the same in every attempt
	Size       int64     // octets, at the server
	MaxSize    int64     // why it was not downloaded, when it was not

	// Captured is what its routes captured, for a note that uses it; nil for nothing.
	Captured func() map[string]string
}

// ComposeConfig says in whose name a Composer writes, and what.
type ComposeConfig struct {
	From string    // "Name <address>"; needed for all but redirect
	Note string    // a template for the text above an attached original; empty for DefaultNote
	Key  *dkim.Key // signs what is composed or rewritten; nil for none
	// Sealer seals what is redirected; nil for none. It needs a Judge.
	Sealer *arc.Sealer
	// Judge says whether receivers accept a redirect, and asks the DNS for keys; only mode auto and
	// a Sealer need it.
	Judge *dmarc.Judge
}

// Composer makes the content that is sent. It depends only on the message, its Origin and the Style
// (and, in a DKIM signature, the time), so it is the same in each attempt and for each recipient.
// The choice of mode Auto and an ARC set also depend on the DNS, so a caller that has sent a
// message in one mode has to ask for that mode from then on.
type Composer struct {
	from   mail.Address // empty without ComposeConfig.From
	note   *template.Template
	key    *dkim.Key
	sealer *arc.Sealer
	judge  *dmarc.Judge
}

// NewComposer validates the configuration.
func NewComposer(cfg ComposeConfig) (*Composer, error) {
	note, err := parseNote(cmp.Or(cfg.Note, DefaultNote))
	if err != nil {
		return nil, err
	}
	c := &Composer{note: note, key: cfg.Key, sealer: cfg.Sealer, judge: cfg.Judge}
	if cfg.From == "" {
		return c, nil
	}
	name, from, err := address.ParseNamed(cfg.From)
	if err != nil {
		return nil, fmt.Errorf("forward.from: %w", err)
	}
	if from.UTF8 { // redirect can do without; the rest may have to go to a relay without SMTPUTF8
		return c, nil
	}
	c.from = mail.Address{Name: name, Address: from.Wire}
	return c, nil
}

// Compose makes the content from m, which must stay open while the content is in use. It fails if
// m's spool cannot be read, or if it needs an ASCII address in whose name to compose and has none.
// In mode Auto, and to seal, it asks the DNS, for at most dmarc.Patience in all. It returns a
// content even when the DNS fails or ctx ends.
func (c *Composer) Compose(ctx context.Context, m *message.Message, o Origin, s Style) (*Content, error) {
	ctx, cancel := context.WithTimeout(ctx, dmarc.Patience)
	defer cancel()
	if c.from.Address == "" && (m.HeaderOnly || s.Mode != Redirect || s.Resent || s.Fallback) {
		return nil, fmt.Errorf("compose a message in mode %s: forward.from must be an ASCII address", s.Mode)
	}
	switch {
	case m.HeaderOnly:
		return c.notice(m, o)
	case s.Mode == Attach:
		return c.attach(m, o, "")
	case s.Fallback || s.Mode == Auto:
		return c.orAttach(ctx, m, o, s)
	case s.Mode == Rewrite:
		return c.rewrite(m, o)
	}
	return c.redirect(ctx, m, o, s.Resent)
}

// orAttach is Compose for a message that is attached when it would not arrive as it is.
func (c *Composer) orAttach(ctx context.Context, m *message.Message, o Origin, s Style) (*Content, error) {
	form, err := shapeOf(m.Body.Reader())
	if err != nil {
		return nil, err
	}
	if why := form.unfit(); why != "" {
		return c.attach(m, o, "attached instead: "+why)
	}
	why := ""
	if s.Mode == Auto {
		if s.Mode, why, err = c.choose(ctx, m, o, s, form); err != nil {
			return nil, err
		}
	}
	s.Fallback = false
	content, err := c.Compose(ctx, m, o, s)
	if err != nil {
		return nil, err
	}
	if content.Mode != Redirect { // it already has its own fallback for a relay that accepts less
		return content.because(why), nil
	}
	content.instead = func() (*Content, error) {
		return c.attach(m, o, "attached instead: the relay takes no 8-bit message, or no SMTPUTF8")
	}
	return content.because(why), nil
}

// signed puts a signature on top.
func (c *Composer) signed(content *Content) (*Content, error) {
	if c.key == nil {
		return content, nil
	}
	field, err := c.key.Sign(content.Reader())
	if err != nil {
		return nil, err
	}
	content.parts = append([]piece{textPiece(field)}, content.parts...)
	return content, nil
}

// sender is the address in whose name something is composed, with the author's name: "Alice via
// Intake".
func (c *Composer) sender(h message.Header) string {
	name := c.via()
	if author := authorName(h); author != "" {
		name = cutTo(author, 100) + " via " + name
	}
	return phrase(name) + " <" + c.from.Address + ">"
}

// via is the forwarder's name.
func (c *Composer) via() string {
	return cmp.Or(c.from.Name, c.domain())
}

// authorName is the author's name, or else the address, without anything that could deceive a
// reader.
func authorName(h message.Header) string {
	for _, a := range h.Addresses("From") {
		return cmp.Or(harmless(a.Name), harmless(a.Addr))
	}
	return ""
}

// harmless is a name without @ and without characters that change the writing direction: an address
// in a display name, beside another address, looks like fraud.
func harmless(name string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Bidi_Control, r) {
			return -1
		}
		return r
	}, noAt.Replace(name)))
}

var noAt = strings.NewReplacer("@", " at ", "＠", " at ", "﹫", " at ")

// replyTo is the field that makes an answer go to the author.
func replyTo(h message.Header) string {
	list := h.Addresses("Reply-To")
	if len(list) == 0 {
		list = h.Addresses("From")
	}
	if len(list) == 0 {
		return ""
	}
	return field("Reply-To", mailboxes(list[:min(len(list), 20)]))
}

// messageID is the same in every attempt and for all recipients, so that a retry can be recognised.
func (c *Composer) messageID(kind string, parts ...any) string {
	return "<" + digest("message-id", append(parts, kind)...) + "." + kind + "@" + c.domain() + ">"
}

func (c *Composer) domain() string {
	return c.from.Address[strings.LastIndexByte(c.from.Address, '@')+1:]
}

// digest is a short text that differs when any of the parts does.
func digest(what string, parts ...any) string {
	text := "postrider " + what + " 1\n"
	for _, p := range parts {
		text += strconv.Quote(fmt.Sprint(p)) + "\n"
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:32]
}

func date(t time.Time) string { return t.UTC().Format(time.RFC1123Z) }
