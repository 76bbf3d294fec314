package config

import (
	"cmp"

	"postrider/internal/route"
)

// inherit copies the general values of automated and own_address to the routes that have none. A
// route that skips gets none.
func (r *reader) inherit(c *Config) {
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
