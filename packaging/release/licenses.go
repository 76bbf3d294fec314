package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// licenseFile is a file whose text has to go with copies of a module.
var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|copyright)`)

// writeLicenses writes the licences of Go and of all modules in a binary to one file.
func writeLicenses(binary, file string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	goRoot, err := lines("go", "env", "GOROOT")
	if err != nil {
		return err
	}
	list := []string{"go", "list", "-m", "-f", "{{.Dir}}"}
	for _, m := range info.Deps {
		list = append(list, m.Path)
	}
	dirs, err := lines(list...)
	if err != nil {
		return err
	}
	if len(dirs) != len(info.Deps) {
		return fmt.Errorf("go list found %d of %d modules", len(dirs), len(info.Deps))
	}
	var b bytes.Buffer
	b.WriteString("The postrider binary contains Go's standard library and the following modules.\n")
	err = addLicenses(&b, "Go "+strings.TrimPrefix(info.GoVersion, "go"), goRoot[0])
	for i, m := range info.Deps {
		if err == nil {
			err = addLicenses(&b, m.Path+" "+m.Version, dirs[i])
		}
	}
	if err != nil {
		return err
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}

// lines runs a command and returns the lines that it prints.
func lines(command ...string) ([]string, error) {
	out, err := exec.Command(command[0], command[1:]...).Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(command, " "), err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n"), nil
}

// addLicenses adds those in a directory. One without any is an error: it may not be passed on.
func addLicenses(b *bytes.Buffer, name, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	found := false
	for _, e := range entries {
		if e.IsDir() || !licenseFile.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		found = true
		_, _ = fmt.Fprintf(b, "\n%s\n%s, %s\n\n%s\n", strings.Repeat("=", 80), name, e.Name(), bytes.TrimSpace(text))
	}
	if !found {
		return fmt.Errorf("%s has no licence in %s", name, dir)
	}
	return nil
}
