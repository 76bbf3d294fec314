package testserver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// buildCommand builds a command of this folder. Each is a module of its own, so that postrider does
// not depend on what it needs.
func buildCommand(name string) (binary string, err error) {
	_, here, _, _ := runtime.Caller(0)
	dir, err := os.MkdirTemp("", name)
	if err != nil {
		return "", err
	}
	sharedServers.Lock()
	sharedServers.dirs = append(sharedServers.dirs, dir)
	sharedServers.Unlock()
	build := exec.Command("go", "build", "-mod=mod", "-o", filepath.Join(dir, name), ".")
	build.Dir = filepath.Join(filepath.Dir(here), name)
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return filepath.Join(dir, name), nil
}
