package config

import (
	"bytes"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// needed is what registering new mail takes of a configuration, as sections, or keys of them.
var needed = []string{"database", "secrets", "imap", "concurrency", "dedupe", "forward.max_size", "forward.too_large"}

// Registering is what new mail can be registered by, of a file that Load refuses: database, secrets, imap, concurrency, dedupe,
// forward.max_size and forward.too_large; the rest of it is the default. It is nil when any of these has a fault, or may not be
// what was meant: an unknown key could be one of them misspelt, or out of its place. It changes nothing on disk.
//
// Of a file that is no YAML, the sections are read one by one; they have to begin in the first column.
func Registering(path string, env Lookup, names ...string) *Config {
	src, private, err := read(path)
	if err != nil {
		return nil
	}
	root, err := parse(path, src)
	whole := err == nil
	if !whole {
		root = salvage(src)
	}
	if root == nil || cutOff(src, root) {
		return nil
	}
	c := Default()
	r := newReader(path, env, private)
	r.src = src
	r.file(root, c)
	r.strangers(names, c)
	r.needed(c)
	if r.hindered() || r.elsewhere(root, whole) {
		return nil
	}
	out := Default()
	out.Database, out.Secrets, out.IMAP, out.Concurrency, out.Dedupe = c.Database, c.Secrets, c.IMAP, c.Concurrency, c.Dedupe
	out.Forward.MaxSize, out.Forward.TooLarge = c.Forward.MaxSize, c.Forward.TooLarge
	return out
}

// hindered reports whether a fault is, or may be, about what is needed.
func (r *reader) hindered() bool {
	return r.astray || r.nodes > maxNodes ||
		slices.ContainsFunc(r.errs.All, func(e Error) bool { return e.Key == "" || needs(e.Key) })
}

// needs tells a key that is needed, or of which a part is.
func needs(key string) bool {
	return slices.ContainsFunc(needed, func(n string) bool {
		return key == n || strings.HasPrefix(key, n+".") || strings.HasPrefix(n, key+".")
	})
}

// meansNeeded reports whether an unknown key of a section may be one that is needed: it is spelled nearly so, here, or anywhere
// when nothing here is.
func meansNeeded(section, key string, known []string) bool {
	if best := nearest(key, known); best != "" {
		return needs(join(section, best))
	}
	return nearest(key, neededNames()) != ""
}

// neededNames are the last parts of the names of needed keys, and the sections that they are in.
func neededNames() []string {
	out := neededSections()
	for _, l := range leaves(Default()) {
		if needs(l.name) {
			out = append(out, l.name[strings.LastIndexByte(l.name, '.')+1:])
		}
	}
	return out
}

func neededSections() []string {
	var out []string
	for _, n := range needed {
		if section, _, _ := strings.Cut(n, "."); !slices.Contains(out, section) {
			out = append(out, section)
		}
	}
	return out
}

// cutOff reports whether the file ends within a line of what is needed: it may be half written, and the value half of one.
func cutOff(src []byte, root *yaml.Node) bool {
	n := len(root.Content)
	return !bytes.HasSuffix(src, []byte("\n")) && root.Kind == yaml.MappingNode && n >= 2 && needs(root.Content[n-2].Value)
}

// elsewhere reports whether a file that has no section database may have had one: it has a section with a name that is like no
// other, or, as no YAML, the word somewhere, such as in what was made a comment, or not the sections that every file has.
func (r *reader) elsewhere(root *yaml.Node, whole bool) bool {
	var sections []string
	for i := 0; i+1 < len(root.Content); i += 2 {
		sections = append(sections, root.Content[i].Value)
	}
	if slices.Contains(sections, "database") || r.overridden("database.driver") || r.overridden("database.path") {
		return false
	}
	if !whole {
		return bytes.Contains(bytes.ToLower(r.src), []byte("database")) ||
			!slices.Contains(sections, "smtp") || !slices.Contains(sections, "routes")
	}
	known := keys(reflect.TypeFor[Config]())
	return slices.ContainsFunc(sections, func(name string) bool { return nearest(name, known) == "" })
}
