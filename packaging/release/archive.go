package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// writeArchive packs the directory dir, under its own name, into a tar.gz or a zip file. Owners are
// root, and modes only say whether a file can be run.
func writeArchive(dir, file string, at time.Time) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if strings.HasSuffix(file, ".zip") {
		err = zipDir(f, dir, at)
	} else {
		err = tarDir(f, dir, at)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return f.Close()
}

// eachFile calls f for dir and all that is in it, in the order of names.
func eachFile(dir string, f func(name string, info fs.FileInfo, open func() (fs.File, error)) error) error {
	tree := os.DirFS(dir)
	return fs.WalkDir(tree, ".", func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return f(path.Join(filepath.Base(dir), at), info, func() (fs.File, error) { return tree.Open(at) })
	})
}

// plainMode is 0755 for directories and for what can be run, else 0644.
func plainMode(info fs.FileInfo) fs.FileMode {
	if info.IsDir() || info.Mode()&0o100 != 0 {
		return 0o755
	}
	return 0o644
}

func tarDir(out io.Writer, dir string, at time.Time) error {
	compressed, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(compressed)
	err = eachFile(dir, func(name string, info fs.FileInfo, open func() (fs.File, error)) error {
		h := &tar.Header{
			Name: name, Typeflag: tar.TypeReg, Size: info.Size(), ModTime: at,
			Mode: int64(plainMode(info)), Uname: "root", Gname: "root",
		}
		if info.IsDir() {
			h.Name, h.Typeflag, h.Size = name+"/", tar.TypeDir, 0
		}
		if err := w.WriteHeader(h); err != nil || info.IsDir() {
			return err
		}
		return copyFrom(w, open)
	})
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return compressed.Close()
}

func zipDir(out io.Writer, dir string, at time.Time) error {
	w := zip.NewWriter(out)
	err := eachFile(dir, func(name string, info fs.FileInfo, open func() (fs.File, error)) error {
		if info.IsDir() {
			return nil
		}
		h := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: at}
		h.SetMode(plainMode(info))
		to, err := w.CreateHeader(h)
		if err != nil {
			return err
		}
		return copyFrom(to, open)
	})
	if err != nil {
		return err
	}
	return w.Close()
}

func copyFrom(to io.Writer, open func() (fs.File, error)) error {
	from, err := open()
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	_, err = io.Copy(to, from)
	return err
}
