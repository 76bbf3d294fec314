package route

import (
	"errors"
	"fmt"
	"net/mail"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"postrider/internal/message"
	words "postrider/internal/text"
)

// text is a text of a message, prepared once for all patterns.
type text struct {
	shown  string // as a person reads it
	folded string // for globs and substrings
	wide   string // in NFKC: regular expressions are matched with this and with shown
	grams  *grams // of folded, when it is long; nil otherwise
}

// longText is the length in octets from which on needles pay.
const longText = 1 << 10

func newText(s string) text {
	compatible := norm.NFKC.String(strings.ToValidUTF8(s, "\ufffd"))
	t := text{shown: norm.NFC.String(s), folded: squeeze(words.FoldCompatible(compatible)), wide: squeeze(compatible)}
	if len(t.folded) > longText {
		t.grams = gramsOf(t.folded)
	}
	return t
}

func newAddress(s string) text {
	folded := foldAddress(noAt.Replace(s))
	return text{shown: s, folded: folded, wide: folded}
}

// noAt replaces what folding would turn into a second @: clerk@evil.example＠court.example is not an
// address of court.example.
var noAt = strings.NewReplacer("＠", "\ufffd", "﹫", "\ufffd")

// pattern is what a text is compared with.
type pattern struct {
	written string
	holds   func(text) bool
	part    string         // of a substring: folded; empty for other kinds
	re      *regexp.Regexp // nil for other kinds
}

// textPattern is a substring, or a regular expression between slashes.
func textPattern(s string) (*pattern, error) {
	s = message.Visible(s) // it may be copied from a message
	if isRegexp(s) {
		return regexpPattern(s)
	}
	if strings.HasPrefix(s, "/") {
		return nil, fmt.Errorf(`%q starts like a regular expression and has no / at its end; `+
			`flags go inside, as in /(?-i)text/; text that starts with a slash is written /\/text/`, s)
	}
	sub := squeeze(fold(s))
	if strings.TrimSpace(sub) == "" {
		return nil, errors.New("is empty, and would match everything; remove it")
	}
	return &pattern{written: s, part: sub, holds: func(t text) bool { return t.has(sub) }}, nil
}

// namePattern is a glob for a name such as a folder's.
func namePattern(s string) (*pattern, error) {
	if isRegexp(s) {
		return regexpPattern(s)
	}
	return glob(s, fold(s))
}

// addressPattern is a glob for an address. The addresses of a message are compared without quotes.
func addressPattern(s string) (*pattern, error) {
	quoted, err := mail.ParseAddress(s)
	switch {
	case isRegexp(s):
		return regexpPattern(s)
	case err == nil && strings.HasPrefix(s, `"`) && quoted.Name == "":
		return glob(s, foldAddress(quoted.Address))
	case strings.ContainsAny(s, "<> \t,;"):
		return nil, fmt.Errorf("%q is more than an address; write it alone, without a name, and several as a list", s)
	case s != "" && !strings.ContainsAny(s, "@*"):
		return nil, fmt.Errorf(`%q matches no address: it has no @; for all of a domain write "*@%s"`, s, s)
	case strings.HasPrefix(s, "@"):
		return nil, fmt.Errorf(`%q matches no address: nothing stands before the @; `+
			`for all of a domain write "*%s"`, s, s)
	}
	return glob(s, foldAddress(s))
}

// listPattern is a glob for the identifier of a mailing list (RFC 2919 2) if it has a star, else
// text.
func listPattern(s string) (*pattern, error) {
	p, err := filePattern(s)
	if err != nil || isRegexp(s) || !strings.Contains(s, "*") {
		return p, err
	}
	whole := p.holds
	p.holds = func(t text) bool {
		if start := strings.LastIndexByte(t.folded, '<'); start >= 0 {
			id, _, _ := strings.Cut(t.folded[start+1:], ">")
			t.folded = id
		}
		return whole(t)
	}
	return p, nil
}

// filePattern is a glob for a file name if it has a star, else text.
func filePattern(s string) (*pattern, error) {
	if isRegexp(s) || !strings.Contains(s, "*") {
		return textPattern(s)
	}
	p, err := glob(s, fold(message.Visible(s)))
	if err != nil {
		return nil, err
	}
	whole := p.holds
	p.holds = func(t text) bool {
		t.folded = strings.TrimSpace(t.folded)
		return whole(t)
	}
	return p, nil
}

// glob compiles a folded glob. It has to cover the whole text.
func glob(written, s string) (*pattern, error) {
	if strings.TrimSpace(s) == "" {
		return nil, errors.New("is empty, and would match nothing; remove it")
	}
	is := words.Glob(s)
	return &pattern{written: written, holds: func(t text) bool { return is(t.folded) }}, nil
}

func isRegexp(s string) bool {
	return len(s) >= 2 && strings.HasPrefix(s, "/") && strings.HasSuffix(s, "/")
}

// regexpPattern compiles /text/.
func regexpPattern(s string) (*pattern, error) {
	expr := norm.NFC.String(s[1 : len(s)-1])
	if expr == "" {
		return nil, errors.New(`"//" is empty, and would match everything; for a field that is there write /^/`)
	}
	// The first parsing is for its error, which quotes the expression as the user wrote it.
	parsed, err := syntax.Parse(expr, syntax.Perl)
	var re *regexp.Regexp
	if err == nil {
		re, err = regexp.Compile("(?i)" + expr)
	}
	if err != nil {
		return nil, fmt.Errorf("%q is not a regular expression (RE2): %w", s, err)
	}
	needles := needlesOf(parsed)
	return &pattern{written: s, re: re, holds: func(t text) bool {
		if t.grams != nil && !needles.in(t) {
			return false
		}
		return re.MatchString(t.shown) || (t.wide != t.shown && re.MatchString(t.wide))
	}}, nil
}

// names are the names of the expression's groups.
func (p *pattern) names() []string {
	if p.re == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(p.re.SubexpNames()), func(s string) bool { return s == "" })
}

// capture adds what the named groups match in t, in NFKC: ４７ becomes 47. Names that have a value
// keep it.
func (p *pattern) capture(t text, into map[string]string) {
	if p.re == nil {
		return
	}
	groups := p.re.FindStringSubmatch(t.shown)
	if groups == nil {
		groups = p.re.FindStringSubmatch(t.wide)
	}
	for i, name := range p.re.SubexpNames() {
		if name != "" && i < len(groups) && groups[i] != "" && into[name] == "" {
			into[name] = norm.NFKC.String(groups[i])
		}
	}
}
