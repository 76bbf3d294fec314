package forward

import (
	"context"
	"strings"

	"postrider/internal/message"
)

// sealed puts an ARC set on top of a redirect. What is composed here has our own From, for which a
// DKIM signature counts: it needs no set. A message that other programs might read differently, or
// whose signatures the set would break, is not sealed.
func (c *Composer) sealed(ctx context.Context, content *Content, m *message.Message, o Origin) (*Content, error) {
	if c.sealer == nil {
		return content, nil
	}
	fields, err := m.Fields()
	if err != nil {
		return nil, err
	}
	fields, body, why := split(fields)
	for _, name := range []string{"ARC-Seal", "ARC-Message-Signature", "ARC-Authentication-Results"} {
		if why == "" && breaks(m.Header, name) {
			why = "a signature covers " + name
		}
	}
	if why != "" {
		return content.remark("not ARC-sealed: " + why), nil
	}
	set, err := c.sealer.Seal(ctx, c.judge.Keys(), fields, m.Body.From(body), o.Registered)
	if err != nil {
		return nil, err
	}
	if set.Fields != "" {
		content.parts = append([]piece{textPiece(set.Fields)}, content.parts...)
	}
	return content.remark(set.Says), nil
}

// remark adds to the remarks.
func (c *Content) remark(says string) *Content {
	c.Remark = strings.TrimPrefix(c.Remark+"; "+says, "; ")
	return c
}
