package bounce

import (
	"regexp"
	"strings"

	"postrider/internal/message"
	"postrider/internal/text"
)

// form is a report that a server writes in words alone.
type form struct {
	name      string
	begins    []string       // what it says at its beginning, in that order; a space is any white space
	recipient *regexp.Regexp // how a line begins that names a recipient
	ends      string         // how the line begins that follows the last recipient; empty: none does
	action    Action
	spaced    bool // an empty line does not end what it says of a recipient
}

var (
	inAnglesAlone = regexp.MustCompile(`^<([^<>\s]+@[^<>\s]+)>:?\s*$`)
	inAngles      = regexp.MustCompile(`^<([^<>\s]+@[^<>\s]+)>(?: \(expanded from <[^<>]*>\))?:\s`)
	indented      = regexp.MustCompile(`^ {2}([^\s<>]+@[^\s<>:]+)\s*$`)
	alone         = regexp.MustCompile(`^([^\s<>#:']+@[^\s<>#:']+)\s*$`)
	onADate       = regexp.MustCompile(`^\s*'?([^\s<>']+@[^\s<>']+)'? on .*\d.*`)
)

// forms are all that are known; the first that fits is read. A warning stands before the form that
// it looks like.
var forms = []form{
	{"qmail", []string{"Hi. This is the", "I'm afraid I wasn't able to deliver"}, inAnglesAlone, "--- ", Failed, false},
	{"Exim, a warning", []string{"created automatically by mail delivery software", "has not yet been delivered"}, indented, "No action is required", Delayed, false},
	{"Exim", []string{"created automatically by mail delivery software", "could not be delivered"}, indented, "------ ", Failed, false},
	{"Postfix, a warning", []string{"at host", "THIS IS A WARNING ONLY"}, inAngles, "", Delayed, false},
	{"Postfix", []string{"This is the", "at host", "could not be delivered to one or more"}, inAngles, "", Failed, false},
	{"sendmail, a warning", []string{"----- The following addresses had transient non-fatal errors -----"}, inAnglesAlone, "   -----", Delayed, false},
	{"sendmail", []string{"----- The following addresses had permanent"}, inAnglesAlone, "   -----", Failed, false},
	{"Exchange", []string{"Diagnostic information for administrators:"}, alone, "Original message headers:", Failed, true},
	{"Exchange 2003", []string{"The following recipient(s)", "be reached:"}, onADate, "", Failed, false},
	{"Exchange 5.5", []string{"did not reach the following recipient(s):"}, onADate, "", Failed, false},
}

// phrases are the beginnings of forms as expressions.
var phrases = func() map[string]*regexp.Regexp {
	all := map[string]*regexp.Regexp{}
	for _, f := range forms {
		for _, s := range f.begins {
			all[s] = regexp.MustCompile(strings.ReplaceAll(regexp.QuoteMeta(s), " ", `\s+`))
		}
	}
	return all
}()

// readForms reads the first text that has one of the forms.
func (r *reader) readForms(parts []message.Part) {
	for _, p := range parts {
		if !strings.HasPrefix(p.MediaType, "text/") {
			continue
		}
		s := strings.ReplaceAll(p.Text, "\r\n", "\n")
		for _, f := range forms {
			if rest, ok := f.after(s); ok && r.readForm(f, s, rest) {
				return
			}
		}
	}
}

// after returns the lines that follow the beginning of the form.
func (f form) after(s string) (rest string, ok bool) {
	for _, phrase := range f.begins {
		at := phrases[phrase].FindStringIndex(s)
		if at == nil {
			return "", false
		}
		s = s[at[1]:]
	}
	_, rest, ok = strings.Cut(s, "\n")
	return rest, ok
}

var (
	originalID = regexp.MustCompile(`(?mi)^[ \t]*Message-ID:[ \t]*(<[^<>\s]+>)`)
	generating = regexp.MustCompile(`(?m)^\s*Generating server:\s*([\w.-]+)`)
)

// readForm reads the recipients, each with the lines that follow it, up to an empty one.
func (r *reader) readForm(f form, whole, rest string) bool {
	remote := ""
	if m := generating.FindStringSubmatch(whole); m != nil {
		remote = m[1]
	}
	var fate Fate
	var words strings.Builder
	done := func() {
		if fate.Recipient != "" {
			r.add(Delivery, fate.explain(words.String(), remote))
		}
		fate = Fate{}
		words.Reset()
	}
	for line := range strings.Lines(rest) {
		if f.ends != "" && strings.HasPrefix(line, f.ends) {
			break
		}
		if m := f.recipient.FindStringSubmatchIndex(line); m != nil {
			done()
			fate = Fate{Recipient: mailbox(line[m[2]:m[3]]), Action: f.action}
			line = line[m[1]:]
		}
		switch {
		case fate.Recipient == "" || words.Len() > maxValue:
		case strings.TrimSpace(line) != "":
			words.WriteString(line[:min(len(line), maxValue)])
		case words.Len() > 0 && !f.spaced:
			done()
		}
	}
	done()
	if m := originalID.FindStringSubmatch(whole); m != nil && len(r.Fates) > 0 && r.MessageID == "" {
		r.MessageID = text.Cut(m[1], maxReply)
	}
	return len(r.Fates) > 0
}

var (
	// remotes find the server that refused, in the words of each form.
	remotes = []*regexp.Regexp{
		regexp.MustCompile(`(?:^|\s)([\w-]+(?:\.[\w-]+)+) Remote Server returned`),
		regexp.MustCompile(`\bhost ([\w-]+(?:\.[\w-]+)+)`),
		regexp.MustCompile(`(?:^|\s)<([\w-]+(?:\.[\w-]+)+) #`),
		regexp.MustCompile(`(?:Giving up on|Connected to) ([\w-]+(?:\.[\w-]+)+)`),
	}
	// asides are in the words, but not the server's.
	asides = regexp.MustCompile(`(?:\s*(?:Giving up on \S+|\(in reply to [^()]*\)|<[\w.-]+ #[\d.]+>|\(#[245]\.\d{1,3}\.\d{1,3}\)|['#>)]))+\s*$`)
)

// explain reads what a form says of one recipient.
func (f Fate) explain(words, remote string) Fate {
	words = text.Line(words)
	f.Code, f.Status, f.Reply = said(words)
	f.Reply, f.Remote = asides.ReplaceAllString(f.Reply, ""), remote
	for _, one := range remotes {
		if m := one.FindStringSubmatch(words); m != nil {
			f.Remote = m[1]
			break
		}
	}
	return f
}

// reason finds what OpenSMTPD says of a recipient in words alone, beside a delivery status:
// `ann@x.example: 550 5.1.1 no such user`.
var reason = regexp.MustCompile(`(?m)^[ \t]*<?([^\s<>]+@[^\s<>]+?)>?: (.+)$`)

// readReasons completes the fates whose delivery status gives no reason.
func (r *reader) readReasons(parts []message.Part) {
	bare := map[string]*Fate{}
	for i := range r.Fates {
		if f := &r.Fates[i]; f.Reply == "" && f.Action <= Delayed {
			bare[f.Recipient] = f
		}
	}
	for _, p := range parts {
		if len(bare) == 0 || p.MediaType != "text/plain" {
			continue
		}
		for _, m := range reason.FindAllStringSubmatch(p.Text, -1) {
			if f := bare[m[1]]; f != nil {
				f.say(m[2])
				f.Reply = text.Cut(f.Reply, maxReply)
				delete(bare, m[1])
			}
		}
	}
}
