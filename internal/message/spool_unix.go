//go:build !windows

package message

import "os"

// tempFile makes a file that has no name any more: it is gone when the process is.
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
