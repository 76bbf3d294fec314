package route

import (
	"errors"
	"fmt"
	"reflect"
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
	Inbox         string                              `expr:"inbox"`
	Folder        string                              `expr:"folder"`
	From          []string                            `expr:"from"`
	To            []string                            `expr:"to"`
	Cc            []string                            `expr:"cc"`
	Recipients    []string                            `expr:"recipients"`
	Subject       string                              `expr:"subject"`
	ListID        string                              `expr:"list_id"`
	Header        func(name string) string            `expr:"header"`  // the first field of that name, or nothing
	Headers       func(name string) ([]string, error) `expr:"headers"` // all of them
	Body          string                              `expr:"body"`
	Attachments   []string                            `expr:"attachments"`
	HasAttachment bool                                `expr:"has_attachment"`
	Size          int                                 `expr:"size"`
	Sent          time.Time                           `expr:"sent"`    // the Date field, in the match's time zone
	Arrived       time.Time                           `expr:"arrived"` // as for age and hours
	Age           time.Duration                       `expr:"age"`

	Step func(texts ...bool) (bool, error) `expr:"step__"` // counts what loops do; with an argument, to whole texts of the message
}

// What a message may make an expression do.
const (
	maxNodes = 500    // of the expression itself
	maxSteps = 10_000 // through lists

	maxThrough = 256 << 20 // octets of texts that loops go through, again and again
	maxGrowth  = 200       // times as long as it was may a text become by what is put into it
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
	look := &looker{growth: 1}
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
	e := &expression{program, zone, look.content, look.names, look.growth}
	return []condition{{key: s.prefix + "when", want: []string{m.When}, letter: true, costly: look.content, test: e.test}}
}

// looker sees each node of an expression once, before it is compiled.
type looker struct {
	content bool     // it asks for the content
	names   []string // that it mentions
	growth  int      // of texts, at most
	fault   error
}

// short are the names of what is small, whatever a stranger writes; all others may stand for texts.
var short = []string{"inbox", "folder", "from", "to", "cc", "recipients", "attachments", "has_attachment", "size", "sent", "arrived", "age", "step__"}

// textual finds names of texts in a part of an expression.
type textual bool

// Visit implements ast.Visitor.
func (t *textual) Visit(node *ast.Node) {
	if n, ok := (*node).(*ast.IdentifierNode); ok && !slices.Contains(short, n.Value) {
		*t = true
	}
}

// Visit implements ast.Visitor. It forbids expressions that come out of a message, and lets loops be counted.
func (l *looker) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		l.names = append(l.names, n.Value)
		l.content = l.content || slices.Contains([]string{"body", "attachments", "has_attachment"}, n.Value)
		if n.Value == "$env" || n.Value == "step__" {
			l.fail(n, "unknown name "+n.Value)
		}
	case *ast.BinaryNode:
		_, written := n.Right.(*ast.StringNode)
		switch kind := n.Type().Kind(); {
		case n.Operator == "matches" && !written:
			l.fail(n, "the regular expression after matches has to be written out, in quotes")
		case n.Operator == "+" && (kind == reflect.String || kind == reflect.Interface): // with let, each may double the one before
			l.grow(n, 2)
		}
	case *ast.BuiltinNode:
		l.builtin(n)
	case *ast.PredicateNode:
		var texts textual
		ast.Walk(&n.Node, &texts)
		step := &ast.CallNode{Callee: &ast.IdentifierNode{Value: "step__"}}
		if texts {
			step.Arguments = []ast.Node{&ast.BoolNode{Value: true}}
		}
		n.Node = &ast.ConditionalNode{Cond: step, Exp1: n.Node, Exp2: &ast.NilNode{}}
	}
}

// builtin forbids what the options let through, and what would make more of a text than its author and the message wrote: a
// text put into each place of another.
func (l *looker) builtin(n *ast.BuiltinNode) {
	if !slices.Contains(builtins, n.Name) {
		l.fail(n, "unknown name "+n.Name)
	}
	written := func(at int, what string) string {
		if at >= len(n.Arguments) {
			return ""
		}
		s, ok := n.Arguments[at].(*ast.StringNode)
		if !ok {
			l.fail(n, fmt.Sprintf("what %s %s has to be written out, in quotes", n.Name, what))
			return ""
		}
		return s.Value
	}
	switch n.Name {
	case "replace":
		out, in := written(1, "takes out"), written(2, "puts in")
		if out == "" {
			l.fail(n, "replace takes nothing out, and would put something in everywhere")
			return
		}
		l.grow(n, (len(in)+len(out)-1)/len(out))
	case "join":
		l.grow(n, 1+len(written(1, "puts in")))
	}
}

// grow counts by how much a text may grow, here and by all that is done to it.
func (l *looker) grow(n ast.Node, factor int) {
	if l.growth *= max(factor, 1); l.growth > maxGrowth {
		l.growth = 1
		l.fail(n, fmt.Sprintf("what replace and join put in is too long, or what + puts together: a text may become %d times as long, at most", maxGrowth))
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
	names   []string // that are mentioned
	growth  int      // of texts, at most
}

func (e *expression) test(v *view, f *finding) {
	if e.content && v.content().Incomplete != "" {
		f.unknown(v.content().Incomplete)
		return
	}
	l, err := e.letter(v)
	if err != nil {
		f.unknown(err.Error())
		return
	}
	held, err := expr.Run(e.program, l)
	if err != nil {
		_, problem := exprFault(err)
		f.unknown("the expression fails: " + problem)
		return
	}
	f.look(text{shown: fmt.Sprint(held)})
	f.is(held == true)
}

// maxList is how many addresses, names and fields of one kind an expression can be told of.
const maxList = 1000

var errMany = errors.New("it has more than 1,000 addresses, files or fields of one kind")

// letter is what the expression sees; lists that it does not mention are empty.
func (e *expression) letter(v *view) (l letter, err error) {
	list := func(name string, get func() []text, of func(text) string) (out []string) {
		if slices.Contains(e.names, name) && err == nil {
			out, err = strs(get(), of)
		}
		return out
	}
	addresses := func(name string, fields ...string) []string {
		return list(name, func() []text { return v.addressesOf(fields...) }, func(t text) string { return t.folded })
	}
	shown := func(t text) string { return t.shown }
	header := func(name string) string {
		for _, t := range v.text(name) {
			return t.shown
		}
		return ""
	}
	steps, through := 0, 0
	l = letter{
		Inbox: v.mail.Inbox, Folder: v.mail.Folder, Size: int(v.mail.Size),
		From: addresses("from", "From"), To: addresses("to", "To"), Cc: addresses("cc", "Cc"), Recipients: addresses("recipients", recipientFields...),
		Subject: header("Subject"), ListID: header("List-Id"), Header: header,
		Headers: func(name string) ([]string, error) { return strs(v.text(name), shown) },
		Sent:    v.header.Date().In(e.zone), Arrived: v.arrived().In(e.zone), Age: v.age(),
		Step: func(texts ...bool) (bool, error) {
			if len(texts) > 0 {
				through += (len(l.Body) + len(l.Subject) + len(l.ListID)) * e.growth
			}
			switch steps++; {
			case steps > maxSteps:
				return false, fmt.Errorf("it takes more than %d steps through lists", maxSteps)
			case through > maxThrough:
				return false, errors.New("it goes through more than 256 MiB of text")
			}
			return true, nil
		},
	}
	if e.content {
		body, _ := strs(v.body(), shown) // one at most
		l.Body = strings.Join(body, "")
		l.Attachments, l.HasAttachment = list("attachments", v.attachments, shown), v.content().HasAttachment
	}
	return l, err
}

func strs(texts []text, of func(text) string) ([]string, error) {
	if len(texts) > maxList {
		return nil, errMany
	}
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = of(t)
	}
	return out, nil
}
