package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"postrider/internal/route"
	"postrider/internal/secret"
)

// maxNodes bounds the work that aliases can cause: a few lines of them can multiply to any number
// of values.
const maxNodes = 100_000

// reader fills a Config from a tree of YAML nodes and the environment, and remembers the place of
// each key.
type reader struct {
	path    string
	src     []byte
	env     Lookup
	resolve Resolve
	private bool
	places  map[string]place // by full name, such as routes[0].match.subject[1]
	unknown map[string]bool  // the sections with an unknown key
	errs    *Errors
	nodes   int

	overridden map[string]bool // by the environment
}

func newReader(path string, env Lookup, private bool) *reader {
	return &reader{
		path: path, env: env, resolve: secret.Resolve, private: private,
		places: map[string]place{}, unknown: map[string]bool{}, overridden: map[string]bool{}, errs: &Errors{},
	}
}

// fail adds an error about a key. A key that is not given has the place of its section.
func (r *reader) fail(key, format string, args ...any) {
	at := place{source: r.path}
	for k := key; k != ""; k = parent(k) {
		if p, ok := r.places[k]; ok {
			at = p
			break
		}
	}
	r.failAt(at, key, format, args...)
}

func (r *reader) failAt(at place, key, format string, args ...any) {
	r.errs.All = append(r.errs.All, Error{at.source, at.line, at.column, key, fmt.Sprintf(format, args...)})
}

// parent is the name of the section or list that a key is in.
func parent(key string) string { return key[:max(strings.LastIndexAny(key, ".["), 0)] }

func join(parent, key string) string {
	if parent == "" {
		return key
	}
	return parent + "." + key
}

// value reads one node into v.
func (r *reader) value(n *yaml.Node, key string, v reflect.Value) {
	if r.tooManyValues(key) {
		return
	}
	n = action(resolve(n), v)
	kind := v.Kind()
	switch {
	case kind == reflect.Struct && isNull(n):
		delete(r.places, key) // a section whose keys are all commented out
	case kind == reflect.Map && isNull(n):
		v.Set(reflect.MakeMap(v.Type()))
	case isNull(n):
		r.fail(key, "has no value; give one, or remove the line")
	case kind == reflect.Struct:
		r.section(n, key, v)
	case kind == reflect.Slice:
		r.list(n, key, v)
	case kind == reflect.Map:
		r.table(n, key, v)
	case kind == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		r.value(n, key, v.Elem())
	case n.Kind != yaml.ScalarNode:
		r.fail(key, "has to be %s, not %s", kindOf(v), describe(n))
	case !r.overridden[key]:
		r.scalar(key, n.Value, v)
	}
}

// action makes one value of {move: FOLDER}: "move: FOLDER".
func action(n *yaml.Node, v reflect.Value) *yaml.Node {
	if v.Type() != reflect.TypeFor[route.Action]() || n.Kind != yaml.MappingNode || len(n.Content) != 2 {
		return n
	}
	key, value := resolve(n.Content[0]), resolve(n.Content[1])
	if key.Kind != yaml.ScalarNode || value.Kind != yaml.ScalarNode {
		return n
	}
	one := *value
	one.Value = key.Value + ": " + value.Value
	return &one
}

// tooManyValues reports whether maxNodes is exceeded, and adds that error once.
func (r *reader) tooManyValues(key string) bool {
	if r.nodes++; r.nodes == maxNodes+1 {
		r.fail(key, "there are more than %d values; an alias contains itself, or aliases of aliases multiply", maxNodes)
	}
	return r.nodes > maxNodes
}

func (r *reader) section(n *yaml.Node, key string, v reflect.Value) {
	known := keys(v.Type())
	if n.Kind != yaml.MappingNode {
		r.fail(key, "has to be a section with the keys %s, not %s", strings.Join(known, ", "), describe(n))
		return
	}
	for _, e := range r.entries(n, key) {
		name := join(key, e.name)
		if i := slices.Index(known, e.name); i >= 0 {
			r.value(e.value, name, v.Field(i))
			continue
		}
		r.unknown[key] = true
		r.fail(name, "unknown key%s", suggest(key, e.name, known))
	}
}

// list reads a sequence; a single value is a list of one.
func (r *reader) list(n *yaml.Node, key string, v reflect.Value) {
	items := n.Content
	if n.Kind != yaml.SequenceNode {
		if n.Kind != yaml.ScalarNode || v.Type().Elem().Kind() != reflect.String {
			r.fail(key, "has to be a list (its lines start with -), not %s", describe(n))
			return
		}
		items = []*yaml.Node{n}
	}
	v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
	for i, item := range items {
		name := fmt.Sprintf("%s[%d]", key, i)
		r.places[name] = r.placeOf(item)
		r.value(item, name, v.Index(i))
	}
}

// table reads a mapping with free keys.
func (r *reader) table(n *yaml.Node, key string, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		r.fail(key, "has to be a section of names and their values, not %s", describe(n))
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, e := range r.entries(n, key) {
		item := reflect.New(v.Type().Elem()).Elem()
		r.value(e.value, join(key, e.name), item)
		v.SetMapIndex(reflect.ValueOf(e.name), item)
	}
}

// entry is one key of a mapping.
type entry struct {
	name  string
	value *yaml.Node
}

// entries are the keys of a mapping. Its own keys override those that << merges in.
func (r *reader) entries(n *yaml.Node, key string) []entry {
	var own, merged []entry
	at := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, value := resolve(n.Content[i]), n.Content[i+1]
		where := r.placeOf(n.Content[i])
		where.value = resolve(value)
		if k.ShortTag() == "!!merge" {
			merged = append(merged, r.merge(value, key, where)...)
			continue
		}
		name := join(key, k.Value)
		if k.Kind != yaml.ScalarNode {
			r.failAt(where, key, "a key has to be plain text, not %s", describe(k))
			continue
		}
		if line, twice := at[k.Value]; twice {
			r.failAt(where, name, "appears twice, first in line %d; remove one of them", line)
			continue
		}
		at[k.Value] = where.line
		r.places[name] = where
		own = append(own, entry{k.Value, value})
	}
	for _, e := range merged {
		if _, mine := at[e.name]; !mine {
			at[e.name] = 0
			own = append(own, e)
		}
	}
	return own
}

// merge returns the entries of <<: those of a mapping, or of a list of mappings of which earlier
// ones win (https://yaml.org/type/merge.html).
func (r *reader) merge(n *yaml.Node, key string, where place) []entry {
	if r.tooManyValues(key) {
		return nil
	}
	switch n = resolve(n); n.Kind {
	case yaml.MappingNode:
		return r.entries(n, key)
	case yaml.SequenceNode:
		var out []entry
		for _, item := range n.Content {
			out = append(out, r.merge(item, key, where)...)
		}
		return out
	}
	r.failAt(where, key, "<< takes a section, or a list of sections, not %s", describe(n))
	return nil
}

func (r *reader) placeOf(n *yaml.Node) place { return place{r.path, n.Line, n.Column, resolve(n)} }

func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// describe names the kind of a node without its content.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a section"
	case yaml.SequenceNode:
		return "a list"
	}
	return "a single value"
}
