//go:build unix && !linux

package testserver

import "syscall"

// dieWithParent cannot be had here: a killed test process leaves its servers running.
func dieWithParent(*syscall.SysProcAttr) {}

// awaitStopped cannot be had here.
func awaitStopped(int) {}
