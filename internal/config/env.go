package config

import (
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// variable is the environment variable that overrides a key.
func variable(key string) string {
	return "POSTRIDER_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

func (r *reader) overridden(key string) bool {
	v, _ := r.env(variable(key))
	return v != ""
}

// file reads the whole tree and then the environment on top of it.
func (r *reader) file(root *yaml.Node, c *Config) {
	r.places[""] = place{source: r.path}
	r.value(root, "", reflect.ValueOf(c).Elem())
	for _, l := range leaves(c) {
		if text, _ := r.env(variable(l.name)); text != "" {
			r.places[l.name] = place{source: variable(l.name)}
			r.scalar(l.name, text, l.value)
		}
	}
}
