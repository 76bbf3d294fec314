package bounce

import (
	"cmp"
	"regexp"
	"strings"

	"postrider/internal/message"
	"postrider/internal/text"
)

// form is a report that a server writes in words, alone or beside a delivery status.
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
	indented      = regexp.MustCompile(`^ {2}([^\s<>]+@[^\s<>:]+|an undisclosed address)\s*$`)
	alone         = regexp.MustCompile(`^([^\s<>#:']+@[^\s<>#:']+)\s*$`)
	beforeColon   = regexp.MustCompile(`^<?([^\s<>]+@[^\s<>]+?)>?: `)
	onADate       = regexp.MustCompile(`^\s*'?([^\s<>']+@[^\s<>']+)'? on .*\d.*`)
)

// forms are all that are known; the first that fits is read. A warning stands before the form that
// it looks like.
var forms = []form{
	{
		"qmail",
		[]string{"Hi. This is the", "I'm afraid I wasn't able to deliver"},
		inAnglesAlone, "--- ", Failed, false,
	},
	{
		"Exim, a warning",
		[]string{"created automatically by mail delivery software", "has not yet been delivered"},
		indented, "No action is required", Delayed, false,
	},
	{
		"Exim",
		[]string{"created automatically by mail delivery software", "could not be delivered"},
		indented, "------ ", Failed, false,
	},
	{
		"OpenSMTPD, a warning",
		[]string{"This is the MAILER-DAEMON", "is delayed for more than"},
		beforeColon, "    Please note", Delayed, false,
	},
	{
		"OpenSMTPD",
		[]string{"This is the MAILER-DAEMON", "has occurred while attempting to deliver"},
		beforeColon, "    Below", Failed, false,
	},
	{
		"Postfix, a warning",
		[]string{"at host", "THIS IS A WARNING ONLY"},
		inAngles, "", Delayed, false,
	},
	{
		"Postfix",
		[]string{"This is the", "at host", "could not be delivered to one or more"},
		inAngles, "", Failed, false,
	},
	{
		"sendmail, a warning",
		[]string{"----- The following addresses had transient non-fatal errors -----"},
		inAnglesAlone, "   -----", Delayed, false,
	},
	{
		"sendmail",
		[]string{"----- The following addresses had permanent"},
		inAnglesAlone, "   -----", Failed, false,
	},
	{
		"Exchange",
		[]string{"Diagnostic information for administrators:"},
		alone, "Original message headers:", Failed, true,
	},
	{
		"Exchange 2003",
		[]string{"The following recipient(s)", "be reached:"},
		onADate, "", Failed, false,
	},
	{
		"Exchange 5.5",
		[]string{"did not reach the following recipient(s):"},
		onADate, "", Failed, false,
	},
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

// maxForm is how much of a text is searched for a form, in octets.
const maxForm = 256 << 10

// readForms reads the first text that has one of the forms: what it says of each recipient, and the
// Message-ID of the original.
func readForms(parts []message.Part) (fates []Fate, id string) {
	for _, p := range parts {
		if !strings.HasPrefix(p.MediaType, "text/") {
			continue
		}
		s := p.Text[:min(len(p.Text), maxForm)]
		for _, f := range forms {
			rest, ok := f.after(s)
			if !ok {
				continue
			}
			if fates = f.read(s, rest); len(fates) == 0 {
				continue
			}
			if m := originalID.FindStringSubmatch(s); m != nil {
				id = short(m[1])
			}
			return fates, id
		}
	}
	return nil, ""
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

// read reads the recipients, each with the lines that follow it, up to an empty one.
func (f form) read(whole, rest string) (fates []Fate) {
	remote := ""
	if m := generating.FindStringSubmatch(whole); m != nil {
		remote = m[1]
	}
	var fate Fate
	var words strings.Builder
	done := func() {
		if fate.Recipient != "" && len(fates) < maxFates {
			fates = append(fates, fate.explain(words.String(), remote))
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
	return fates
}

var (
	// remotes find the server that refused, in the words of each form.
	remotes = []*regexp.Regexp{
		regexp.MustCompile(`(?:^|\s)([\w-]+(?:\.[\w-]+)+) Remote Server returned`),
		regexp.MustCompile(`\bH=([\w-]+(?:\.[\w-]+)+) \[`),
		regexp.MustCompile(`\bhost ([\w-]+(?:\.[\w-]+)+)`),
		regexp.MustCompile(`(?:^|\s)<([\w-]+(?:\.[\w-]+)+) #`),
		regexp.MustCompile(`(?:Giving up on|Connected to) ([\w-]+(?:\.[\w-]+)+)`),
	}
	// asides stand in the text of the reply, but the refusing server did not write them.
	asides = regexp.MustCompile(`(?:\s*(?:Giving up on \S+|\(in reply to [^()]*\)|<[\w.-]+ #[\d.]+>|` +
		`\(#[245]\.\d{1,3}\.\d{1,3}\)|['#>)]))+\s*$`)
)

// generated is how Exim names the alias of a recipient.
var generated = regexp.MustCompile(`^\((?:ultimately )?generated from ([^\s<>()]+@[^\s<>()]+)\) ?`)

// explain reads what a form says of one recipient.
func (f Fate) explain(words, remote string) Fate {
	words = text.Line(words)
	if m := generated.FindStringSubmatch(words); m != nil {
		f.Original, words = mailbox(m[1]), words[len(m[0]):]
	}
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

// onlyRelayed is how Exim says that it has handed a message on, or that it is in a mailbox, or at
// the members of an alias: its delivery status calls all of that delivered.
var onlyRelayed = regexp.MustCompile(
	`(?m)^[ \t]*<([^\s<>]+)> \(relayed (?:to non-DSN-aware mailer|via non [\w" ]+ router)\)`)

// membersIn are the recipients that a form names, by their alias, or by themselves if they have
// none. The delivery status of Exim names only the alias, once for each of them, in the same order.
func membersIn(words []Fate) map[string][]string {
	members := map[string][]string{}
	for _, f := range words {
		alias := cmp.Or(f.Original, f.Recipient)
		members[alias] = append(members[alias], f.Recipient)
	}
	return members
}

// complete adds what the delivery status of some servers leaves to the text beside it.
func (r *reader) complete(parts []message.Part, words []Fate) {
	inWords := map[string]Fate{}
	for _, f := range words {
		inWords[f.Recipient] = f
	}
	relayed := map[string]bool{}
	for _, p := range parts {
		for _, m := range onlyRelayed.FindAllStringSubmatch(p.Text, -1) {
			relayed[m[1]] = true
		}
	}
	for i := range r.Fates {
		f := &r.Fates[i]
		words, ok := inWords[f.Recipient]
		switch {
		case f.Action == Delivered && relayed[f.Recipient]:
			f.Action = Relayed
		case ok && f.Action <= Delayed && f.Reply == "":
			f.Code, f.Reply, f.Remote = words.Code, short(words.Reply), cmp.Or(words.Remote, f.Remote)
			f.refine(words.Status)
		}
	}
}
