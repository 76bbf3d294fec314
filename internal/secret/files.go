package secret

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Files are the directories that file:PATH may lead to when it is not in the configuration itself:
// the file has to lie in one of them, or below. Symbolic links are followed first.
type Files []string

// Resolve is the function Resolve, within these directories.
func (dirs Files) Resolve(ref string) (string, error) {
	path, ok := strings.CutPrefix(ref, "file:")
	if !ok {
		return Resolve(ref)
	}
	dir, name, err := dirs.locate(path)
	if err != nil {
		return "", err
	}
	return fromFile(path, func() (*os.File, error) {
		// A link that changed since locate followed it does not lead out of the directory.
		root, err := os.OpenRoot(dir)
		if err != nil {
			return nil, err
		}
		defer func() { _ = root.Close() }()
		return regular(root.OpenFile(name, openFlags, 0))
	})
}

// Check returns an error when file:PATH leads to none of the directories. The file need not exist.
func (dirs Files) Check(ref string) error {
	path, ok := strings.CutPrefix(ref, "file:")
	if !ok {
		return nil
	}
	_, _, err := dirs.locate(path)
	return err
}

// locate returns the directory that the file lies in or below, and its name from there.
func (dirs Files) locate(path string) (dir, name string, err error) {
	real, err := followed(path)
	if err != nil {
		return "", "", fmt.Errorf("find the secret file %s: %w", path, err)
	}
	for _, dir := range dirs {
		if dir, err = followed(dir); err != nil {
			continue // a directory that is not there has no files
		}
		if name, err := filepath.Rel(dir, real); err == nil && filepath.IsLocal(name) {
			return dir, name, nil
		}
	}
	return "", "", fmt.Errorf("file:%s is not used, because %s is not in the directory of the configuration, "+
		"and not in a directory of secrets.files_in; move the file, or add its directory there", path, real)
}

// followed is the absolute path without symbolic links. The last part of it need not exist.
func followed(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		if real, err = filepath.EvalSymlinks(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) {
			return path, nil
		}
		real = filepath.Join(real, filepath.Base(path))
	}
	return real, err
}

// openFlags open a pipe at once, too, and do not wait until somebody writes to it.
const openFlags = os.O_RDONLY | syscall.O_NONBLOCK

func openRegular(path string) (*os.File, error) { return regular(os.OpenFile(path, openFlags, 0)) }

// regular refuses pipes and devices, whose end may never come. It gets the results of an open.
func regular(f *os.File, err error) (*os.File, error) {
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		err = fmt.Errorf("%s is a pipe or a device; name a regular file", f.Name())
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
