package secret

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestStringIsNeverShown(t *testing.T) {
	s := String("s3cret")
	type holder struct {
		Password String
		Pointer  *String
	}
	h := holder{Password: s, Pointer: &s}
	asJSON, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "password", s, "holder", h)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "password", s, "holder", h)
	for name, out := range map[string]string{
		"String": s.String(), "%v": fmt.Sprintf("%v", s), "%s": fmt.Sprintf("%s", s), "%q": fmt.Sprintf("%q", s),
		"%x": fmt.Sprintf("%x", s), "%#v": fmt.Sprintf("%#v", s), "%+v of a struct": fmt.Sprintf("%+v", h),
		"%#v of a struct": fmt.Sprintf("%#v", h), "JSON": string(asJSON), "slog": log.String(),
	} {
		if strings.Contains(out, "s3cret") || strings.Contains(out, "733363726574") {
			t.Errorf("%s gives %q, want it without the secret", name, out)
		}
	}
	if string(s) != "s3cret" {
		t.Error("the conversion to string does not give the secret, want s3cret")
	}
}

func TestOneLine(t *testing.T) {
	for s, want := range map[string]int{"": 1, "one": 1, "one\n": 2, "one\r\ntwo\rthree": 3} {
		err := OneLine(s)
		says := fmt.Sprintf("has %d lines, and must have one", want)
		if (err == nil) != (want == 1) || err != nil && !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%q: got %v, want %d lines", s, err, want)
		}
	}
}

func TestResolve(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return "file:" + path
	}
	t.Setenv("POSTRIDER_TEST_SECRET", "from the environment")
	t.Setenv("POSTRIDER_TEST_EMPTY", "")
	tests := []struct{ name, ref, want, wantErr string }{
		{"itself", "hunter2", "hunter2", ""},
		{"environment", "env:POSTRIDER_TEST_SECRET", "from the environment", ""},
		{"unset", "env:POSTRIDER_TEST_NO_SUCH", "", "POSTRIDER_TEST_NO_SUCH"},
		{"set to nothing", "env:POSTRIDER_TEST_EMPTY", "", "POSTRIDER_TEST_EMPTY"},
		{"no name", "env:", "", "env: is followed by nothing"},
		{"no path", "file:", "", "file: is followed by nothing"},
		{"file with newline", file("a", "from a file\n", 0o600), "from a file", ""},
		{"file with CRLF", file("b", "from a file\r\n", 0o400), "from a file", ""},
		{"one newline is cut, spaces stay", file("c", " x \n\n", 0o600), " x \n", ""},
		{"empty file", file("d", "\n", 0o600), "", "has no content"},
		{"a file of empty lines", file("lines", "\n\r\n\n", 0o600), "", "has no content"},
		{"a byte order mark", file("bom", "\ufefffrom a file\r\n", 0o600), "from a file", ""},
		{
			"UTF-16", file("utf16", "\xff\xfes\x003\x00", 0o600),
			"", "utf16 has characters that are NUL, so it looks like UTF-16; save it as UTF-8",
		},
		{"no file", "file:" + filepath.Join(dir, "none"), "", "there is no file"},
		{"a directory", "file:" + dir, "", "is a directory; name the file in it"},
		{"too large", file("e", strings.Repeat("s3cret", 20000), 0o600), "", "larger than"},
	}
	if runtime.GOOS != "windows" {
		tests = append(tests, []struct{ name, ref, want, wantErr string }{
			{"group may read", file("f", "s3cret", 0o640), "", "chmod 600 " + filepath.Join(dir, "f")},
			{"others may read", file("g", "s3cret", 0o604), "", "chmod 600"},
		}...)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Resolve(tt.ref)
			if got != tt.want || (err != nil) != (tt.wantErr != "") {
				t.Fatalf("got %q, %v; want %q, error %q", got, err, tt.want, tt.wantErr)
			}
			if err != nil && (!strings.Contains(err.Error(), tt.wantErr) || strings.Contains(err.Error(), "s3cret")) {
				t.Errorf("the error is %q, want it to say %q, without the secret", err, tt.wantErr)
			}
		})
	}
}
