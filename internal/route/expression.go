package route

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"
)

// letter is what an expression sees of a message. Texts are decoded; addresses are in lower case, without names, an xn--
// domain as what it stands for.
type letter struct {
	Inbox         string                     `expr:"inbox"`
	Folder        string                     `expr:"folder"`
	From          []string                   `expr:"from"`
	To            []string                   `expr:"to"`
	Cc            []string                   `expr:"cc"`
	Recipients    []string                   `expr:"recipients"`
	Subject       string                     `expr:"subject"`
	ListID        string                     `expr:"list_id"`
	Header        func(name string) string   `expr:"header"`  // the first field of that name, or nothing
	Headers       func(name string) []string `expr:"headers"` // all of them
	Body          string                     `expr:"body"`
	Attachments   []string                   `expr:"attachments"`
	HasAttachment bool                       `expr:"has_attachment"`
	Size          int                        `expr:"size"`
	Sent          time.Time                  `expr:"sent"`    // the Date field, in the match's time zone
	Arrived       time.Time                  `expr:"arrived"` // as for age and hours
	Age           time.Duration              `expr:"age"`

	Step func() (bool, error) `expr:"step__"` // counts what loops do
}

// What a message may make an expression do.
const (
	maxNodes = 500    // of the expression itself
	maxSteps = 10_000 // through lists
)

// builtins are the functions of the language that an expression may use: none of them tells the time of day, and none takes
// longer than its list or text is long (see looker.builtin).
var builtins = []string{
	"all", "none", "any", "one", "filter", "map", "find", "findIndex", "findLast", "count", "sum", "len", "abs", "int", "float", "string",
	"trim", "trimPrefix", "trimSuffix", "upper", "lower", "split", "replace", "join", "indexOf", "lastIndexOf", "hasPrefix", "hasSuffix",
	"max", "min", "date", "duration", "timezone", "first", "last", "take",
}

func (c *compiler) expression(m Match, s scope) []condition {
	if m.When == "" {
		return nil
	}
	look := &looker{}
	options := []expr.Option{expr.Env(letter{}), expr.AsBool(), expr.MaxNodes(maxNodes), expr.DisableAllBuiltins(), expr.Patch(look)}
	for _, name := range builtins {
		options = append(options, expr.EnableBuiltin(name))
	}
	program, err := expr.Compile(m.When, options...)
	if err == nil {
		err = look.fault
	}
	if err != nil {
		char, problem := exprFault(err)
		c.failAt(char, "match."+s.prefix+"when", "%s", problem)
		return nil
	}
	zone := s.zone
	if zone == nil {
		zone = time.UTC
	}
	e := &expression{program, zone, look.content}
	return []condition{{key: s.prefix + "when", want: []string{m.When}, letter: true, costly: look.content, test: e.test}}
}

// looker sees each node of an expression once, before it is compiled.
type looker struct {
	content bool // it asks for the content
	fault   error
}

// Visit implements ast.Visitor. It forbids expressions that come out of a message, and lets loops be counted.
func (l *looker) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		l.content = l.content || slices.Contains([]string{"body", "attachments", "has_attachment"}, n.Value)
		if n.Value == "$env" || n.Value == "step__" {
			l.fail(n, "unknown name "+n.Value)
		}
	case *ast.BinaryNode:
		if _, written := n.Right.(*ast.StringNode); n.Operator == "matches" && !written {
			l.fail(n, "the regular expression after matches has to be written out, in quotes")
		}
	case *ast.BuiltinNode:
		l.builtin(n)
	case *ast.PredicateNode:
		step := &ast.CallNode{Callee: &ast.IdentifierNode{Value: "step__"}}
		n.Node = &ast.ConditionalNode{Cond: step, Exp1: n.Node, Exp2: &ast.NilNode{}}
	}
}

// builtin forbids what the options let through, and what would make more of a text than its author and the message wrote: a
// text put into each place of another.
func (l *looker) builtin(n *ast.BuiltinNode) {
	if !slices.Contains(builtins, n.Name) {
		l.fail(n, "unknown name "+n.Name)
	}
	if at := map[string]int{"replace": 2, "join": 1}[n.Name]; at > 0 && at < len(n.Arguments) {
		if _, written := n.Arguments[at].(*ast.StringNode); !written {
			l.fail(n, fmt.Sprintf("what %s puts in has to be written out, in quotes", n.Name))
		}
	}
}

func (l *looker) fail(n ast.Node, problem string) {
	if l.fault == nil {
		l.fault = &file.Error{Location: n.Location(), Message: problem}
	}
}

// exprFault says where in an expression the fault is, by character from 1, and what it is.
func exprFault(err error) (char int, problem string) {
	var e *file.Error
	if !errors.As(err, &e) {
		return 0, oneLine(err.Error())
	}
	problem = oneLine(e.Message)
	if strings.HasPrefix(problem, "unknown name") {
		problem += "; there are inbox, folder, from, to, cc, recipients, subject, list_id, header(name), headers(name), body, attachments, has_attachment, size, sent, arrived, age"
	}
	return e.From + 1, problem
}

// oneLine keeps what an expression, or a message, may put into an error within a line.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
	if len(s) > 4*maxExcerpt {
		s = strings.ToValidUTF8(s[:4*maxExcerpt], "") + "…"
	}
	return s
}

// expression is a compiled when.
type expression struct {
	program *vm.Program
	zone    *time.Location
	content bool
}

func (e *expression) test(v *view, f *finding) {
	if e.content && v.content().Incomplete != "" {
		f.unknown(v.content().Incomplete)
		return
	}
	held, err := expr.Run(e.program, e.letter(v))
	if err != nil {
		_, problem := exprFault(err)
		f.unknown("the expression fails: " + problem)
		return
	}
	f.look(text{shown: fmt.Sprint(held)})
	f.is(held == true)
}

// maxList is how many addresses, names and fields of one kind an expression sees.
const maxList = 1000

func (e *expression) letter(v *view) letter {
	addresses := func(names ...string) []string {
		return strs(v.addressesOf(names...), func(t text) string { return t.folded })
	}
	shown := func(t text) string { return t.shown }
	headers := func(name string) []string { return strs(v.text(name), shown) }
	header := func(name string) string { return strings.Join(headers(name)[:min(1, len(headers(name)))], "") }
	steps := 0
	l := letter{
		Inbox: v.mail.Inbox, Folder: v.mail.Folder, Size: int(v.mail.Size),
		From: addresses("From"), To: addresses("To"), Cc: addresses("Cc"), Recipients: addresses(recipientFields...),
		Subject: header("Subject"), ListID: header("List-Id"), Header: header, Headers: headers,
		Sent: v.header.Date().In(e.zone), Arrived: v.arrived().In(e.zone), Age: v.age(),
		Step: func() (bool, error) {
			if steps++; steps > maxSteps {
				return false, fmt.Errorf("it takes more than %d steps through lists", maxSteps)
			}
			return true, nil
		},
	}
	if e.content {
		l.Body = strings.Join(strs(v.body(), shown), "")
		l.Attachments, l.HasAttachment = strs(v.attachments(), shown), v.content().HasAttachment
	}
	return l
}

func strs(texts []text, of func(text) string) []string {
	out := []string{}
	for _, t := range texts[:min(len(texts), maxList)] {
		out = append(out, of(t))
	}
	return out
}
