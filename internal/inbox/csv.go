package inbox

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"postrider/internal/csvfile"
	"postrider/internal/secret"
	"postrider/internal/text"
)

var columns = []string{
	"address", "host", "port", "security", "username", "password", "folders", "start", "description", "active",
	"auth", "allow_plaintext", "labels", "ca_file", "tls_fingerprint", "client_cert",
}

// ReadCSV reads entries for Import from a file as package csvfile does. Only the column address is
// required. An empty field is like a missing column.
//
// exposed says why neither a password itself nor a command may be in the file; nil when they may.
// An entry holds the faults of its line. An *InvalidError says why no line can be read. name is the
// file's name, for errors.
func ReadCSV(name string, in io.Reader, exposed error) ([]Entry, error) {
	lines, err := csvfile.Read(name, in, columns)
	if unreadable, ok := errors.AsType[*csvfile.Error](err); ok {
		if unreadable.NoColumns {
			err = fmt.Errorf("%w; to read a file of fetchmail or getmail: --from fetchmailrc, --from getmailrc", err)
		}
		return nil, &InvalidError{err}
	}
	if err != nil {
		return nil, err
	}
	var list []Entry
	for _, l := range lines {
		e := entry(l)
		p := e.Set.Password
		switch {
		case exposed == nil || p == nil || secret.IsRef(*p) && !secret.IsCommand(*p):
		case secret.IsCommand(*p):
			e.Fault = errors.Join(e.Fault,
				fmt.Errorf("a command that postrider is to run is in the file, and %w", exposed))
			exposed = nil // once is enough
		default:
			e.Fault = errors.Join(e.Fault, fmt.Errorf("the password itself is in the file, and %w", exposed))
			exposed = nil
		}
		list = append(list, e)
	}
	return list, nil
}

// entry reads one line.
func entry(l csvfile.Line) Entry {
	e := Entry{Where: l.Where, Fault: l.Fault}
	if l.Fault != nil {
		return e
	}
	var faults []error
	said := func(column string) *string {
		v := l.Value(column)
		if v == nil || strings.TrimSpace(*v) == "" {
			return nil
		}
		if trimmed := strings.TrimSpace(*v); column != "folders" && column != "password" || secret.IsRef(trimmed) {
			*v = trimmed
		}
		return v
	}
	truth := func(column string) *bool {
		v := said(column)
		if v == nil {
			return nil
		}
		yes, ok := csvfile.Truth(*v)
		if !ok {
			faults = append(faults, fmt.Errorf("%s is %q; write yes or no", column, *v))
			return nil
		}
		return &yes
	}
	set(&e.Address, said("address"))
	e.Set = Changes{
		Description: said("description"), Host: said("host"), Security: (*Security)(said("security")),
		AllowPlaintext: truth("allow_plaintext"), Username: said("username"), Auth: said("auth"),
		Start: (*Start)(said("start")), Password: said("password"),
	}
	e.Active = truth("active")
	if v := said("port"); v != nil {
		port, err := strconv.Atoi(*v)
		if err != nil || port == 0 {
			faults = append(faults, fmt.Errorf("port is %q; use 1 to 65535", *v))
		} else {
			e.Set.Port = &port
		}
	}
	if v := said("folders"); v != nil {
		e.Set.Folders = splitFolders(*v)
	}
	if v := said("labels"); v != nil {
		labels, err := ParseLabels(splitFolders(*v))
		e.Set.Labels, faults = labels, append(faults, err)
	}
	e.Set.TLSFingerprint = said("tls_fingerprint")
	e.Set.CAFile, e.Set.ClientCert = said("ca_file"), said("client_cert")
	for _, path := range []*string{e.Set.CAFile, e.Set.ClientCert} {
		if path != nil {
			abs, err := filepath.Abs(*path)
			*path, faults = abs, append(faults, err)
		}
	}
	e.Fault = errors.Join(append(faults, misspelt(e.Set.Password), absolute(e.Set.Password))...)
	return e
}

var place = regexp.MustCompile(`(?i)^\s*(env|file|command|oauth):`)

// misspelt refuses the place of a password in upper case, which would be stored as a password.
func misspelt(password *string) error {
	if password == nil || secret.IsRef(*password) || !place.MatchString(*password) {
		return nil
	}
	return fmt.Errorf("the password begins with %s; write the place of a password in lower case, "+
		"and set a password that begins so with --password-stdin", strings.TrimSpace(place.FindString(*password)))
}

// absolute makes the path of file:PATH absolute, because cron runs in another directory.
func absolute(password *string) error {
	if password == nil || *password == "file:" {
		return nil
	}
	path, ok := strings.CutPrefix(*password, "file:")
	if !ok {
		return nil
	}
	path, err := filepath.Abs(path)
	*password = "file:" + path
	return err
}

// splitFolders splits names at semicolons, without the blanks around them. A backslash before a
// semicolon, a backslash or a blank makes it part of the name.
func splitFolders(s string) (names []string) {
	var name strings.Builder
	kept := 0 // octets of name, without blanks at its end
	for len(s) > 0 {
		c, size := utf8.DecodeRuneInString(s)
		next, more := utf8.DecodeRuneInString(s[size:])
		switch {
		case c == '\\' && (next == '\\' || next == ';' || unicode.IsSpace(next)):
			name.WriteRune(next)
			kept = name.Len()
			size += more
		case c == ';':
			names = append(names, name.String()[:kept])
			name.Reset()
			kept = 0
		case !unicode.IsSpace(c):
			name.WriteString(s[:size])
			kept = name.Len()
		case name.Len() > 0:
			name.WriteRune(c)
		}
		s = s[size:]
	}
	if kept > 0 || len(names) == 0 {
		names = append(names, name.String()[:kept])
	}
	return names
}

func joinFolders(names []string) string {
	escaped := make([]string, len(names))
	for i, name := range names {
		var out strings.Builder
		edge := name != strings.TrimSpace(name)
		for _, c := range name {
			if strings.ContainsRune(`\;`, c) || edge && unicode.IsSpace(c) {
				out.WriteByte('\\')
			}
			out.WriteRune(c)
		}
		escaped[i] = out.String()
	}
	return strings.Join(escaped, ";")
}

// CSV writes inboxes as ReadCSV reads them. It has where passwords are, and nothing in the place of
// a password itself. The error says of which inboxes it is not known where the password is: one
// line for each, or for all with the same cause.
func (s *Store) CSV(boxes []Inbox) (string, error) {
	var out strings.Builder
	var causes []string
	out.WriteString(csvfile.Format(columns...))
	for _, in := range boxes {
		password, err := s.sealer.Unseal(in)
		if err != nil {
			causes = append(causes, text.Error(err))
		}
		if err != nil || !secret.IsRef(password) {
			password = ""
		}
		out.WriteString(csvfile.Format(in.fields(password)...))
	}
	if len(causes) == 0 {
		return out.String(), nil
	}
	return out.String(), fmt.Errorf(
		"the field password is empty where the stored one cannot be read (in %d of %d inboxes):\n%s",
		len(causes), len(boxes), strings.Join(slices.Compact(causes), "\n"))
}

// fields are the values of the columns.
func (in *Inbox) fields(password string) []string {
	return []string{
		in.Address, in.Host, strconv.Itoa(in.Port), string(in.Security), in.Username, password,
		sorted(in.Watched()), string(in.Start), in.Description, yesNo(in.Active), in.Auth,
		yesNo(in.AllowPlaintext), joinFolders(in.Labels.Texts()), in.CAFile, in.TLSFingerprint, in.ClientCert,
	}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
