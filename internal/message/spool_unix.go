//go:build !windows

package message

import "os"

// tempFile creates a file and removes its name, so that it disappears with the process.
func tempFile(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "postrider-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
