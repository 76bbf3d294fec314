package config

import (
	"reflect"
	"slices"
	"strings"

	"postrider/internal/text"
)

// keys are the names of a struct's fields in the file, by the index of the field. The first field
// that is not in the file ends them.
func keys(t reflect.Type) (out []string) {
	for i := 0; i < t.NumField() && t.Field(i).Tag.Get("yaml") != "-"; i++ {
		out = append(out, t.Field(i).Tag.Get("yaml"))
	}
	return out
}

// leaf is one key that is no section.
type leaf struct {
	name  string
	value reflect.Value
}

// leaves are all single values of c that are not in lists.
func leaves(c *Config) (out []leaf) {
	walk("", reflect.ValueOf(c).Elem(), func(l leaf) {
		if k := l.value.Kind(); k != reflect.Slice && k != reflect.Map {
			out = append(out, l)
		}
	})
	return out
}

// withoutVariable reports whether the variable would override a list, or a key in an entry.
func withoutVariable(c *Config, name string) (is bool) {
	walk("", reflect.ValueOf(c).Elem(), func(l leaf) {
		rest, ok := strings.CutPrefix(name, variable(l.name))
		switch t := l.value.Type(); {
		case !ok || t.Kind() != reflect.Map && t.Kind() != reflect.Slice:
		case rest == "":
			is = true
		case t.Elem().Kind() == reflect.Struct:
			is = is || endsInKey(rest, t.Elem())
		}
	})
	return is
}

// endsInKey reports whether the rest of a variable's name ends in a key of an entry. Others may be
// the user's: POSTRIDER_EVENTS_PASSWORD may be the password of the inbox events@firm.example.
func endsInKey(rest string, entry reflect.Type) (is bool) {
	walk("", reflect.Zero(entry), func(l leaf) {
		is = is || strings.HasSuffix(rest, strings.TrimPrefix(variable(l.name), "POSTRIDER"))
	})
	return is
}

// walk calls f for the keys of a section and those of the sections in it.
func walk(parent string, v reflect.Value, f func(leaf)) {
	for i, key := range keys(v.Type()) {
		if name, field := join(parent, key), v.Field(i); field.Kind() == reflect.Struct {
			walk(name, field, f)
		} else {
			f(leaf{name, field})
		}
	}
}

// suggest names the key that was probably meant: one with a similar name, or the same one in
// another section, or one that lacks the space after its colon.
func suggest(section, key string, known []string) string {
	if key = shown(key); slices.Contains(known, key) {
		return "; write a space after the colon, as in " + key + ": VALUE"
	}
	if best := text.Nearest(key, known); best != "" {
		return "; did you mean " + join(section, best) + "?"
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
