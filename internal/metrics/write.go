package metrics

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"

	"postrider/internal/status"
)

// Print writes a report as OpenMetrics text.
func Print(w io.Writer, r status.Report, opts Options) error {
	return encode(w, r, opts, expfmt.NewFormat(expfmt.TypeOpenMetrics))
}

func encode(w io.Writer, r status.Report, opts Options, format expfmt.Format) error {
	registry := prometheus.NewRegistry()
	if err := registry.Register(newCollector(r, opts)); err != nil {
		return fmt.Errorf("make the metrics: %w", err)
	}
	families, err := registry.Gather()
	if err != nil {
		return fmt.Errorf("make the metrics: %w", err)
	}
	enc := expfmt.NewEncoder(w, format)
	for _, f := range families {
		if err := enc.Encode(f); err != nil {
			return fmt.Errorf("write the metrics: %w", err)
		}
	}
	if end, ok := enc.(expfmt.Closer); ok { // # EOF
		return end.Close()
	}
	return nil
}

// Handler serves the metrics, each time as read returns them, and those of this process. When they
// cannot be read it answers 503.
func Handler(read func(ctx context.Context) (status.Report, error), opts Options) http.Handler {
	process := []prometheus.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r, err := read(req.Context())
		if err != nil {
			http.Error(w, "the database cannot be read", http.StatusServiceUnavailable)
			return
		}
		registry := prometheus.NewRegistry()
		registry.MustRegister(append(process, newCollector(r, opts))...)
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(w, req)
	})
}

// CheckDirectory reports that the directory of the file does not exist.
func CheckDirectory(path string) error {
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return err
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("the directory %s does not exist; create it, "+
			"and start node_exporter with --collector.textfile.directory=%[1]s", dir)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	}
	return nil
}

// CheckFile reports why WriteFile could not write the file. It makes a temporary file and removes
// it.
func CheckFile(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if err := CheckDirectory(path); err != nil {
		return err
	}
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a directory; name the file in it, such as postrider.prom", path)
	}
	f, err := createTemp(path)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 1<<20)) // an empty file may fit on a full disk
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// createTemp makes a file that is to replace the one at path.
func createTemp(path string) (*os.File, error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+tempPattern)
	if err != nil {
		return nil, fmt.Errorf("the directory %s cannot be written (%w); let the user who runs postrider write there, "+
			"and in a sandbox of systemd add ReadWritePaths=-%[1]s", dir, err)
	}
	return f, nil
}

// WriteFile writes a report for node_exporter's textfile collector, in Prometheus' text format. The
// file is replaced as a whole: a reader sees the old one or the new one. All users can read it.
func WriteFile(path string, r status.Report, opts Options) error {
	var text bytes.Buffer
	if err := encode(&text, r, opts, expfmt.NewFormat(expfmt.TypeTextPlain)); err != nil {
		return err
	}
	dir, name := filepath.Split(path)
	forgetOld(filepath.Join(dir, "."+name+tempPattern))
	f, err := createTemp(path)
	if err != nil {
		return err
	}
	_, err = f.Write(text.Bytes())
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

const tempPattern = ".*.tmp"

// forgetOld deletes files that processes left behind that were killed while they wrote.
func forgetOld(pattern string) {
	found, _ := filepath.Glob(pattern) // a malformed pattern finds nothing
	for _, path := range found {
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > time.Hour {
			_ = os.Remove(path)
		}
	}
}
