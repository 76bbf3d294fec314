// Package csvfile reads the CSV files (RFC 4180) that people write by hand or save from a
// spreadsheet, and writes such files.
//
// The text is UTF-8, or UTF-16 with a byte order mark. The separator is a comma, semicolon or tab;
// a line such as sep=; at the top may name it, as Excel writes it. The first line names the columns
// in any order. Empty columns at the end and empty lines are ignored. A file has at most 16 MiB.
//
// A fault of one line belongs to that line, so that a reader can report the faults of all lines
// together. An *Error says why no line can be read.
package csvfile

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/unicode"
)

// maxFile is the size of the largest file that is read, in octets.
const maxFile = 16 << 20

// Error says why a file cannot be read, and how to fix it.
type Error struct {
	NoColumns bool // the first line names none
	text      string
}

func (e *Error) Error() string { return e.text }

// Line is one line below the first.
type Line struct {
	Where  string // such as people.csv:7
	Fault  error  // why the line could not be read; nil when it could
	values map[string]string
}

// Value returns what the line has in a column; nil when the file has no such column.
func (l Line) Value(column string) *string {
	if v, ok := l.values[column]; ok {
		return &v
	}
	return nil
}

// Read reads a file that may have these columns and must have the first one. name is the file's
// name, for errors.
func Read(name string, in io.Reader, columns []string) ([]Line, error) {
	src, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(src) > maxFile {
		return nil, fault(name, 0, "is larger than 16 MiB; split it into several files")
	}
	if src, err = utf8Of(name, src); err != nil {
		return nil, err
	}
	return newFile(name, src, columns).lines()
}

func fault(name string, line int, format string, args ...any) *Error {
	where := name
	if line > 0 {
		where = fmt.Sprintf("%s:%d", name, line)
	}
	return &Error{text: where + ": " + fmt.Sprintf(format, args...)}
}

// utf8Of converts the text to UTF-8 without a byte order mark.
func utf8Of(name string, src []byte) ([]byte, error) {
	const fix = "save it as CSV UTF-8"
	if bytes.HasPrefix(src, []byte("\xff\xfe")) || bytes.HasPrefix(src, []byte("\xfe\xff")) {
		return unicode.UTF16(unicode.LittleEndian, unicode.ExpectBOM).NewDecoder().Bytes(src)
	}
	src = bytes.TrimPrefix(src, []byte("\xef\xbb\xbf"))
	if bytes.HasPrefix(src, []byte("PK\x03\x04")) || bytes.HasPrefix(src, []byte("\xd0\xcf\x11\xe0")) {
		return nil, fault(name, 0, "is a workbook, not a CSV file; %s", fix)
	}
	for i, line := range bytes.Split(src, []byte("\n")) {
		switch {
		case bytes.IndexByte(line, 0) >= 0:
			return nil, fault(name, i+1, "has zero octets, like UTF-16 without a byte order mark; %s", fix)
		case !utf8.Valid(line):
			return nil, fault(name, i+1, "is not UTF-8 (perhaps Latin-1); %s", fix)
		}
	}
	if !bytes.ContainsRune(src, '\n') { // Excel's format "CSV (Macintosh)"
		src = bytes.ReplaceAll(src, []byte("\r"), []byte("\n"))
	}
	return src, nil
}

// file is a CSV file that is being read.
type file struct {
	name    string
	csv     *csv.Reader
	columns []string // that it may have
	found   []string // that it has, in their order
}

func newFile(name string, src []byte, columns []string) *file {
	f := &file{name: name, csv: csv.NewReader(bytes.NewReader(src)), columns: columns}
	header, _, _ := strings.Cut(strings.TrimLeft(string(src), "\r\n"), "\n")
	sep := separator.FindStringSubmatch(header)
	for _, r := range ",\t;" {
		if sep != nil && sep[1] == string(r) ||
			sep == nil && strings.ContainsRune(header, r) && !strings.Contains(header, ",") {
			f.csv.Comma = r
		}
	}
	f.csv.FieldsPerRecord = -1
	f.csv.TrimLeadingSpace = f.csv.Comma != '\t'
	if sep != nil {
		_, _ = f.csv.Read() // skip the line that names the separator
	}
	return f
}

// separator matches the first line of a file from Excel that names the separator. Excel does not
// display that line.
var separator = regexp.MustCompile(`(?i)^"?sep=([,;\t])"?\s*$`)

func (f *file) lines() (list []Line, err error) {
	if err := f.header(); err != nil {
		return nil, err
	}
	for {
		record, err := f.csv.Read()
		var syntax *csv.ParseError
		switch {
		case errors.Is(err, io.EOF):
			return list, nil
		case errors.As(err, &syntax): // the lines after it cannot be separated
			where := ""
			if syntax.Line != syntax.StartLine {
				where = fmt.Sprintf(" (in line %d)", syntax.Line)
			}
			return append(list, Line{Where: f.at(syntax.StartLine), Fault: fmt.Errorf(
				`is not valid CSV: %w%s; put text that holds quotes or separators "in quotes", `+
					`and double each quote in it`, syntax.Err, where)}), nil
		case err != nil:
			return nil, fmt.Errorf("read %s: %w", f.name, err)
		case strings.TrimSpace(strings.Join(record, "")) != "":
			line, _ := f.csv.FieldPos(0)
			list = append(list, f.line(line, record))
		}
	}
}

func (f *file) at(line int) string { return fmt.Sprintf("%s:%d", f.name, line) }

// header reads the line that names the columns.
func (f *file) header() error {
	names, err := f.csv.Read()
	if err != nil {
		return f.noColumn(1, nil, "")
	}
	line, _ := f.csv.FieldPos(0)
	width := len(names)
	for width > 1 && strings.TrimSpace(names[width-1]) == "" {
		width--
	}
	for _, name := range names[:width] {
		name = strings.ToLower(strings.TrimSpace(name))
		switch {
		case !slices.Contains(f.columns, name):
			return f.noColumn(line, names, name)
		case slices.Contains(f.found, name):
			return fault(f.name, line, "the column %s appears twice", name)
		}
		f.found = append(f.found, name)
	}
	if !slices.Contains(f.found, f.columns[0]) {
		return fault(f.name, line, "the column %s is missing", f.columns[0])
	}
	return nil
}

// noColumn says that a name in the first line is no column. It shows the name only if it looks like
// one: the first line of another file may have a password.
func (f *file) noColumn(line int, names []string, name string) error {
	must := "the first line must name the columns, out of " + strings.Join(f.columns, ",")
	known := slices.ContainsFunc(names, func(s string) bool {
		return slices.Contains(f.columns, strings.ToLower(strings.TrimSpace(s)))
	})
	if known && words.MatchString(name) {
		return fault(f.name, line, "there is no column %q; %s", name, must)
	}
	err := fault(f.name, line, "%s", must)
	err.NoColumns = !known
	return err
}

var words = regexp.MustCompile(`^[a-z _-]*$`)

func (f *file) line(line int, record []string) Line {
	l := Line{Where: f.at(line)}
	width := len(f.found)
	if len(record) < width {
		l.Fault = fmt.Errorf("the number of fields is %d, but the first line has %d; "+
			"if the empty ones at the end are left out, write their separators", len(record), width)
		return l
	}
	if strings.TrimSpace(strings.Join(record[width:], "")) != "" {
		l.Fault = fmt.Errorf("the number of fields is %d, but the first line has %d; "+
			"put text that holds a separator \"in quotes\"", len(record), width)
		return l
	}
	l.values = make(map[string]string, width)
	for i, column := range f.found {
		l.values[column] = record[i]
	}
	return l
}

// Truth reads yes or no.
func Truth(s string) (value, ok bool) {
	value, ok = truths[strings.ToLower(strings.TrimSpace(s))]
	return value, ok
}

var truths = map[string]bool{
	"yes": true, "y": true, "true": true, "1": true,
	"no": false, "n": false, "false": false, "0": false,
}
