//go:build !unix

package notify

import "os/exec"

// killGroup does nothing, because there are no process groups: the end of the context kills only
// the program.
func killGroup(*exec.Cmd) {}
