package taskstest

import (
	"fmt"
	"regexp"
	"strings"
)

// Print is a Go test that plays the operations. Its function open is the one that Model was called
// with.
func Print(ops []Op) string {
	var b strings.Builder
	b.WriteString("func TestCounterexample(t *testing.T) {\n\ttaskstest.Replay(t, open(t),\n")
	for _, op := range ops {
		fmt.Fprintf(&b, "\t\t%s,\n", literal(op))
	}
	b.WriteString("\t)\n}\n")
	return b.String()
}

var (
	zero = regexp.MustCompile(`\w+:(0x0|0|false|""|\[\][\w.]+\((nil|\[\])\)|[\w.\[\]]+{})(, |})`)
	last = regexp.MustCompile(`, }`)
)

// literal is a value as Go code, without the fields that are zero.
func literal(v any) string {
	code := fmt.Sprintf("%#v", v)
	for {
		shorter := last.ReplaceAllString(zero.ReplaceAllStringFunc(code, func(field string) string {
			return strings.TrimLeft(field[len(field)-1:], " ")
		}), "}")
		if shorter == code {
			return code
		}
		code = shorter
	}
}
