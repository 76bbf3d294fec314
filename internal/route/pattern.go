package route

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// text is one thing of a message that patterns are held against, prepared once.
type text struct {
	shown  string // as a person reads it
	folded string // for globs and substrings
	wide   string // compatible forms made one, for regular expressions, which see shown too
}

func newText(s string) text {
	return text{shown: norm.NFC.String(s), folded: squeeze(fold(s)), wide: squeeze(norm.NFKC.String(s))}
}

func newAddress(s string) text {
	folded := foldAddress(s)
	return text{shown: s, folded: folded, wide: folded}
}

// pattern is what one text has to be like.
type pattern func(text) bool

// textPattern is a substring, or a regular expression between slashes.
func textPattern(s string) (pattern, error) {
	if p, ok, err := regexpPattern(s); ok {
		return p, err
	}
	if strings.HasPrefix(s, "/") {
		return nil, fmt.Errorf(`%q starts like a regular expression and has no / at its end; flags go inside, as in /(?-i)text/; text that starts with a slash is written /\/text/`, s)
	}
	sub := squeeze(fold(s))
	if strings.TrimSpace(sub) == "" {
		return nil, errors.New("is empty, and would match everything; remove it")
	}
	return func(t text) bool { return strings.Contains(t.folded, sub) }, nil
}

// namePattern is a glob for a name such as a folder's.
func namePattern(s string) (pattern, error) {
	if p, ok, err := regexpPattern(s); ok {
		return p, err
	}
	return glob(fold(s))
}

// addressPattern is a glob for an address.
func addressPattern(s string) (pattern, error) {
	if p, ok, err := regexpPattern(s); ok {
		return p, err
	}
	switch {
	case strings.ContainsAny(s, "<> \t,;"):
		return nil, fmt.Errorf("%q is more than an address; write it alone, without a name, and several as a list", s)
	case s != "" && !strings.ContainsAny(s, "@*"):
		return nil, fmt.Errorf(`%q matches no address: it has no @; for all of a domain write "*@%s"`, s, s)
	}
	return glob(foldAddress(s))
}

// listPattern is a glob for the identifier of a mailing list (RFC 2919 2) when it has a star in it, and text otherwise.
func listPattern(s string) (pattern, error) {
	if isRegexp(s) || !strings.Contains(s, "*") {
		return textPattern(s)
	}
	p, err := glob(fold(s))
	return func(t text) bool {
		if start := strings.LastIndexByte(t.folded, '<'); start >= 0 {
			id, _, _ := strings.Cut(t.folded[start+1:], ">")
			t.folded = id
		}
		t.folded = strings.TrimSpace(t.folded)
		return p(t)
	}, err
}

// glob compiles a folded glob. It has to cover the whole text.
func glob(s string) (pattern, error) {
	if strings.TrimSpace(s) == "" {
		return nil, errors.New("is empty, and would match nothing; remove it")
	}
	if !strings.ContainsAny(s, "*?") {
		return func(t text) bool { return t.folded == s }, nil
	}
	expr := strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(regexp.QuoteMeta(s))
	re, err := regexp.Compile(`(?s)^` + expr + `$`)
	if err != nil {
		return nil, fmt.Errorf("%q cannot be compiled: %w", s, err)
	}
	return func(t text) bool { return re.MatchString(t.folded) }, nil
}

func isRegexp(s string) bool {
	return len(s) >= 2 && strings.HasPrefix(s, "/") && strings.HasSuffix(s, "/")
}

// regexpPattern compiles /text/; ok is false when s is not written so.
func regexpPattern(s string) (p pattern, ok bool, err error) {
	if !isRegexp(s) {
		return nil, false, nil
	}
	expr := norm.NFC.String(s[1 : len(s)-1])
	if expr == "" {
		return nil, true, errors.New(`"//" is empty, and would match everything; for a field that is there write /^/`)
	}
	// The first compilation is for its error, which quotes the expression as the user wrote it.
	if _, err := syntax.Parse(expr, syntax.Perl); err != nil {
		return nil, true, fmt.Errorf("%q is no regular expression (RE2): %w", s, err)
	}
	re, err := regexp.Compile("(?i)" + expr)
	if err != nil {
		return nil, true, fmt.Errorf("%q is no regular expression (RE2): %w", s, err)
	}
	return func(t text) bool {
		return re.MatchString(t.shown) || (t.wide != t.shown && re.MatchString(t.wide))
	}, true, nil
}
