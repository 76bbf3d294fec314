package forward

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"text/template"
	"time"

	"github.com/dustin/go-humanize"

	"postrider/internal/message"
)

// DefaultNote stands above an attached original, in English and Chinese.
const DefaultNote = `Forwarded from {{.Inbox}}. The original message is attached, unchanged.
轉寄自 {{.Inbox}}。原始郵件見附件，內容未經更動。
` + quoted

// noticeText is what goes out for a message that is too large.
const noticeText = "A message to {{.Inbox}} is too large to be forwarded: {{.Size}}; the limit is {{.Limit}}. " +
	"It is still there:" + `
寄到 {{.Inbox}} 的一封郵件太大，無法轉寄：{{.Size}}（上限 {{.Limit}}）。郵件仍在原處：

Inbox / 信箱: {{.Inbox}}
Folder / 資料夾: {{.Folder}}
UID: {{.UID}}
Message-ID: {{.MessageID}}
` + quoted

const quoted = `
From / 寄件者: {{.From}}
To / 收件者: {{.To}}
{{with .Cc}}Cc / 副本: {{.}}
{{end}}Date / 日期: {{.Date}}
Subject / 主旨: {{.Subject}}
Size / 大小: {{.Size}}
`

// Note is what a template of a note can use. Each value is one decoded line, and empty when the
// message does not have it.
type Note struct {
	From, To, Cc, Subject string // as in the message
	Date                  string // as in the message, or else when it was registered
	MessageID             string
	Inbox, Folder         string
	UID                   uint32
	Size, Limit           string // such as 12 MiB; Limit is forward.max_size
	Task                  int64

	captured func() map[string]string
}

// Captured is what the named groups of the routes' regular expressions matched: {{.Captured.file}}
// by (?P<file>...). It is empty for a group that matched nothing.
func (n Note) Captured() map[string]string {
	out := map[string]string{}
	if n.captured != nil {
		for name, s := range n.captured() {
			out[name] = short(s)
		}
	}
	return out
}

// maxNote is the maximum size of a note, in octets.
const maxNote = 64 << 10

var errLong = errors.New("it becomes longer than 64 KiB")

// CheckNote reports what is wrong with a template for a note. captured are the names that routes
// capture; nil means that they are not known, and any name is allowed.
func CheckNote(text string, captured []string) error {
	t, err := parseNote(text)
	if err != nil || captured == nil {
		return err
	}
	known := map[string]string{}
	for _, name := range captured {
		known[name] = ""
	}
	_, err = fill(t.Option("missingkey=error"), Note{captured: func() map[string]string { return known }})
	return unusable(err)
}

func parseNote(text string) (*template.Template, error) {
	t, err := template.New("note").Option("missingkey=zero").Parse(text)
	if err == nil {
		_, err = fill(t, Note{})
	}
	return t, unusable(err)
}

func unusable(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("forward.note is not a usable template: %w; it can have {{.From}}, {{.To}}, {{.Cc}}, "+
		"{{.Date}}, {{.Subject}}, {{.MessageID}}, {{.Inbox}}, {{.Folder}}, {{.UID}}, {{.Size}}, {{.Task}}, "+
		"and {{.Captured.NAME}} of a group (?P<NAME>...) in a route's match", err)
}

func fill(t *template.Template, n Note) (string, error) {
	var b limited
	err := t.Execute(&b, n)
	return b.String(), err
}

type limited struct{ strings.Builder }

func (b *limited) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxNote {
		return 0, errLong
	}
	return b.Builder.Write(p)
}

// noteText is a filled template as a part of a message.
func noteText(t *template.Template, h message.Header, o Origin) (string, error) {
	line := func(field string) string { return cutTo(h.Text(field), maxWords) }
	s, err := fill(t, Note{
		From: line("From"), To: line("To"), Cc: line("Cc"), Subject: line("Subject"), MessageID: line("Message-ID"),
		Date:  cmp.Or(line("Date"), o.Registered.UTC().Format(time.RFC1123Z)),
		Inbox: o.Inbox, Folder: o.Folder, UID: o.UID, Task: o.TaskID,
		Size: humanize.IBytes(uint64(max(o.Size, 0))), Limit: humanize.IBytes(uint64(max(o.MaxSize, 0))),
		captured: o.Captured,
	})
	if err != nil {
		return "", fmt.Errorf("write the note: %w", err)
	}
	return notePart(s), nil
}

// configuredNote is the note of forward.note. If the template fails for this message, the default
// note replaces it, so that no mail waits.
func (c *Composer) configuredNote(h message.Header, o Origin) (note, remark string, err error) {
	if note, err = noteText(c.note, h, o); err == nil {
		return note, "", nil
	}
	remark = "with the default note, because forward.note fails for this message: " + short(err.Error())
	t, err := parseNote(DefaultNote)
	if err == nil {
		note, err = noteText(t, h, o)
	}
	return note, remark, err
}

// notice says where a message lies that is too large to be forwarded.
func (c *Composer) notice(m *message.Message, o Origin) (*Content, error) {
	t, err := template.New("notice").Parse(noticeText)
	if err != nil {
		return nil, err
	}
	body, err := noteText(t, m.Header, o)
	if err != nil {
		return nil, err
	}
	head := c.composed(m, o, "notice", "Too large to forward: ")
	return c.signed(&Content{Mode: Notice, parts: []piece{textPiece(head + body)}})
}
