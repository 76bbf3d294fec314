//go:build !events_all

package sink

import (
	"fmt"
	"strings"

	"postrider/internal/outbox"
)

// moreOpeners are the schemes that are left out of this build to keep the binary small.
func moreOpeners() map[string]opener {
	return map[string]opener{"kafka": notBuilt, "awssqs": notBuilt, "awssns": notBuilt}
}

func notBuilt(set Settings) (outbox.Publisher, error) {
	scheme, _, _ := strings.Cut(set.URL, "://")
	return nil, fmt.Errorf("this postrider is built without %s://; build one with it: go build -tags events_all",
		scheme)
}
