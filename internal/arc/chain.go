package arc

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"postrider/internal/message"
)

// status is the state of a chain (RFC 8617 4.4).
type status string

const (
	none   status = "none"
	passed status = "pass"
	failed status = "fail"
	// unknown is not in RFC 8617: the DNS did not answer.
	unknown status = ""
)

// The fields of a set, in the order in which a seal covers them (RFC 8617 5.1.1).
const (
	resultsField = iota
	signatureField
	sealField
)

var kinds = []string{"arc-authentication-results", "arc-message-signature", "arc-seal"}

// chain are the sets of a message, as far as their instances can be read.
type chain struct {
	sets    map[int][3][]message.Field
	highest int
	broken  string // why its structure is invalid; empty when it is not
}

// instance is the tag i= of each of the three fields. That of the results is the first one.
var instance = regexp.MustCompile(`^(?:[^;]*;)*?\s*i\s*=\s*([0-9]{1,4})\s*(?:;|$)`)

// chainOf collects the sets (RFC 8617 5.2, step 1).
func chainOf(fields []message.Field) chain {
	c := chain{sets: map[int][3][]message.Field{}}
	for _, f := range fields {
		kind := slices.Index(kinds, f.Name)
		if kind < 0 {
			continue
		}
		i := instanceOf(f)
		if i < 1 || i > maxInstance {
			c.broken = "a field of its chain has no valid instance"
			c.highest = max(c.highest, min(i, maxInstance))
			continue
		}
		set := c.sets[i]
		set[kind] = append(set[kind], f)
		c.sets[i] = set
		c.highest = max(c.highest, i)
	}
	if c.broken == "" {
		c.broken = c.fault()
	}
	return c
}

// instanceOf is 0 when a field has no instance.
func instanceOf(f message.Field) int {
	value := valueOf(f)
	if f.Name == kinds[resultsField] {
		value, _, _ = strings.Cut(value, ";")
	}
	m := instance.FindStringSubmatch(value)
	if m == nil {
		return 0
	}
	i, _ := strconv.Atoi(m[1])
	return i
}

// sealTags returns the tags of the seal of one set. It returns none if the set has no seal or
// several, or if the seal cannot be read.
func (c chain) sealTags(i int) tags {
	seals := c.sets[i][sealField]
	if len(seals) != 1 {
		return nil
	}
	t, _ := parseTags(valueOf(seals[0]))
	return t
}

// ended reports that the newest seal says that the chain has failed: it is not continued (RFC 8617
// 5.1, step 2).
func (c chain) ended() bool { return strings.EqualFold(c.sealTags(c.highest)["cv"], string(failed)) }

// fault is why the structure is invalid (RFC 8617 5.2, step 3).
func (c chain) fault() string {
	for i := 1; i <= c.highest; i++ {
		for kind, fields := range c.sets[i] {
			if len(fields) != 1 {
				return fmt.Sprintf("set %d has %d fields %s, and not one", i, len(fields), kinds[kind])
			}
		}
		want := passed
		if i == 1 {
			want = none
		}
		t := c.sealTags(i)
		switch {
		case t == nil || t.given("h"):
			return fmt.Sprintf("the seal of set %d is invalid", i)
		case !strings.EqualFold(t["cv"], string(want)):
			return fmt.Sprintf("the seal of set %d has cv=%.10s, and not cv=%s", i, printable(t["cv"]), want)
		}
	}
	return ""
}

func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r >= 0x7f {
			return '?'
		}
		return r
	}, s)
}

// verify is the state of the chain, and why it is not valid (RFC 8617 5.2).
func (c chain) verify(ctx context.Context, v *verifier) (status, string) {
	switch {
	case c.broken != "":
		return failed, c.broken
	case c.highest == 0:
		return none, ""
	}
	at, why := "the newest message signature", c.newest(ctx, v)
	for i := c.highest; i > 0 && why == nil; i-- {
		at, why = fmt.Sprintf("the seal of set %d", i), c.seal(ctx, v, i)
	}
	switch {
	case why == nil:
		return passed, ""
	case why.result == resultTemporary:
		return unknown, why.why
	}
	return failed, fmt.Sprintf("%s is not valid: %s", at, why.why)
}

// newest verifies the message signature of the newest set. Those below it may be broken by later
// sealers.
func (c chain) newest(ctx context.Context, v *verifier) *fault {
	f := c.sets[c.highest][signatureField][0]
	t, ok := parseTags(valueOf(f))
	if !ok {
		return permanent("its tags cannot be read")
	}
	if covers(t, kinds[sealField]) {
		return permanent("it covers a seal")
	}
	_, why := v.message(ctx, f, t)
	return why
}

// seal verifies one seal. It covers all sets up to its own.
func (c chain) seal(ctx context.Context, v *verifier, i int) *fault {
	set, t := c.sets[i], c.sealTags(i)
	if _, why := t.time("t"); why != nil {
		return why
	}
	text := c.canonical(i-1) + relaxed(string(set[resultsField][0].Raw)) + relaxed(string(set[signatureField][0].Raw))
	_, why := v.signature(ctx, t, text+unsignedField(set[sealField][0], relaxed))
	return why
}

// canonical are the sets up to one, as a seal covers them.
func (c chain) canonical(upTo int) string {
	var b strings.Builder
	for i := 1; i <= upTo; i++ {
		for _, fields := range c.sets[i] {
			b.WriteString(relaxed(string(fields[0].Raw)))
		}
	}
	return b.String()
}
