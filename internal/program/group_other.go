//go:build !unix

package program

import "os/exec"

// ownGroup does nothing, because there are no process groups: the end of the context kills only
// the program.
func ownGroup(*exec.Cmd) {}

// endGroup does nothing: processes that the program started go on.
func endGroup(*exec.Cmd) {}
