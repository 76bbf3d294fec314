package config

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"postrider/internal/health"
	"postrider/internal/route"
	"postrider/internal/secret"
	"postrider/internal/text"
)

// scalar puts text into v. An error never repeats the value of a secret.
func (r *reader) scalar(key, text string, v reflect.Value) {
	var err error
	if s, ok := v.Addr().Interface().(*secret.String); ok {
		*s, err = r.secret(key, text)
	} else {
		err = set(v, text)
	}
	if err != nil {
		r.fail(key, "%s", err)
	}
}

func set(v reflect.Value, text string) error {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	switch p := v.Addr().Interface().(type) {
	case encoding.TextUnmarshaler:
		return p.UnmarshalText([]byte(text))
	case *time.Duration:
		d, err := Duration(text)
		if errors.Is(err, errTooLong) {
			return fmt.Errorf("%s %w", text, err)
		}
		if err != nil {
			return fmt.Errorf("has to be %s, not %q", kindOf(v), text)
		}
		*p = d
	case *bool:
		words := map[string]bool{"true": true, "yes": true, "on": true, "false": false, "no": false, "off": false}
		b, ok := words[strings.ToLower(text)]
		if !ok {
			return fmt.Errorf("has to be %s, not %q", kindOf(v), text)
		}
		*p = b
	case *int:
		n, err := strconv.Atoi(text)
		if errors.Is(err, strconv.ErrRange) {
			return fmt.Errorf("%s is too large; the largest is %d", text, math.MaxInt)
		}
		if err != nil {
			return fmt.Errorf("has to be %s, not %q", kindOf(v), text)
		}
		*p = n
	default: // a string type: there are no others
		v.SetString(text)
	}
	return nil
}

// kindOf says what a value has to be.
func kindOf(v reflect.Value) string {
	switch v.Addr().Interface().(type) {
	case *health.Share:
		return "a share such as 20% or 0.2"
	case *Age:
		return "never, or " + aDuration
	case *route.Action:
		return "keep, seen, delete, {flag: FLAG} or {move: FOLDER} with one key and one name"
	case encoding.TextUnmarshaler:
		return "a size such as 50MiB"
	case *time.Duration:
		return aDuration
	case *bool:
		return "true or false"
	case *int:
		return "a whole number"
	}
	return "text"
}

// secret resolves a reference. It accepts the text itself in a file that only its owner can read.
func (r *reader) secret(key, value string) (secret.String, error) {
	inFile := r.places[key].line > 0
	if inFile && !r.private && !secret.IsRef(value) && holdsPassword(key, value) {
		return "", fmt.Errorf("this password is plain text, and other users can read this file; "+
			"run: chmod 600 %s (or write env:NAME, file:PATH or command:... instead)", text.Arg(r.path))
	}
	if !secret.IsRef(value) && secret.IsRef(strings.ToLower(value)) {
		return "", errors.New("begins with capital letters; write env:, file: or command: instead")
	}
	if name, ok := strings.CutPrefix(value, "file:"); ok {
		value = "file:" + relativeTo(r.path, name)
	}
	resolved, err := r.resolve(value)
	if err == nil && resolved == "" {
		err = errors.New("is empty; give a value, or remove the line")
	}
	return secret.String(resolved), err
}

// holdsPassword reports whether a secret in plain text contains a password: a URL or a data source
// name may have none.
func holdsPassword(key, text string) bool {
	if !slices.Contains([]string{"dsn", "proxy", "url"}, key[strings.LastIndexByte(key, '.')+1:]) {
		return true
	}
	if _, rest, ok := strings.Cut(text, "://"); ok {
		text = rest
	}
	return strings.Contains(text[:max(strings.LastIndexByte(text, '@'), 0)], ":")
}
