package config

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"postrider/internal/secret"
	"postrider/internal/text"
)

// Lookup is os.LookupEnv, or a substitute.
type Lookup func(name string) (string, bool)

// maxFile is far larger than any real configuration, in octets.
const maxFile = 1 << 20

// here is the configuration in the current directory.
const here = "postrider.yaml"

// Find is the configuration file to use: flag, else $POSTRIDER_CONFIG, else ./postrider.yaml, else
// /etc/postrider/postrider.yaml. It does not check whether the first two exist. Root uses that of
// the current directory only when no other user can put a file there. The error is of type *Errors.
func Find(flag string, env Lookup) (string, error) {
	if flag != "" {
		return flag, nil
	}
	if p, _ := env("POSTRIDER_CONFIG"); p != "" {
		return p, nil
	}
	places := []string{here, "/etc/postrider/postrider.yaml"}
	var unsafe error
	for _, p := range places {
		_, err := os.Stat(p)
		// A working directory that this user may not enter has no file for it, as after sudo -u.
		if errors.Is(err, fs.ErrNotExist) || p == here && errors.Is(err, fs.ErrPermission) {
			continue
		}
		if p == here {
			if unsafe = checkHere(); unsafe != nil {
				continue
			}
		}
		return p, nil
	}
	if unsafe != nil {
		return "", unsafe
	}
	return "", newErrors("configuration", "no file was found; looked for -c FILE, $POSTRIDER_CONFIG, ./%s and %s; "+
		"make one with `postrider init`", places[0], places[1])
}

// checkHere returns an error if ./postrider.yaml may not be used without being named: root uses it
// only when nobody else can have put it there. For other users Load refuses what is not theirs.
func checkHere() error {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, path := range []string{here, "."} { // the file first: one of another user is refused by its name, too
		info, err := os.Stat(path)
		if err != nil {
			return openError(here, err)
		}
		switch others := checkWriters(path, info); {
		case others != nil && path == here:
			return others
		case others != nil:
			return newErrors(here+notUsed,
				"root has to own its directory, and others may not write there; name it with -c %s", here)
		}
	}
	return nil
}

// Resolve returns the value of a secret that is named by env:NAME, file:PATH or command:....
type Resolve func(ref string) (string, error)

// Load reads the file and the environment. names are the names of all variables, so that it can
// report a misspelt one. Its error is of type *Errors.
func Load(resolve Resolve, path string, env Lookup, names ...string) (*Config, error) {
	src, private, err := read(path)
	if err != nil {
		return nil, err
	}
	return interpret(resolve, path, src, private, env, names...)
}

// interpret is Load for a file that is read.
func interpret(resolve Resolve, path string, src []byte, private bool, env Lookup, names ...string) (*Config, error) {
	root, err := parse(path, src)
	if err != nil {
		return nil, err
	}
	c := Default()
	r := newReader(path, env, private)
	r.src, r.resolve = src, resolve
	r.file(root, c)
	r.unknownVariables(names, c)
	r.finish(c)
	if len(r.errs.All) > 0 {
		return nil, r.errs.sorted()
	}
	return c, nil
}

// read returns the file, and whether only its owner can read it.
func read(path string) (src []byte, private bool, _ error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, false, openError(path, err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		return nil, false, newErrors(path, "is a directory; name the file in it")
	}
	if err == nil {
		if others := checkWriters(path, info); others != nil {
			return nil, false, others
		}
		src, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	}
	switch {
	case err != nil:
		return nil, false, newErrors(path, "cannot be read: %v", err)
	case len(src) > maxFile:
		return nil, false, newErrors(path, "is larger than 1 MiB, which no configuration is; correct the path")
	}
	return src, runtime.GOOS == "windows" || info.Mode().Perm()&0o077 == 0, nil
}

const notUsed = " is not used"

// checkWriters refuses a file that others can change.
func checkWriters(path string, info fs.FileInfo) error {
	if others := secret.CheckWriters(path, info, "run programs as this user (hook, command:)"); others != nil {
		return newErrors(path+notUsed, "%v", others)
	}
	return nil
}

func openError(path string, err error) *Errors {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return newErrors(path, "there is no such file; correct the path, or make it with `postrider -c %s init`",
			text.Arg(path))
	case errors.Is(err, fs.ErrPermission):
		return newErrors(path, "may not be read by this user; let this user read it, "+
			"or run postrider as the user of its service, with sudo -u postrider, for example")
	}
	return newErrors(path, "cannot be opened: %v", err)
}

// parse reads a file with exactly one YAML document.
func parse(path string, src []byte) (*yaml.Node, error) {
	if i := invalidUTF8(src); i >= 0 {
		line := 1 + bytes.Count(src[:i], []byte("\n"))
		return nil, errorInLine(path, line, "is not UTF-8 text; save the file as UTF-8")
	}
	d := yaml.NewDecoder(bytes.NewReader(src))
	var root, more yaml.Node
	err := d.Decode(&root)
	if errors.Is(err, io.EOF) || (err == nil && isNull(root.Content[0])) {
		return nil, newErrors(path, "is empty; start from config.example.yaml")
	}
	if err == nil {
		if err = d.Decode(&more); errors.Is(err, io.EOF) {
			return root.Content[0], nil
		}
	}
	if err == nil {
		return nil, errorInLine(path, more.Line,
			"a second document starts here; a configuration is one: remove the line ---")
	}
	return nil, syntaxError(path, src, err)
}

func invalidUTF8(src []byte) int {
	for i := 0; i < len(src); {
		r, n := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

var (
	yamlError  = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?(.*)`)
	yamlAnchor = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
)

// hints are fixes for the most common errors of the YAML parser.
var hints = []struct{ says, hint string }{
	{
		"cannot start any token",
		"; indent with spaces, not with tabs, and put text that starts with @, % or ` in quotes",
	},
	{
		"alphabetic or numeric character",
		`; put text that starts with * or & in quotes, as in "*@court.example"`,
	},
	{"did not find expected", "; mind the indentation, and close what was opened"},
	{"mapping values are not allowed", "; mind the indentation, and put text with a colon in quotes"},
}

// syntaxError explains an error of the YAML parser. Its line is not always exact. The name of an
// unknown anchor is left out: it may be a password that starts with a star.
func syntaxError(path string, src []byte, err error) *Errors {
	m := yamlError.FindStringSubmatch(err.Error())
	line, _ := strconv.Atoi(m[1])
	problem := "is not valid YAML here or nearby: " + m[2]
	if name := yamlAnchor.FindStringSubmatch(m[2]); name != nil {
		before, _, _ := bytes.Cut(src, []byte("*"+name[1]))
		line = 1 + bytes.Count(before, []byte("\n"))
		problem = "an alias (*name) has no anchor (&name) before it; put text that starts with * in quotes"
	}
	for _, h := range hints {
		if strings.Contains(m[2], h.says) {
			problem += h.hint
			break
		}
	}
	return errorInLine(path, line, problem)
}

func errorInLine(path string, line int, problem string) *Errors {
	return &Errors{[]Error{{Source: path, Line: line, Problem: problem}}}
}

// relativeTo makes a path in the configuration relative to the directory of the file.
func relativeTo(file, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(file), path)
}
