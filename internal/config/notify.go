package config

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"postrider/internal/address"
	"postrider/internal/notify"
	"postrider/internal/text"
)

// notify checks who is notified of failures. It does not check whether the hook can be run: a
// missing program must not stop the mail.
func (r *reader) notify(c *Config) {
	n := c.Notify
	seen := map[string]string{} // by address.Key
	for i, to := range n.To {
		key := fmt.Sprintf("notify.to[%d]", i)
		a, err := address.Parse(to)
		if err = cmp.Or(err, address.Check(to)); err != nil {
			r.refuse(key, "%s", err)
			continue
		}
		switch first, twice := seen[a.Key()]; {
		case twice && first == to:
			r.refuse(key, "%s stands here twice; remove one of them", to)
		case twice:
			r.refuse(key, "%s is the same address as %s; remove one of them", to, first)
		}
		seen[a.Key()] = to
	}
	for i, on := range n.On {
		oneOf(r, fmt.Sprintf("notify.on[%d]", i), on, notify.Kinds()...)
	}
	if len(n.On) == 0 {
		r.refuse("notify.on", "is empty; name one or more of %s, or remove the line for all of them",
			strings.Join(text.Strings(notify.Kinds()), ", "))
	}
	between(r, "notify.at_most", n.AtMost, 0, 30*24*time.Hour)
	_, given := r.places["notify"]
	if given && len(n.To) == 0 && len(c.Hook) == 0 && !r.hasErrorWithin("notify") && !r.hasError("hook") {
		r.refuse("notify", "has no recipient; give notify.to, an address, or hook, a program")
	}
	if len(n.To) > 0 {
		r.senderFor("notify.to", c.Forward.From)
	}
	r.hook(c.Hook)
}

// hook makes the program's path relative to the file. A name without a slash is looked up in PATH
// when it is run.
func (r *reader) hook(args []string) {
	if _, given := r.places["hook"]; !given {
		return
	}
	if len(args) == 0 || args[0] == "" {
		r.refuse("hook", "is empty; "+
			"name a program, and its arguments as a list: hook: [/usr/local/bin/page, --team, mail]")
		return
	}
	if slices.ContainsFunc(args, func(a string) bool { return strings.ContainsRune(a, 0) }) {
		r.refuse("hook", "has a NUL in it, which no argument of a program can have")
	}
	program := args[0]
	if strings.ContainsAny(program, "/"+string(filepath.Separator)) {
		path, err := filepath.Abs(relativeTo(r.path, program)) // a slash keeps it from PATH
		if err != nil {
			r.refuse("hook", "its folder cannot be found: %v; write the whole path", err)
		}
		args[0] = path
	}
	if _, err := os.Stat(args[0]); err != nil && len(args) == 1 && strings.ContainsAny(program, " \t\n") {
		r.refuse("hook", "%q is the name of one program, because no shell reads it; "+
			"write arguments as a list: hook: [%s]",
			program, strings.Join(strings.Fields(program), ", "))
	}
}
