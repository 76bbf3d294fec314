package config

import (
	"bytes"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"postrider/internal/text"
)

// variable is the environment variable that overrides a key.
func variable(key string) string {
	return "POSTRIDER_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// given reports whether an environment variable has a value.
func (r *reader) given(name string) bool {
	v, _ := r.env(name)
	return v != ""
}

// file reads the tree of the file, and then the environment, which overrides it.
func (r *reader) file(root *yaml.Node, c *Config) {
	r.places[""] = place{source: r.path}
	for _, l := range leaves(c) {
		r.overridden[l.name] = r.given(variable(l.name))
	}
	r.value(root, "", reflect.ValueOf(c).Elem())
	for _, l := range leaves(c) {
		if text, _ := r.env(variable(l.name)); text != "" {
			r.places[l.name] = place{source: variable(l.name)}
			r.scalar(l.name, text, l.value)
		}
	}
}

// unknownVariables refuses variables that look like a key which has none, or like a misspelt key,
// unless the file refers to them. Others may belong to the user, such as the password of an inbox.
func (r *reader) unknownVariables(names []string, c *Config) {
	known := map[string][]string{} // by section
	for _, l := range leaves(c) {
		if section, key, ok := strings.Cut(l.name, "."); ok {
			known[section] = append(known[section], key)
		}
	}
	for _, name := range slices.Sorted(slices.Values(names)) {
		switch {
		case !r.given(name) || r.refersTo(name):
		case withoutVariable(c, name):
			r.failAt(place{source: name}, "", "no variable overrides a list, or a key in an entry that you name "+
				"yourself; write the value in the file, a secret as env:NAME")
		default:
			r.misspelt(name, known)
		}
	}
}

func (r *reader) misspelt(name string, known map[string][]string) {
	for section, keys := range known {
		key, ok := strings.CutPrefix(name, variable(section)+"_")
		key = strings.ToLower(key)
		if !ok || slices.ContainsFunc(keys, func(k string) bool { return variable(section+"."+k) == name }) {
			continue
		}
		if near := text.Nearest(key, keys); near != "" {
			r.failAt(place{source: name}, section+"."+key, "unknown key; did you mean %s?", variable(section+"."+near))
		}
	}
}

// refersTo reports whether the file takes a secret from a variable.
func (r *reader) refersTo(name string) bool { return bytes.Contains(r.src, []byte("env:"+name)) }
