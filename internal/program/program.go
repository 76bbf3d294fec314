// Package program runs other programs within limits: the hook, and those that print a secret.
//
// A program and what it starts are one process group (not on Windows). The group is killed when the
// context ends, and when the program has ended. A daemon survives that if it leaves the group.
package program

import (
	"errors"
	"os/exec"
	"strings"
	"time"
)

// waitDelay is how long Run waits after the program's end when a process that the program started
// keeps the output open.
const waitDelay = 2 * time.Second

// Run is cmd.Run with a process group. cmd has a context. A process that is left and keeps the
// output open is not an error.
func Run(cmd *exec.Cmd) error {
	cmd.WaitDelay = waitDelay
	ownGroup(cmd)
	err := cmd.Run()
	endGroup(cmd)
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	return err
}

// Head keeps the first Limit octets of what is written.
type Head struct {
	Limit int
	Full  func() // called when more is written; may be nil
	More  bool   // more was written

	kept strings.Builder
}

// Write takes all of p.
func (h *Head) Write(p []byte) (int, error) {
	fits := min(len(p), h.Limit-h.kept.Len())
	h.kept.Write(p[:fits])
	if fits < len(p) && !h.More {
		h.More = true
		if h.Full != nil {
			h.Full()
		}
	}
	return len(p), nil
}

// String is what was kept.
func (h *Head) String() string { return h.kept.String() }
