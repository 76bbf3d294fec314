//go:build !linux

package watch

import "time"

// monotonic is for systemd, which only Linux has.
func monotonic() time.Duration { return 0 }
