package main

import (
	"errors"
	"path/filepath"

	"postrider/cmd"
)

// writeCompletions writes those of bash, zsh and fish, under the names that these look for.
func writeCompletions(dir string) error {
	root := cmd.Commands()
	return errors.Join(
		root.GenBashCompletionFileV2(filepath.Join(dir, "postrider"), true),
		root.GenZshCompletionFile(filepath.Join(dir, "_postrider")),
		root.GenFishCompletionFile(filepath.Join(dir, "postrider.fish"), true),
	)
}
