package config

import (
	"fmt"
	"strings"
	"testing"

	"postrider/internal/route"
)

// TestGeneralOfRoutes: what forward says goes for the routes that say nothing, and for no route
// that skips.
func TestGeneralOfRoutes(t *testing.T) {
	const routes = `
smtp: {host: smtp.example.com}
routes:
  - {name: silent, match: {}, to: a@x.example}
  - {name: forwards, match: {}, to: a@x.example, KEY: forward}
  - {name: skips, match: {}, to: a@x.example, KEY: skip}
  - {name: nobody, match: {}, skip: true}
`
	keys := map[string]func(route.Rule) string{
		"automated":   func(r route.Rule) string { return string(r.Automated) },
		"own_address": func(r route.Rule) string { return string(r.OwnAddress) },
	}
	for _, tt := range []struct{ key, general, want string }{
		{"automated", "", " forward skip "},
		{"automated", "forward", " forward skip "},
		{"automated", "skip", "skip forward skip "},
		{"own_address", "", " forward skip "},
		{"own_address", "skip", " forward skip "},
		{"own_address", "forward", "forward forward skip "},
	} {
		general := ""
		if tt.general != "" {
			general = tt.key + ": " + tt.general
		}
		c := load(t, strings.ReplaceAll(routes, "KEY", tt.key)+"forward: {from: a@x.example, "+general+"}")
		var got []string
		for _, r := range c.Routes {
			got = append(got, keys[tt.key](r))
		}
		if got := strings.Join(got, " "); got != tt.want {
			t.Errorf("with %q the routes have %q, want %q", general, got, tt.want)
		}
		if want, err := route.Compile(c.Routes); err != nil || len(want.Recipients()) != len(c.Table.Recipients()) {
			t.Errorf("with %q the routes do not compile (%v), or the table has %v; want that of all routes",
				general, err, c.Table.Recipients())
		}
	}
}

func TestGeneralErrors(t *testing.T) {
	for key, words := range map[string]string{"automated": "forward, skip", "own_address": "skip, forward"} {
		text := fmt.Sprintf("%s\nforward: {from: a@x.example, %s: drop}", srsMinimal[1:], key)
		got := loadErrors(t, write(t, text), variables())
		want := fmt.Sprintf(`forward.%s: "drop" is not one of %s`, key, words)
		if !strings.Contains(got, want) || strings.Contains(got, "\n") {
			t.Errorf("the errors are %q, want only %q", got, want)
		}
	}
}
