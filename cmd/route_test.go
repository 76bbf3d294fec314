package cmd

import (
	"bytes"
	"os"
	"testing"
)

// TestRouteTestReadsOnce: a test that needs the database reads the configuration once, too.
func TestRouteTestReadsOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, content := range map[string]string{
		"postrider.yaml": scriptConfig + "    to_contacts: {in: [subject]}\n", "m.eml": "Subject: x\r\n\r\nx\r\n",
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := 0
	run := func(args ...string) {
		t.Helper()
		var out bytes.Buffer
		env := func(name string) (string, bool) {
			if name == "POSTRIDER_CONFIG" {
				read++
			}
			return "", false
		}
		a := &app{in: &bytes.Buffer{}, out: &out, err: &out, env: env}
		if code := a.run(t.Context(), args); code != exitOK {
			t.Fatalf("%q: exit code %d; it printed\n%s", args, code, &out)
		}
	}
	run("migrate")
	run("contact", "add", "Ann", "--email", "ann@x.example")
	read = 0
	run("route", "test", "m.eml")
	if read != 1 {
		t.Errorf("the configuration was read %d times, want once", read)
	}
}
