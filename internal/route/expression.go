package route

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"

	words "postrider/internal/text"
)

// What an expression may cost. The library ends an expression that builds lists with more elements
// than its memory budget, but it neither counts the steps of loops nor takes a deadline. So a
// message is undecided when the lists in it are too long for the loops. What an expression builds
// of texts, such as with +, is up to the author of the configuration.
const (
	maxNodes   = 500     // of the expression
	maxBuilt   = 10_000  // elements of the lists that it builds
	maxScanned = 1 << 30 // octets: the text, once for each step of the innermost loop
	stepCost   = 64      // octets that could be scanned in the time of a step without text
)

// builtins are the functions of the language that an expression may use. None of them returns the
// time of day, and each takes time in proportion to its list or text.
var builtins = []string{
	"all", "none", "any", "one", "filter", "map", "find", "findIndex", "findLast", "count", "sum",
	"len", "abs", "int", "float", "string", "trim", "trimPrefix", "trimSuffix", "upper", "lower",
	"replace", "join", "indexOf", "lastIndexOf", "hasPrefix", "hasSuffix", "max", "min",
	"date", "duration", "timezone", "first", "last", "take",
}

// variables are the names that an expression may use, as an error lists them.
const variables = "inbox, folder, labels, from, to, cc, recipients, subject, list_id, header(name), headers(name), " +
	"body, attachments, has_attachment, size, sent, arrived, age"

// expression is a compiled when.
type expression struct {
	program *vm.Program
	zone    *time.Location
	names   []string // the variables in it
	depth   int      // of loops in loops
	content bool     // it needs the decoded content
}

func (c *compiler) expression(m Match, s scope) []condition {
	if m.When == "" {
		return nil
	}
	look := &inspector{nested: map[*ast.PredicateNode]int{}}
	options := []expr.Option{
		expr.Env(environment{}), expr.AsBool(), expr.MaxNodes(maxNodes), expr.DisableAllBuiltins(), expr.Patch(look),
	}
	for _, name := range builtins {
		options = append(options, expr.EnableBuiltin(name))
	}
	program, err := expr.Compile(m.When, options...)
	if err == nil {
		err = look.err
	}
	if err != nil {
		char, problem := expressionError(err)
		if name, ok := strings.CutPrefix(problem, "unknown name "); ok {
			problem += "; there are " + look.known(name)
		}
		c.failAt(char, "match."+s.prefix+"when", "%s", problem)
		return nil
	}
	e := &expression{program: program, zone: time.UTC, names: look.names, depth: look.depth}
	if s.zone != nil {
		e.zone = s.zone
	}
	e.content = look.uses("body", "attachments", "has_attachment")
	list := []condition{{
		key: s.prefix + "when", want: []string{m.When}, message: true, content: e.content, test: e.test,
	}}
	if look.uses("inbox", "labels") {
		return ofInbox(list)
	}
	return list
}

// inspector reads the tree of an expression and changes nothing. It refuses what would let the
// author of a message choose how long the expression takes.
type inspector struct {
	names  []string // of variables and functions
	called []string // the functions in it
	nested map[*ast.PredicateNode]int
	depth  int   // of loops in loops
	err    error // the first
}

func (l *inspector) uses(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(l.names, name) })
}

// Visit implements ast.Visitor. It comes to a node after the nodes below it.
func (l *inspector) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		l.names = append(l.names, n.Value)
		if n.Value == "$env" { // it would hide names
			l.fail(n, "unknown name "+n.Value)
		}
	case *ast.BinaryNode:
		if n.Operator == "matches" && !isText(n.Right) {
			l.fail(n, "the regular expression after matches has to be written out, in quotes")
		}
	case *ast.CallNode:
		if callee, ok := n.Callee.(*ast.IdentifierNode); ok {
			l.called = append(l.called, callee.Value)
		}
	case *ast.BuiltinNode:
		l.builtin(n)
	case *ast.PredicateNode: // the body of a loop
		l.loop(n)
	}
}

// known lists what there is in place of an unknown variable or function.
func (l *inspector) known(name string) string {
	if slices.Contains(l.called, name) {
		return "the functions header, headers, split, " + strings.Join(builtins, ", ")
	}
	return variables
}

func (l *inspector) loop(n *ast.PredicateNode) {
	inner := 0
	ast.Find(n.Node, func(m ast.Node) bool {
		if p, ok := m.(*ast.PredicateNode); ok {
			inner = max(inner, l.nested[p])
		}
		return false
	})
	l.nested[n] = inner + 1
	l.depth = max(l.depth, inner+1)
}

func (l *inspector) builtin(n *ast.BuiltinNode) {
	l.called = append(l.called, n.Name)
	inserted := map[string]int{"replace": 2, "join": 1} // the argument that is put into a text again and again
	at, ok := inserted[n.Name]
	switch {
	case !slices.Contains(builtins, n.Name): // the library has some that cannot be disabled
		l.fail(n, "unknown name "+n.Name)
	case ok && at < len(n.Arguments) && !isText(n.Arguments[at]):
		l.fail(n, fmt.Sprintf("what %s puts in has to be written out, in quotes", n.Name))
	case n.Name == "date" || n.Name == "duration" || n.Name == "timezone":
		l.constant(n)
	}
}

// constant tries a function whose arguments are all written out.
func (l *inspector) constant(n *ast.BuiltinNode) {
	given := n.Arguments
	if n.Name == "date" && len(given) > 1 { // the time zone before it was tried on its own
		if zone, ok := given[0].(*ast.BuiltinNode); ok && zone.Name == "timezone" {
			given = given[1:]
		}
	}
	var args []any
	for _, arg := range given {
		if s, ok := arg.(*ast.StringNode); ok {
			args = append(args, s.Value)
		}
	}
	if len(args) == 0 || len(args) < len(given) {
		return
	}
	if _, err := builtin.Builtins[builtin.Index[n.Name]].Func(args...); err != nil {
		l.fail(n, fmt.Sprintf("%s: %v%s", n.Name, err, forms[n.Name]))
	}
}

// forms are examples of the texts that a function takes.
var forms = map[string]string{
	"date":     `; write one such as date("2026-02-01")`,
	"duration": `; write hours and minutes, such as duration("720h") for 30 days`,
	"timezone": `; write one such as timezone("Europe/Berlin")`,
}

func isText(n ast.Node) bool {
	_, ok := n.(*ast.StringNode)
	return ok
}

func (l *inspector) fail(n ast.Node, problem string) {
	if l.err == nil {
		l.err = &file.Error{Location: n.Location(), Message: problem}
	}
}

// expressionError returns the problem, and the character of the expression that it is about, from
// 1.
func expressionError(err error) (char int, problem string) {
	var e *file.Error
	if !errors.As(err, &e) {
		return 0, short(err.Error())
	}
	return e.From + 1, short(e.Message)
}

// short is what an expression, or a message, may put into an error.
func short(s string) string { return words.Cut(words.Line(s), 4*maxExcerpt) }

// test runs the expression. A message that it cannot be run for within the bounds is undecided.
func (e *expression) test(v *view, f *finding) {
	if why := e.unread(v); why != "" {
		f.unknown(why)
		return
	}
	env, err := e.environment(v)
	if err != nil {
		f.unknown(err.Error())
		return
	}
	machine := vm.VM{MemoryBudget: maxBuilt}
	held, err := machine.Run(e.program, env)
	if err != nil {
		_, problem := expressionError(err)
		f.unknown("the expression fails: " + problem)
		return
	}
	f.look(text{shown: fmt.Sprint(held)})
	f.is(held == true)
}

// unread is why the expression cannot know what it asks of the content; empty if it can.
func (e *expression) unread(v *view) string {
	switch {
	case !e.content:
		return ""
	case slices.Contains(e.names, "body"):
		return v.unread()
	}
	return v.missing()
}
