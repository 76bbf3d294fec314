package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"
)

// First is what a first configuration needs. All else has a default.
type First struct {
	Host, Security     string // of the relay; an empty security is the default
	Port               int    // 0: by security
	Username, Password string // empty without a login; the password is its place, such as file:PATH
	From, To           string // the forwarder, and who gets all mail
}

const firstText = `# A first configuration of postrider. config.example.yaml shows every key; ` +
	"`postrider check`" + `
# reports what is wrong. Relative paths are relative to the directory of this file.

# database:                       # SQLite is the default: a file, nothing to install
#   path: postrider.db

smtp:                             # the relay that forwarded mail is handed to
  host: {{quote .Host}}
{{- if .Port}}
  port: {{printf "%-25d" .Port}} # 587 with starttls, 465 with tls, 25 with none
{{- else}}
  # port: 587                     # 587 with starttls, 465 with tls, 25 with none
{{- end}}
{{- if .Security}}
  security: {{quote .Security | printf "%-21s"}} # starttls, tls (from the first octet on) or none
{{- else}}
  # security: starttls            # starttls, tls (from the first octet on) or none
{{- end}}
{{- if .Username}}
  username: {{quote .Username}}
  # A secret: env:NAME, file:PATH (a file with mode 0600) or "command:pass show mail/office".
  password: {{quote .Password}}
{{- else}}
  # username: forwarder@example.com   # without it there is no login
  # password: file:smtp-password  # a secret: env:NAME, file:PATH (mode 0600) or "command:pass show mail/office"
{{- end}}

forward:
  # The forwarder: bounces go to its address.
  from: {{quote .From}}
  # mode: redirect                # redirect (unchanged), rewrite (own From), attach or auto

# secrets:                        # encrypts the passwords of inboxes; made on first use. Keep a copy
#   key_file: postrider.key

# notify:                         # who gets notices of failures
#   to: ops@example.com

routes:                           # tried in order; the first that matches decides
  # - name: court-notices
  #   match: {from: "*@court.example", subject: hearing}
  #   to: [intake@firm.example]
  - name: everything-else
    match: {}                     # a catch-all
    to:
      - {{quote .To}}
`

// Text is the configuration file, with comments. It fails only for text that YAML cannot hold.
func (f First) Text() ([]byte, error) {
	parsed, err := template.New("first").Funcs(template.FuncMap{"quote": quoted}).Parse(firstText)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = parsed.Execute(&b, f)
	return b.Bytes(), err
}

// quoted is text as a YAML value, in quotes where it needs them.
func quoted(s string) (string, error) {
	out, err := yaml.Marshal(&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s})
	return strings.TrimSuffix(string(out), "\n"), err
}

// Load is the function Load for the file as it would be at path; nothing is read there. Its error
// is of type *Errors.
func (f First) Load(resolve Resolve, path string, env Lookup) (*Config, error) {
	text, err := f.Text()
	if err != nil {
		return nil, newErrors(path, "cannot be written: %v", err)
	}
	return interpret(resolve, path, text, true, env)
}

// NameServer is dns.server as the environment has it, before there is a file.
func NameServer(env Lookup) string {
	var d DNS
	d.Server, _ = env(variable("dns.server"))
	newReader("", env, true).dns(&d)
	return d.Server
}

// Create makes a file that only its owner can read, all of it or nothing. It never replaces a file:
// then the error is fs.ErrExist. It links a temporary file to the name, because a link, unlike a
// rename, replaces nothing.
func Create(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".postrider-*") // mode 0600
	if err != nil {
		return fmt.Errorf("create %s: %w; make sure that this user can write to the directory", path, err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Link(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	return nil
}
