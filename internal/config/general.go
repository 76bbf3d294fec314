package config

import (
	"cmp"

	"postrider/internal/route"
)

// inherit gives the words said in forward, where they are not those that a route without one goes by, to the routes that have
// none of their own. A route that skips takes none.
func (r *reader) inherit(c *Config) {
	r.oneOf("forward.automated", string(c.Forward.Automated), "forward", "skip")
	r.oneOf("forward.own_address", string(c.Forward.OwnAddress), "skip", "forward")
	for i := range c.Routes {
		rule := &c.Routes[i]
		if c.Forward.Automated == route.SkipAutomated && !rule.Skip {
			rule.Automated = cmp.Or(rule.Automated, route.SkipAutomated)
		}
		if c.Forward.OwnAddress == route.ForwardOwnAddress && !rule.Skip {
			rule.OwnAddress = cmp.Or(rule.OwnAddress, route.ForwardOwnAddress)
		}
	}
}
