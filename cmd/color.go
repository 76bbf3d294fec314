package cmd

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"postrider/internal/tasks"
	"postrider/internal/terminal"
)

// The values of --color and --log-format.
const (
	colorAuto   = "auto"
	colorAlways = "always"
	colorNever  = "never"

	logText = "text"
	logJSON = "json"
)

// checkFlags refuses values of --color and --log-format that do not exist.
func (a *app) checkFlags() error {
	switch {
	case !slices.Contains([]string{colorAuto, colorAlways, colorNever}, a.color):
		return usage(fmt.Errorf("--color is %q; use auto, always or never", a.color))
	case !slices.Contains([]string{"", logText, logJSON}, a.logFormat):
		return usage(fmt.Errorf("--log-format is %q; use text or json", a.logFormat))
	}
	return nil
}

// colors reports whether standard output gets colours. With auto a terminal does that can show
// them, unless NO_COLOR is set (https://no-color.org).
func (a *app) colors() bool {
	if a.color != colorAuto {
		return a.color == colorAlways
	}
	off, _ := a.env("NO_COLOR")
	kind, _ := a.env("TERM")
	return off == "" && kind != "dumb" && runtime.GOOS != "windows" && isTerminal(a.out)
}

// stateColors are those of tasks and of deliveries.
var stateColors = map[string]terminal.Color{
	string(tasks.Forwarded): terminal.Green, string(tasks.Delivered): terminal.Green,
	string(tasks.Dead): terminal.Red, string(tasks.Uncertain): terminal.Red, string(tasks.Failed): terminal.Red,
	string(tasks.Received): terminal.Yellow, string(tasks.InProgress): terminal.Yellow,
	string(tasks.Error): terminal.Yellow, string(tasks.Pending): terminal.Yellow,
	string(tasks.Sending): terminal.Yellow,
	string(tasks.Skipped): terminal.Faint, string(tasks.SkippedNoMatch): terminal.Faint,
	string(tasks.Duplicated): terminal.Faint,
}

// paintState is a state in its colour.
func paintState(state string) string {
	if strings.HasSuffix(state, bouncedMark) {
		return terminal.Red.Of(state)
	}
	return stateColors[state].Of(state)
}

// paintStates is what states makes, each state in its colour.
func paintStates(list string) string {
	parts := strings.Split(list, ", ")
	for i, part := range parts {
		_, name, _ := strings.Cut(part, " ")
		for state, color := range stateColors {
			if stateName(tasks.Status(state)) == name {
				parts[i] = color.Of(part)
			}
		}
	}
	return strings.Join(parts, ", ")
}

// painted has a column of a table in colours, if there are any.
func (a *app) painted(g *terminal.Table, column string, paint func(string) string) *terminal.Table {
	if a.colors() {
		g.Paint = map[string]func(string) string{column: paint}
	}
	return g
}
