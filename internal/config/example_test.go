package config

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"postrider/internal/route"
)

const examplePath = "../../config.example.yaml"

// commentedKey is a key that the example shows as a comment.
var commentedKey = regexp.MustCompile(`(?m)^( *)# (|  )([a-z_]+: )`)

// example reads config.example.yaml as it is, or with its commented keys. It also checks that it
// loads, with what its secrets and files refer to. The third result are its lines.
func example(t *testing.T, uncomment bool) (*reader, *Config, []string) {
	t.Helper()
	src, err := os.ReadFile(examplePath)
	if err != nil {
		t.Fatal(err)
	}
	head, body, _ := strings.Cut(string(src), "\n\n")
	if uncomment {
		body = commentedKey.ReplaceAllString(body, "$1$2$3")
	}
	text := head + "\n\n" + body
	path := write(t, text)
	for name, content := range map[string][]byte{
		"ca.pem": certificate(t), "relay-client.pem": clientCertificate(t),
		"dkim.pem": []byte(dkimKey(t)), "arc.pem": []byte(arcKey(t)), "service-account.json": serviceAccount(t),
		"srs-secret":    []byte("a secret for the example"),
		"bounce-secret": []byte("a secret for the example"),
	} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("POSTRIDER_DSN", "user:password@tcp(host:3306)/postrider")
	t.Setenv("SMTP_PASSWORD", "password")
	t.Setenv("MS_SECRET", "secret")
	t.Setenv("CRM_SECRET", "whsec_"+strings.Repeat("QUJD", 10))
	t.Setenv("GOOGLE_SECRET", "secret")
	if _, err := loadFile(path, variables()); err != nil {
		t.Fatalf("config.example.yaml (uncommented: %v) has errors:\n%v", uncomment, err)
	}
	root, err := parse(path, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	r, c := newReader(path, variables(), true), Default()
	r.file(root, c)
	return r, c, strings.Split(text, "\n")
}

func TestExampleHasEveryKey(t *testing.T) {
	r, _, _ := example(t, true)
	for _, l := range leaves(Default()) {
		if _, ok := r.places[l.name]; !ok {
			t.Errorf("config.example.yaml lacks %s", l.name)
		}
	}
	var all []string
	for name := range r.places {
		all = append(all, regexp.MustCompile(`\[\d+\]`).ReplaceAllString(name, ""))
		if rest, ok := strings.CutPrefix(name, "oauth."); ok { // below the name of an application
			_, key, _ := strings.Cut(rest, ".")
			all = append(all, "oauth."+key)
		}
	}
	for parent, typ := range map[string]reflect.Type{
		"routes":       reflect.TypeFor[route.Rule](),
		"routes.match": reflect.TypeFor[route.Match](),
		"oauth":        reflect.TypeFor[OAuth](),
	} {
		for _, key := range keys(typ) {
			if !strings.Contains("\n"+strings.Join(all, "\n")+"\n", "\n"+join(parent, key)+"\n") {
				t.Errorf("config.example.yaml lacks %s.%s", parent, key)
			}
		}
	}
}

// TestExampleShowsDefaults compares what the comments show with what a file without those keys
// gets. Keys without a default show an example; their line says so.
func TestExampleShowsDefaults(t *testing.T) {
	r, shown, lines := example(t, true)
	real := load(t, minimal)
	real.Database.Path, real.Secrets.KeyFile = Default().Database.Path, Default().Secrets.KeyFile
	truth := leaves(real)
	for i, l := range leaves(shown) {
		line := lines[r.places[l.name].line-1]
		why := line[strings.LastIndex(line, "#")+1:]
		if strings.Contains(why, "default:") || strings.Contains(strings.ToLower(why), "no default") ||
			strings.Contains(why, "required") || l.name == "smtp.password" || l.name == "forward.from" {
			continue
		}
		if got, want := l.value.Interface(), truth[i].value.Interface(); got != want {
			t.Errorf("config.example.yaml shows %s: %v, want its default %v", l.name, got, want)
		}
	}
}

// TestExampleAsItIs is what a user gets who copies it and fills in the required keys.
func TestExampleAsItIs(t *testing.T) {
	r, _, _ := example(t, false)
	if _, ok := r.places["smtp.port"]; ok {
		t.Error("config.example.yaml sets smtp.port, want defaults to be comments")
	}
}

func TestExampleExplainsEveryKey(t *testing.T) {
	r, _, lines := example(t, true)
	for _, l := range leaves(Default()) {
		if line := lines[r.places[l.name].line-1]; !regexp.MustCompile(`: .* +# .{10,}`).MatchString(line) {
			t.Errorf("config.example.yaml does not say why: %s", line)
		}
	}
}

// serviceAccount is the key of a Google service account.
func serviceAccount(t *testing.T) []byte {
	t.Helper()
	text, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "a@b.example", "private_key": dkimKey(t),
		"token_uri": "https://oauth2.googleapis.com/token",
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// dkimKey is a private key as PEM.
func dkimKey(t *testing.T) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// arcKey is a private RSA key as PEM.
func arcKey(t *testing.T) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
}
