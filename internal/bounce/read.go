package bounce

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"postrider/internal/address"
	"postrider/internal/message"
)

// Read says what a message reports. Of a long message it reads the beginning (see message.Parts),
// and of its recipients the first 1,000.
//
// No content is an error: what cannot be read is Unreadable. The error is that of reading the
// octets of the message, or of ctx.
func Read(ctx context.Context, m *message.Message) (Report, error) {
	parts, err := m.Parts(ctx)
	if err != nil {
		return Report{}, err
	}
	words, id := readForms(parts)
	r := &reader{made: m.Date(), seen: map[Fate]bool{}, members: membersIn(words)}
	r.cameTo(m.Header)
	if byProgram(m.Header) {
		r.readParts(parts)
	}
	switch {
	case len(r.Fates) > 0:
		r.complete(parts, words)
	case byServer(m.Header):
		for _, f := range words {
			r.add(Delivery, f)
		}
		if len(words) > 0 {
			r.MessageID = cmp.Or(r.MessageID, id)
		}
	}
	if len(r.Fates) == 0 && isAutoReply(m.Header, parts) {
		r.Kind = AutoReply
	}
	return r.Report, nil
}

// reader collects a Report.
type reader struct {
	Report
	made    time.Time
	seen    map[Fate]bool       // by recipient, original and action
	members map[string][]string // see membersIn; without those that were read already
}

// cameTo collects the addresses that the message was delivered to, those that a server wrote first.
func (r *reader) cameTo(h message.Header) {
	for _, name := range []string{"Delivered-To", "X-Original-To", "Envelope-To", "X-Envelope-To", "X-Delivered-To"} {
		r.addAddresses(h, name)
	}
	for _, v := range h.Values("Received") {
		if m := receivedFor.FindStringSubmatch(v); m != nil {
			r.addAddress(m[1])
		}
	}
	for _, name := range []string{"To", "Cc"} {
		r.addAddresses(h, name)
	}
}

// receivedFor finds the recipient in a Received field (RFC 5321 4.4).
var receivedFor = regexp.MustCompile(`(?i)\sfor\s+<([^<>\s]+@[^<>\s]+)>`)

func (r *reader) addAddresses(h message.Header, name string) {
	for _, a := range h.Addresses(name) {
		if len(r.Addresses) < maxAddresses {
			r.addAddress(address.Quoted(a.Addr))
		}
	}
}

func (r *reader) addAddress(a string) {
	a = mailbox(a)
	if strings.Contains(a, "@") && len(r.Addresses) < maxAddresses && !slices.Contains(r.Addresses, a) {
		r.Addresses = append(r.Addresses, a)
	}
}

// add adds a fate, unless the report has it already.
func (r *reader) add(kind Kind, f Fate) {
	key := Fate{Recipient: f.Recipient, Original: f.Original, Action: f.Action}
	if r.seen[key] || len(r.Fates) >= maxFates {
		return
	}
	r.seen[key] = true
	if f.Reply = short(f.Reply); f.At.IsZero() {
		f.At = r.made
	}
	r.Kind, r.Fates = kind, append(r.Fates, f)
}

// readParts reads the parts that a standard defines.
func (r *reader) readParts(parts []message.Part) {
	for _, p := range parts {
		switch p.MediaType {
		case "message/delivery-status", "message/global-delivery-status":
			r.readStatus(p.Text)
		case "message/feedback-report":
			r.readComplaint(p.Text)
		}
	}
	for _, p := range parts {
		switch p.MediaType {
		case "message/rfc822", "message/global",
			"text/rfc822-headers", "message/rfc822-headers", "message/global-headers":
			r.readOriginal(p.Text)
		}
	}
}

// readOriginal reads the header of the message that the report is about.
func (r *reader) readOriginal(s string) {
	header, _, _ := strings.Cut(s[:min(len(s), maxHeader)], "\n\n")
	for _, g := range groups(header) {
		if id := g.get("message-id"); r.MessageID == "" {
			r.MessageID = short(id)
		}
		r.addAddress(g.get("return-path"))
	}
}

// maxHeader is how much of the original is searched for its header, in octets.
const maxHeader = 64 << 10

// byServer reports whether the header looks like that of a bounce, whatever its form: a person's
// answer that quotes one is none.
func byServer(h message.Header) bool {
	if path, given := h.ReturnPath(); given {
		return path == ""
	}
	local := ""
	if from := h.Addresses("From"); len(from) > 0 {
		local, _, _ = strings.Cut(strings.ToLower(from[0].Addr), "@")
	}
	return local == "mailer-daemon" || local == "postmaster" ||
		h.Get("X-Failed-Recipients") != "" || h.Automated() != ""
}

// byProgram reports whether a program wrote the message. Only then its parts say what it reports: a
// person who forwards a bounce or a receipt may attach them one by one.
func byProgram(h message.Header) bool { return h.Automated() != "" || byServer(h) }

// autoReplyFields are added by programs that answer, beside Auto-Submitted (RFC 3834 5).
var autoReplyFields = []string{
	"X-Autoreply", "X-Autoreply-From", "X-Autorespond", "X-Auto-Reply-From", "X-Mail-Autoreply",
}

// isAutoReply reports whether a program answered. Auto-Submitted: auto-generated alone is no sign
// of that (a monitor's alert has it), but it is in an answer to a message, as Exchange writes it.
// Precedence is a sign only with a null reverse-path: mailing lists set it, too.
func isAutoReply(h message.Header, parts []message.Part) bool {
	isReceipt := func(p message.Part) bool {
		return p.MediaType == "message/disposition-notification" ||
			p.MediaType == "message/global-disposition-notification"
	}
	if byProgram(h) && slices.ContainsFunc(parts, isReceipt) {
		return true
	}
	for _, name := range autoReplyFields {
		if h.Get(name) != "" {
			return true
		}
	}
	submitted, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(h.Get("Auto-Submitted"))), ";")
	answers := h.Get("In-Reply-To") != "" || h.Get("References") != ""
	path, given := h.ReturnPath()
	switch strings.ToLower(h.Get("Precedence")) {
	case "auto_reply":
		return true
	case "bulk", "junk":
		if given && path == "" {
			return true
		}
	}
	return strings.HasPrefix(submitted, "auto-replied") || strings.HasPrefix(submitted, "auto-generated") && answers
}
