// Package otherrc reads the accounts of other programs from their files: fetchmail's run control
// file and getmail's.
//
// It takes what postrider can do, too. The rest becomes notes, each with its line: what is not
// understood, and what works differently. What makes an account useless is the fault of that
// account. No note and no error contains a password. The files hold passwords, so the caller makes
// sure that other users cannot read them.
package otherrc

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"postrider/internal/address"
	"postrider/internal/inbox"
	"postrider/internal/secret"
	"postrider/internal/text"
)

// maxFile is the size of the largest file that is read, in octets.
const maxFile = 1 << 20

// Account is one login at an IMAP server.
type Account struct {
	Where    string // such as fetchmailrc:7
	Host     string
	Port     int // 0 is the default
	Security inbox.Security
	Username string
	Password string // or a reference
	OAuth    string // the setting that asks for OAuth2, such as "auth in line 3"; empty for a password
	Folders  []string
	Skipped  bool // the program does not ask this server by itself
	Fault    error
}

// Formats are the names of the formats, for Read.
var Formats = []string{"fetchmailrc", "getmailrc"}

// Read reads a file in one of the Formats, and adds to the notes. name is the file's name, for
// errors and notes.
func Read(format, name string, in io.Reader, notes *Notes) ([]Account, error) {
	src, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", name, err)
	case len(src) > maxFile:
		return nil, fmt.Errorf("%s: is larger than 1 MiB; split it into several files", name)
	case !utf8.Valid(src):
		return nil, fmt.Errorf("%s: is not UTF-8 (perhaps Latin-1); save it as UTF-8", name)
	}
	notes.name = name
	content := strings.TrimPrefix(string(src), "\ufeff") // a byte order mark
	switch format {
	case "fetchmailrc":
		return fetchmail(content, notes)
	case "getmailrc":
		return getmail(content, notes)
	}
	return nil, fmt.Errorf("the format is %q; use %s", format, strings.Join(Formats, " or "))
}

// Notes has each note once, with all places that it is about.
type Notes struct {
	name   string // of the file that is being read
	texts  []string
	places map[string][]string // by text
}

func (n *Notes) add(line int, format string, args ...any) {
	s, place := text.Line(fmt.Sprintf(format, args...)), n.at(line)
	if n.places == nil {
		n.places = map[string][]string{}
	}
	have := n.places[s]
	if have == nil {
		n.texts = append(n.texts, s)
	}
	if have == nil || have[len(have)-1] != place {
		n.places[s] = append(have, place)
	}
}

func (n *Notes) at(line int) string { return fmt.Sprintf("%s:%d", n.name, line) }

// All are the notes, with the first place of each.
func (n *Notes) All() (out []string) {
	for _, s := range n.texts {
		places := n.places[s]
		s = places[0] + ": " + s
		if more := len(places) - 1; more > 0 {
			s += fmt.Sprintf(" (and %s)", text.Count(more, "more line"))
		}
		out = append(out, s)
	}
	return out
}

// unencrypted is the security of a login that the other program does without encryption. postrider
// does that on this host only.
func (n *Notes) unencrypted(line int, program, host string) inbox.Security {
	if address.IsLoopback(host) {
		return inbox.None
	}
	n.add(line, "%s logs in without encryption; postrider requires STARTTLS", program)
	return inbox.STARTTLS
}

// place matches a password that would be taken for the place of one.
var place = regexp.MustCompile(`^(env|file|command|oauth):`)

// literal refuses a password that would be taken for the place of one.
func literal(password string) (string, error) {
	if kind := place.FindString(password); kind != "" {
		return "", fmt.Errorf("the password begins with %s, which postrider would take for the place of a password; "+
			"change the password", kind)
	}
	return password, nil
}

// login is what has one inbox, however many accounts watch its folders.
type login struct {
	host               string // in lower case
	port               int
	security           inbox.Security
	username, password string
	skipped            bool
}

// Entries makes an entry for each login, with the folders of all accounts that have it. The address
// of an inbox is the username when that is an address. Else addresses has it, by USER, or by
// USER@HOST where several servers have that user. app is the application for accounts that log in
// with OAuth2; empty for none.
func Entries(accounts []Account, addresses map[string]string, app string) ([]inbox.Entry, error) {
	used := map[string]bool{}
	var entries []inbox.Entry
	at := map[login]int{} // in entries
	for _, a := range accounts {
		e := inbox.Entry{Where: a.Where, Fault: errors.Join(a.Fault, a.useApp(app))}
		key := a.Username + "@" + a.Host
		if _, ok := addresses[key]; !ok {
			key = a.Username
		}
		used[key] = true
		addr, err := a.address(addresses[key])
		switch text := a.Host + a.Username + strings.Join(a.Folders, ""); {
		case !utf8.ValidString(text) && e.Fault == nil:
			e.Fault = errors.New("a name is not UTF-8; correct the escapes with a backslash")
		case e.Fault == nil || a.Username != "":
			e.Fault = errors.Join(e.Fault, err)
		}
		if e.Fault == nil {
			e.Address = addr
			e.Set = a.settings()
			if active := !a.Skipped; !active {
				e.Active = &active
			}
			of := login{strings.ToLower(a.Host), *e.Set.Port, a.Security, a.Username, a.Password, a.Skipped}
			if i, ok := at[of]; ok {
				entries[i].Set.Folders = slices.Concat(entries[i].Set.Folders, e.Set.Folders)
				continue
			}
			at[of] = len(entries)
		}
		entries = append(entries, e)
	}
	for user := range addresses {
		if !used[user] {
			return nil, fmt.Errorf("--address %s=%s: no account has that user; write USER or USER@HOST as in the file",
				user, addresses[user])
		}
	}
	return entries, nil
}

func (a Account) address(given string) (string, error) {
	switch {
	case given != "":
		return given, nil
	case a.Username == "":
		return "", fmt.Errorf("there is no user for %s; add it to the file", a.Host)
	}
	if _, err := inbox.ParseAddress(a.Username); err == nil {
		return a.Username, nil
	}
	return "", fmt.Errorf("the user %q of %s is not an address; say which address it has: --address %s",
		a.Username, a.Host, text.Arg(a.Username+"="+guess(a.Username, a.Host)))
}

// guess is an address that the user may have, as an example. The user may be like DOMAIN\USER.
func guess(user, host string) string {
	first, domain, _ := strings.Cut(host, ".")
	if !slices.Contains([]string{"imap", "imaps", "mail", "mx"}, first) || domain == "" {
		domain = host
	}
	user, _, _ = strings.Cut(user[strings.LastIndexAny(user, `\/`)+1:], "@")
	return user + "@" + domain
}

// settings has what the file does not say, too: its program has defaults of its own for that.
func (a Account) settings() inbox.Changes {
	port, folders := cmp.Or(a.Port, a.Security.DefaultPort()), a.Folders
	if len(folders) == 0 {
		folders = []string{"INBOX"}
	}
	return inbox.Changes{
		Host: &a.Host, Port: &port, Security: &a.Security,
		Username: &a.Username, Password: &a.Password, Folders: folders,
	}
}

// useApp makes an account that uses OAuth2 log in with the application. The credentials in the file
// are for the application of another program.
func (a *Account) useApp(app string) error {
	switch {
	case a.OAuth == "":
		return nil
	case app == "":
		return fmt.Errorf("%s: the login with OAuth2 cannot be taken from this file; "+
			"set up an application as docs/providers.md says, and add --oauth NAME", a.OAuth)
	}
	a.Password = secret.OAuth + app
	return nil
}
