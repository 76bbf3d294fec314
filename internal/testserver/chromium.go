package testserver

import (
	"os/exec"
	"testing"
)

// Chromium is the path of a browser for the tests of pages.
func Chromium(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	missing(t, "!!!!!!!! CHROMIUM IS NOT INSTALLED: WHAT IS TESTED IN A BROWSER IS SKIPPED !!!!!!!! "+
		"Get it with: apt-get install chromium")
	return ""
}
