package testserver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// BuildPostrider builds postrider in a folder. The binary has a name that Windows runs, too.
func BuildPostrider(dir string) (binary string, err error) {
	binary = filepath.Join(dir, "postrider.exe")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", binary, "postrider")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build postrider: %w\n%s", err, out)
	}
	return binary, nil
}

// buildCommand builds a command of this folder. Each is a module of its own, so that postrider does
// not depend on what it needs.
func buildCommand(name string) (binary string, err error) {
	here, err := exec.Command("go", "list", "-f", "{{.Dir}}", "postrider/internal/testserver").Output()
	if err != nil {
		return "", fmt.Errorf("find the folder of %s: %w", name, err)
	}
	dir, err := os.MkdirTemp("", name)
	if err != nil {
		return "", err
	}
	sharedServers.Lock()
	sharedServers.dirs = append(sharedServers.dirs, dir)
	sharedServers.Unlock()
	build := exec.Command("go", "build", "-mod=mod", "-buildvcs=false", "-o", filepath.Join(dir, name), ".")
	build.Dir = filepath.Join(strings.TrimSpace(string(here)), name)
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return filepath.Join(dir, name), nil
}
