package config

import (
	"reflect"
	"strings"

	"postrider/internal/text"
)

// keys are the names of a struct's fields in the file, in order.
func keys(t reflect.Type) []string {
	out := make([]string, t.NumField())
	for i := range out {
		out[i] = t.Field(i).Tag.Get("yaml")
	}
	return out
}

// leaf is one key with a single value.
type leaf struct {
	name  string
	value reflect.Value
}

// leaves are all single values of c that are not in lists.
func leaves(c *Config) []leaf { return leavesOf("", reflect.ValueOf(c).Elem()) }

func leavesOf(parent string, v reflect.Value) []leaf {
	var out []leaf
	for i, key := range keys(v.Type()) {
		name, f := join(parent, key), v.Field(i)
		switch f.Kind() {
		case reflect.Struct:
			out = append(out, leavesOf(name, f)...)
		case reflect.Slice, reflect.Map:
		default:
			out = append(out, leaf{name, f})
		}
	}
	return out
}

// suggest names the key that was probably meant: one with a similar name, or the same one in
// another section.
func suggest(full, key string, known []string) string {
	if best := nearest(key, known); best != "" {
		return "; did you mean " + join(parent(full), best) + "?"
	}
	var elsewhere []string
	for _, l := range leaves(Default()) {
		if strings.HasSuffix(l.name, "."+key) {
			elsewhere = append(elsewhere, l.name)
		}
	}
	if len(elsewhere) > 0 {
		return "; did you mean " + strings.Join(elsewhere, " or ") + "? (mind the indentation)"
	}
	return "; known here are " + strings.Join(known, ", ")
}

// nearest is the known key with the most similar name. It is empty if none is similar.
func nearest(key string, known []string) string { return text.Nearest(key, known) }
