package config

import (
	"bytes"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// needed is what registering new mail takes of a configuration, as sections, or keys of them.
var needed = []string{"database", "secrets", "imap", "concurrency", "dedupe", "forward.max_size", "forward.too_large"}

// Registering is what new mail can be registered by, of a file that Load refuses: database, secrets, imap, concurrency, dedupe,
// forward.max_size and forward.too_large; the rest of it is the default. It is nil when any of these has a fault, or may not be
// what was meant: an unknown key could be one of them misspelt, or out of its place, and without routes or the last line end the
// file may be half written. It changes nothing on disk.
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
	if root == nil {
		return nil
	}
	c := Default()
	r := newReader(path, env, private)
	r.src = src
	r.file(root, c)
	r.strangers(names, c)
	r.needed(c)
	sections := sectionsOf(root)
	if r.hindered() || r.elsewhere(c.Database, sections, whole) || swallowed(src, sections) || halfWritten(src, sections, whole) {
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

// meansNeeded reports whether an unknown key of a section may be one that is needed: a word of it is spelled nearly so, here, or
// anywhere when nothing here is. What is no word is mostly a mistake: a quotation mark, a space that YAML does not know, or what was
// to come behind the colon.
func meansNeeded(section, key string, known []string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(key, notInKey), func(word string) bool {
		if best := nearest(word, known); best != "" {
			return needs(join(section, best))
		}
		return nearest(word, neededNames()) != ""
	})
}

func notInKey(c rune) bool { return c != '_' && !unicode.IsLetter(c) }

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

// sectionsOf are the names of a file's sections.
func sectionsOf(root *yaml.Node) []string {
	var out []string
	for i := 0; i+1 < len(root.Content); i += 2 {
		out = append(out, root.Content[i].Value)
	}
	return out
}

// halfWritten reports whether the rest of the file may be missing, and values that are needed with it.
func halfWritten(src []byte, sections []string, whole bool) bool {
	return !bytes.HasSuffix(src, []byte("\n")) || whole && nearest("routes", sections) == ""
}

// swallowed reports whether a section that is needed begins in the text, and is not read as one: brackets or quotation marks around it
// close somewhere.
func swallowed(src []byte, sections []string) bool {
	return slices.ContainsFunc(neededSections(), func(name string) bool {
		return !slices.Contains(sections, name) && regexp.MustCompile(`(?m)^`+name+`:`).Match(src)
	})
}

// elsewhere reports whether another database may be meant. A file that has no section database may have had one: it has the word
// somewhere, such as in what was made a comment, or a section with a name that is like no other, or, as no YAML, not the sections
// that every file has. So may one that has a DSN have had the driver.
func (r *reader) elsewhere(d Database, sections []string, whole bool) bool {
	switch {
	case d.DSN != "" && d.Driver != "mysql":
		return true
	case slices.Contains(sections, "database"), r.overridden("database.driver"), r.overridden("database.path"):
		return false
	case bytes.Contains(bytes.ToLower(r.src), []byte("database")),
		!whole && (!slices.Contains(sections, "smtp") || !slices.Contains(sections, "routes")):
		return true
	}
	known := keys(reflect.TypeFor[Config]())
	return slices.ContainsFunc(sections, func(name string) bool { return nearest(name, known) == "" })
}
