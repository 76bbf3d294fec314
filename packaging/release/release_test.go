package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"postrider/internal/config"
	"postrider/internal/secret"
)

// makeTree makes a directory to pack, with times and modes as the host happens to have them.
func makeTree(t *testing.T, fileMode os.FileMode, year int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "postrider_1.2.3")
	if err := os.MkdirAll(filepath.Join(dir, "docs"), 0o700); err != nil {
		t.Fatal(err)
	}
	modes := map[string]os.FileMode{"postrider": 0o700, "README.md": fileMode, "docs/modes.md": fileMode}
	for name, mode := range modes {
		path := filepath.Join(dir, name)
		at := someDay.AddDate(year, 0, 0)
		if err := errors.Join(os.WriteFile(path, []byte(name), mode), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestArchive: files of other times and modes give the same octets, and the archive has them all.
func TestArchive(t *testing.T) {
	want := []string{
		"-rw-r--r-- postrider_1.2.3/README.md", "-rw-r--r-- postrider_1.2.3/docs/modes.md",
		"-rwxr-xr-x postrider_1.2.3/postrider",
	}
	for _, name := range []string{"a.tar.gz", "a.zip"} {
		t.Run(name, func(t *testing.T) {
			var octets [2][]byte
			for i, dir := range []string{makeTree(t, 0o644, 0), makeTree(t, 0o600, -3)} {
				file := filepath.Join(t.TempDir(), name)
				if err := writeArchive(dir, file, someDay); err != nil {
					t.Fatal(err)
				}
				var err error
				if octets[i], err = os.ReadFile(file); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(octets[0], octets[1]) {
				t.Error("other times and modes of the files give other octets, want the same")
			}
			if got := unpack(t, name, octets[0]); !slices.Equal(got, want) {
				t.Errorf("the archive has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// unpack lists the files of an archive, and checks the time and the content of each.
func unpack(t *testing.T, name string, octets []byte) []string {
	t.Helper()
	var out []string
	see := func(info os.FileInfo, path string, content io.Reader) {
		text, err := io.ReadAll(content)
		if err != nil || !strings.HasSuffix(path, "/"+string(text)) || !info.ModTime().Equal(someDay) {
			t.Errorf("%s has %q and is of %s (%v); want its name and %s", path, text, info.ModTime(), err, someDay)
		}
		out = append(out, fmt.Sprint(info.Mode(), " ", path))
	}
	if strings.HasSuffix(name, ".zip") {
		r, err := zip.NewReader(bytes.NewReader(octets), int64(len(octets)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range r.File {
			content, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			see(f.FileInfo(), f.Name, content)
		}
		return out
	}
	z, err := gzip.NewReader(bytes.NewReader(octets))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			see(h.FileInfo(), h.Name, r)
		}
	}
}

// TestDescribe: the list of components names Go and each module once, the one that replaces another
// in its place, and the commit.
func TestDescribe(t *testing.T) {
	c := &debug.Module{Path: "example.org/c", Version: "v3.0.0+incompatible"}
	info := &debug.BuildInfo{
		GoVersion: "go1.26.8",
		Deps: []*debug.Module{
			{Path: "example.org/a", Version: "v1.0.0"},
			{Path: "example.org/b", Version: "v2.0.0", Replace: c},
		},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}},
	}
	b := describe(info, "1.2.3", "00ff", someDay)
	want := []string{
		"pkg:golang/std@1.26.8", "pkg:golang/example.org/a@v1.0.0",
		"pkg:golang/example.org/c@v3.0.0%2Bincompatible",
	}
	if len(b.Dependencies) != 1 || !slices.Equal(b.Dependencies[0].On, want) {
		t.Errorf("postrider depends on %v, want on %v", b.Dependencies, want)
	}
	text, err := json.Marshal(b.Metadata)
	if err != nil {
		t.Fatal(err)
	}
	const self = `{"timestamp":"2026-11-23T07:00:00Z",` +
		`"component":{"bom-ref":"pkg:generic/postrider@1.2.3","type":"application",` +
		`"name":"postrider","version":"1.2.3","purl":"pkg:generic/postrider@1.2.3",` +
		`"hashes":[{"alg":"SHA-256","content":"00ff"}],` +
		`"licenses":[{"license":{"id":"MIT"}}],"properties":[{"name":"go:vcs.revision","value":"abc"}]}}`
	if string(text) != self {
		t.Errorf("postrider is described as\n%s\nwant\n%s", text, self)
	}
}

// TestLicenses: a module without a licence is an error, because it may not be passed on.
func TestLicenses(t *testing.T) {
	dir := t.TempDir()
	var b bytes.Buffer
	if err := addLicenses(&b, "example.org/a v1", dir); err == nil {
		t.Error("a module without a licence is accepted, want an error")
	}
	if err := os.WriteFile(filepath.Join(dir, "LICENSE.txt"), []byte("Do as you like\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const want = "\nexample.org/a v1, LICENSE.txt\n\nDo as you like\n"
	if err := addLicenses(&b, "example.org/a v1", dir); err != nil || !strings.HasSuffix(b.String(), want) {
		t.Errorf("got %q, %v; want the name, the file and its text", &b, err)
	}
}

// TestTemplate: the configuration in the packages is valid as soon as its secret is there, and
// before that the error says which file is missing.
func TestTemplate(t *testing.T) {
	text, err := os.ReadFile("../postrider.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "postrider.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	none := func(string) (string, bool) { return "", false }
	_, err = config.Load(secret.Resolve, path, none)
	if err == nil || !strings.Contains(err.Error(), "smtp-password") {
		t.Errorf("without the secret: %v; want an error that names smtp-password", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "smtp-password"), []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(secret.Resolve, path, none); err != nil {
		t.Errorf("with the secret: %v", err)
	}
}

// TestSourceDate: without SOURCE_DATE_EPOCH nothing is made, because it would differ each time.
func TestSourceDate(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "")
	if err := run([]string{"roots", filepath.Join(t.TempDir(), "roots.pem")}); err == nil {
		t.Error("want an error")
	}
}
