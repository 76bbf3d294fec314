//go:build !unix

package notify

import "os/exec"

// inGroup: there are no process groups; the end of the context kills the program alone.
func inGroup(*exec.Cmd) {}
