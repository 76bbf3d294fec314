// Package secret reads secrets that are stored outside of the configuration, and hides secrets in
// output.
//
// A secret is written as env:NAME (an environment variable), as file:PATH (a file that only its
// owner can read), as command:PROGRAM ARGUMENT... (what the program prints), or literally. No error
// of this package contains a secret. Only Commands runs programs.
package secret

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"strings"
)

// maxSize is the largest secret, in octets.
const maxSize = 64 << 10

// String is a secret that prints, logs and marshals as [redacted]. string(s) is the secret itself.
type String string

const redacted = "[redacted]"

// String hides the secret.
func (String) String() string { return redacted }

// Format hides the secret for every verb of package fmt, such as %#v and %x.
func (String) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue hides the secret from log/slog.
func (String) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText hides the secret from JSON and YAML.
func (String) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// OAuth is in front of the name of an application: the login is by OAuth2, and there is no
// password.
const OAuth = "oauth:"

// IsRef reports whether s is env:NAME, file:PATH, command:... or oauth:NAME, not the secret itself.
func IsRef(s string) bool {
	return strings.HasPrefix(s, OAuth) || strings.HasPrefix(s, "env:") || strings.HasPrefix(s, "file:") || IsCommand(s)
}

// Resolve returns the value of env:NAME, the content of file:PATH without the last line end, or ref
// itself. A secret that is missing or empty is an error, and so is command:..., see Commands.
func Resolve(ref string) (string, error) {
	if ref == "env:" || ref == "file:" {
		return "", fmt.Errorf("%s is followed by nothing; write it like env:NAME or file:PATH", ref)
	}
	if IsCommand(ref) {
		return "", errors.New("command: runs a program, which is not possible here; use file:PATH")
	}
	if name, ok := strings.CutPrefix(ref, "env:"); ok {
		value := os.Getenv(name)
		if value == "" {
			return "", fmt.Errorf("environment variable %s is not set or empty; "+
				"set it for the user that runs postrider", name)
		}
		return value, nil
	}
	if strings.HasPrefix(ref, OAuth) {
		return "", fmt.Errorf("%s is not a password but the name of an OAuth2 application, "+
			"which only inboxes take in its place", ref)
	}
	path, ok := strings.CutPrefix(ref, "file:")
	if !ok {
		return ref, nil
	}
	return fromFile(path, func() (*os.File, error) { return openRegular(path) })
}

// FromPath is Resolve of file:PATH for a command that somebody waits for: PATH may be a pipe, too.
func FromPath(path string) (string, error) {
	return fromFile(path, func() (*os.File, error) { return os.Open(path) })
}

func fromFile(path string, open func() (*os.File, error)) (string, error) {
	content, err := readPrivate(path, open)
	if err != nil {
		return "", fmt.Errorf("read a secret: %w", err)
	}
	value, err := FromText(string(content))
	if err != nil {
		return "", fmt.Errorf("secret file %s %w", path, err)
	}
	if strings.Trim(value, "\r\n") == "" {
		return "", fmt.Errorf("the secret file %s has no content; write the secret to it", path)
	}
	return value, nil
}

// FromText is the secret in a text that an editor wrote: without a byte order mark in front, and
// without one line end.
func FromText(s string) (string, error) {
	if strings.Contains(s, "\x00") {
		return "", errors.New("has characters that are NUL, so it looks like UTF-16; save it as UTF-8")
	}
	return cutLineEnd(strings.TrimPrefix(s, "\ufeff")), nil
}

// OneLine returns an error for a secret that only works without a line break, such as a password,
// and has one. The error is "has ...".
func OneLine(s string) error {
	n := 1 + strings.Count(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s), "\n")
	if n == 1 {
		return nil
	}
	return fmt.Errorf("has %d lines, and must have one; "+
		"for the first line of what a program prints: sh -c 'pass show mail/office | head -n 1'", n)
}

// ReadPrivateFile reads a regular file that only its owner may read and write. For a file with
// other permissions, the error has the command that fixes them. On Windows, which has no such
// permissions, every file is read.
func ReadPrivateFile(path string) ([]byte, error) {
	return readPrivate(path, func() (*os.File, error) { return openRegular(path) })
}

// CheckReaders returns an error when users other than its owner can access a file. The error has
// the command that fixes it. On Windows, which has no such permissions, there is no error.
func CheckReaders(path string, info fs.FileInfo) error {
	if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode&0o077 != 0 {
		return fmt.Errorf("other users can access %s (mode %04o); %s", path, mode, fixReaders(path, info))
	}
	return nil
}

// missingError is a file that is not there.
type missingError struct{ path string }

func (e missingError) Error() string {
	return "there is no file " + e.path + "; create it, or correct the path"
}

func (missingError) Unwrap() error { return fs.ErrNotExist }

func readPrivate(path string, open func() (*os.File, error)) ([]byte, error) {
	f, err := open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, missingError{path}
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("this user may not read %s; %s", path, FixAccess(path))
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s is a directory; name the file in it", path)
	}
	if err := CheckReaders(path, info); err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(content) > maxSize {
		return nil, fmt.Errorf("%s is larger than %d KiB, too large for a secret; correct the path", path, maxSize>>10)
	}
	return content, nil
}
