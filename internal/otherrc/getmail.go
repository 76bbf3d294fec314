package otherrc

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"postrider/internal/inbox"
	"postrider/internal/text"
)

// value is one key of a getmailrc.
type value struct {
	line int
	text string
}

// getmail reads a getmailrc, which has one account: sections with key = value, where a line that is
// indented deeper than the key continues the value.
func getmail(src string, notes *Notes) ([]Account, error) {
	retriever, sections, err := readSections(src, notes)
	if err != nil {
		return nil, err
	}
	kind, ok := retriever["type"]
	if !ok {
		return nil, fmt.Errorf("%s: there is no [retriever] with a type, so this is not a getmailrc", notes.name)
	}
	for _, key := range []string{"type", "server", "username"} { // notes and errors show them
		if v := retriever[key]; strings.Contains(v.text, "\n") {
			fault := fmt.Errorf("the value of %s in line %d continues on the next line, which is indented deeper; "+
				"remove the blanks before that line", key, v.line)
			return []Account{{Where: notes.at(kind.line), Fault: fault}}, nil
		}
	}
	a := Account{Where: notes.at(kind.line), Host: retriever["server"].text, Username: retriever["username"].text}
	switch kind.text {
	case "SimpleIMAPSSLRetriever", "MultidropIMAPSSLRetriever":
		a.Security = inbox.TLS
	case "SimpleIMAPRetriever", "MultidropIMAPRetriever":
		a.Security = notes.unencrypted(kind.line, "getmail", a.Host)
	default:
		notes.add(kind.line, "the type is %s; postrider reads IMAP only, so this account is ignored", kind.text)
		return nil, nil
	}
	if strings.HasPrefix(kind.text, "Multidrop") {
		notes.add(kind.line, "multidrop: getmail sorts by the recipient in a header field; "+
			"postrider forwards by its routes, which can match that field")
	}
	if port, ok := retriever["port"]; ok {
		if a.Port, err = strconv.Atoi(port.text); err != nil || a.Port == 0 {
			a.Fault = fmt.Errorf("the port in line %d is not a number from 1 to 65535", port.line)
		}
	}
	if a.Folders, err = mailboxes(retriever["mailboxes"], notes); err != nil {
		a.Fault = errors.Join(a.Fault, err)
	}
	if oauth := retriever["use_xoauth2"]; yes(oauth.text) {
		a.OAuth = fmt.Sprintf("use_xoauth2 in line %d", oauth.line)
	} else if a.Password, err = getmailPassword(retriever); err != nil {
		a.Fault = errors.Join(a.Fault, err)
	}
	noteKeys(sections, notes)
	return []Account{a}, nil
}

func mailboxes(v value, notes *Notes) ([]string, error) {
	names, ok := tuple(v.text)
	switch {
	case !ok:
		return nil, fmt.Errorf(`the mailboxes in line %d are not a list like ("INBOX", "Clients")`, v.line)
	case slices.Equal(names, []string{"ALL"}):
		notes.add(v.line, "mailboxes is ALL; only INBOX is taken; "+
			"`inbox set` changes that, with `--folder NAME` for each folder, INBOX too")
		return nil, nil
	}
	return names, nil
}

func getmailPassword(retriever map[string]value) (string, error) {
	if password := retriever["password"].text; password != "" {
		return literal(password)
	}
	command := retriever["password_command"]
	if command.text == "" {
		return "", errors.New("there is no password; " +
			"getmail asks for it, or takes it from a keyring or .netrc; add `password` to the file")
	}
	words, ok := tuple(command.text)
	if !ok || len(words) == 0 {
		return "", fmt.Errorf(`the password_command in line %d is not a list like ("pass", "mail/office")`,
			command.line)
	}
	for i, w := range words {
		words[i] = text.Arg(w)
	}
	return "command:" + strings.Join(words, " "), nil
}

func yes(s string) bool {
	return slices.Contains([]string{"true", "yes", "1", "on"}, strings.ToLower(s))
}

// taken are the keys of [retriever] that are used, or make no difference.
var taken = []string{
	"type", "server", "port", "username", "password", "password_command", "mailboxes", "use_xoauth2",
	"timeout", "use_peek", "imap_on_delete", "record_mailbox", "ssl_version", "ssl_ciphers",
}

// certificates are keys of [retriever] that an operator sets otherwise.
var certificates = map[string]string{
	"ca_certs": ownTLS, "ssl_fingerprints": ownTLS, "ssl_cert_hostname": ownTLS,
	"certfile": ownClient, "keyfile": ownClient,
}

// defaults is the section whose keys all other sections have, unless they have their own (Python's
// configparser).
const defaults = "DEFAULT"

// noteKeys notes what postrider does not do, or does differently.
func noteKeys(sections []section, notes *Notes) {
	for _, s := range sections {
		switch s.name {
		case "retriever":
			for _, key := range s.keys {
				switch {
				case slices.Contains(taken, key.name):
				case certificates[key.name] != "":
					notes.add(key.line, "%s is ignored: %s", key.name, certificates[key.name])
				default:
					notes.add(key.line, "%s is ignored", key.name)
				}
			}
		case "options":
			for _, key := range s.keys {
				noteOption(key, notes)
			}
		case defaults:
			for _, key := range s.keys {
				if why := certificates[key.name]; why != "" {
					notes.add(key.line, "%s is ignored: %s", key.name, why)
				}
				noteOption(key, notes)
			}
		case "destination":
			notes.add(s.line, "[destination] is ignored: the routes of the configuration say where mail goes")
		default:
			notes.add(s.line, "[%s] is ignored; routes have conditions instead", s.name)
		}
	}
}

func noteOption(key namedValue, notes *Notes) {
	switch {
	case key.name == "delete" && yes(key.text), key.name == "delete_after" && key.text != "0":
		notes.add(key.line, "%s: getmail deletes mail on the server; postrider leaves it there", key.name)
	case key.name == "max_message_size" && key.text != "0":
		notes.add(key.line, "max_message_size: postrider has forward.max_size, for all inboxes")
	}
}

type section struct {
	name string
	line int
	keys []namedValue
}

type namedValue struct {
	name string
	value
}

var keyValue = regexp.MustCompile(`^([^=:]+?)\s*[=:]\s*(.*)$`)

// header is the name in the header of a section, which a comment may follow.
func header(line string) (name string, ok bool) {
	end := strings.LastIndexByte(line, ']')
	if line[0] != '[' || end < 2 {
		return "", false
	}
	return line[1:end], true
}

// readSections reads the file. The last of several values of a key counts.
func readSections(src string, notes *Notes) (retriever map[string]value, all []section, err error) {
	var lines []string // of the value that may continue
	indent := 0        // of its key
	end := func() {
		if len(lines) > 0 {
			keys := all[len(all)-1].keys
			keys[len(keys)-1].text = strings.TrimSpace(strings.Join(lines, "\n"))
		}
		lines = nil
	}
	for i, line := range strings.Split(src, "\n") {
		trimmed := strings.TrimSpace(line)
		if trimmed == "" || trimmed[0] == '#' || trimmed[0] == ';' {
			continue
		}
		blanks := len(line) - len(strings.TrimLeft(line, " \t"))
		name, begins := header(trimmed)
		switch {
		case len(lines) > 0 && blanks > indent:
			lines = append(lines, trimmed)
		case begins:
			end()
			all = append(all, section{name: name, line: i + 1})
		default:
			end()
			indent = blanks
			m := keyValue.FindStringSubmatch(trimmed)
			if m == nil || len(all) == 0 {
				return nil, nil, fmt.Errorf("%s: this line is neither [SECTION] nor NAME = VALUE", notes.at(i+1))
			}
			s := &all[len(all)-1]
			s.keys = append(s.keys, namedValue{strings.ToLower(m[1]), value{line: i + 1}})
			lines = []string{m[2]}
		}
	}
	end()
	retriever = map[string]value{}
	for _, name := range []string{defaults, "retriever"} {
		for _, s := range all {
			for _, key := range s.keys {
				if s.name == name {
					retriever[key.name] = key.value
				}
			}
		}
	}
	return retriever, all, nil
}
