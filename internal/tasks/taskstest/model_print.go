package taskstest

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Print is a Go test that plays the operations. Its function open is the one that Model was called with.
func Print(ops []Op) string {
	var b strings.Builder
	b.WriteString("func TestCounterexample(t *testing.T) {\n\ttaskstest.Replay(t, open(t),\n")
	for _, op := range ops {
		fmt.Fprintf(&b, "\t\t%s,\n", literal(op))
	}
	b.WriteString("\t)\n}\n")
	return b.String()
}

// literal is a value as Go code, without the fields that are zero.
func literal(v any) string { return code(reflect.ValueOf(v), true) }

func code(v reflect.Value, typed bool) string {
	var parts []string
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if !v.Field(i).IsZero() {
				parts = append(parts, v.Type().Field(i).Name+": "+code(v.Field(i), true))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			parts = append(parts, code(v.Index(i), false))
		}
	case reflect.Int64:
		if d, ok := v.Interface().(time.Duration); ok {
			return fmt.Sprintf("%d * time.Second", int64(d/time.Second))
		}
		return fmt.Sprint(v)
	default:
		if v.Kind() == reflect.String {
			return fmt.Sprintf("%q", v.String())
		}
		return fmt.Sprint(v)
	}
	body := "{" + strings.Join(parts, ", ") + "}"
	if typed {
		return v.Type().String() + body
	}
	return body
}
