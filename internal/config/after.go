package config

import (
	"fmt"
	"slices"
	"time"

	"postrider/internal/outbox"
	"postrider/internal/outbox/plan"
	"postrider/internal/route"
	"postrider/internal/tasks"
)

// After is what happens to messages on their server once their tasks have ended.
type After struct {
	Forwarded      route.Action   `yaml:"forwarded"`
	SkippedNoMatch route.Action   `yaml:"skipped_no_match"`
	Dead           route.Action   `yaml:"dead"`
	DeleteAfter    *time.Duration `yaml:"delete_after"`
	CreateFolders  bool           `yaml:"create_folders"` // those of move
}

// Rule is what holds where a route says nothing.
func (a After) Rule() route.After {
	return route.After{
		Forwarded: a.Forwarded, SkippedNoMatch: a.SkippedNoMatch, Dead: a.Dead, DeleteAfter: a.DeleteAfter,
	}
}

// AfterKinds are the ends after which something happens on the server.
func (c *Config) AfterKinds() (kinds []outbox.Kind) {
	all := []route.After{c.After.Rule()}
	for _, r := range c.Routes {
		all = append(all, r.After)
	}
	for _, kind := range []outbox.Kind{outbox.Forwarded, outbox.SkippedNoMatch, outbox.Dead} {
		if slices.ContainsFunc(all, func(a route.After) bool { return len(plan.Steps(kind, a)) > 0 }) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// after checks what happens to messages on their server, in general and by each route.
func (r *reader) after(c *Config) {
	r.afterOf("after", c.After.Rule(), c)
	if r.hasErrorWithin("after") {
		return
	}
	for i, rule := range c.Routes {
		at := fmt.Sprintf("routes[%d].after", i)
		if rule.After != (route.After{}) {
			r.afterOf(at, rule.After.Or(c.After.Rule()), c)
		}
	}
}

func (r *reader) afterOf(at string, a route.After, c *Config) {
	key, problem := a.Check()
	_, moves := a.Forwarded.Folder()
	kept := time.Duration(c.Retention.Forwarded)
	switch {
	case problem != "":
		r.refuse(at+"."+key, "%s", problem)
	case moves && c.Dedupe == tasks.DedupeOff:
		r.refuse(at+".forwarded", "cannot move messages while dedupe is off: a message that is moved to a "+
			"watched folder would be forwarded again; set dedupe to inbox or all")
	case a.Deletes() > 0 && kept > 0 && kept < a.Deletes()+7*24*time.Hour:
		r.refuse(at+".delete_after", "is too long for retention.forwarded: the task would be deleted before "+
			"its message; set retention.forwarded to a week more than delete_after")
	}
}
