package contacts

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

var columns = []string{"name", "email", "keywords", "active"}

// ReadCSV reads contacts from a CSV file (RFC 4180) in UTF-8, or in UTF-16 with a byte order mark.
// The separator is a comma, semicolon or tab; a line such as sep=; at the top may name it, as Excel
// writes it. The first line names the columns in any order; only the column name is required. Empty
// columns at the end are ignored. A missing column leaves the field of an existing contact
// unchanged.
//
// An entry holds the fault of its line, which Plan and Put report. An *InvalidError says why no
// line can be read. name is the file's name, for errors.
func ReadCSV(name string, in io.Reader) ([]Entry, error) {
	src, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read contacts from %s: %w", name, err)
	}
	if len(src) > maxFile {
		return nil, fault(name, 0, "is larger than 16 MiB; split it into several files")
	}
	if src, err = utf8Of(name, src); err != nil {
		return nil, err
	}
	return newFile(name, src).entries()
}

func fault(name string, line int, format string, args ...any) *InvalidError {
	where := name
	if line > 0 {
		where = fmt.Sprintf("%s:%d", name, line)
	}
	return &InvalidError{errors.New(where + ": " + fmt.Sprintf(format, args...))}
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
	name   string
	csv    *csv.Reader
	column map[string]int
	width  int
}

func newFile(name string, src []byte) *file {
	f := &file{name: name, csv: csv.NewReader(bytes.NewReader(src)), column: map[string]int{}}
	header, _, _ := strings.Cut(string(src), "\n")
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

func (f *file) entries() (list []Entry, err error) {
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
			return append(list, Entry{Where: f.at(syntax.StartLine), Fault: fmt.Errorf(
				`is not valid CSV: %w (in line %d); put text that holds quotes or separators "in quotes", `+
					`and double each quote in it`, syntax.Err, syntax.Line)}), nil
		case err != nil:
			return nil, fmt.Errorf("read contacts from %s: %w", f.name, err)
		case strings.TrimSpace(strings.Join(record, "")) != "":
			line, _ := f.csv.FieldPos(0)
			list = append(list, f.entry(line, record))
		}
	}
}

func (f *file) at(line int) string { return fmt.Sprintf("%s:%d", f.name, line) }

// header reads the line that names the columns.
func (f *file) header() error {
	names, err := f.csv.Read()
	if err != nil {
		return fault(f.name, 1, "must name the columns: %s", strings.Join(columns, ","))
	}
	line, _ := f.csv.FieldPos(0)
	for f.width = len(names); f.width > 1 && strings.TrimSpace(names[f.width-1]) == ""; f.width-- {
		continue
	}
	for i, name := range names[:f.width] {
		name = strings.ToLower(strings.TrimSpace(name))
		_, twice := f.column[name]
		switch {
		case !slices.Contains(columns, name):
			return fault(f.name, line, "there is no column %q; the first line must name the columns, out of %s",
				name, strings.Join(columns, ","))
		case twice:
			return fault(f.name, line, "the column %s appears twice", name)
		}
		f.column[name] = i
	}
	if _, ok := f.column["name"]; !ok {
		return fault(f.name, line, "the column name is missing")
	}
	return nil
}

// entry reads one line.
func (f *file) entry(line int, record []string) Entry {
	e := Entry{Where: f.at(line)}
	if len(record) < f.width || strings.TrimSpace(strings.Join(record[f.width:], "")) != "" {
		e.Fault = fmt.Errorf("the number of fields is %d, but the first line has %d; "+
			"put text that holds a separator \"in quotes\"", len(record), f.width)
		return e
	}
	e.Name = record[f.column["name"]]
	if i, ok := f.column["email"]; ok {
		e.Email = &record[i]
	}
	if i, ok := f.column["keywords"]; ok {
		e.Keywords = append([]string{}, Keywords(record[i])...)
	}
	if i, ok := f.column["active"]; ok {
		active, ok := truths[strings.ToLower(strings.TrimSpace(record[i]))]
		if !ok {
			e.Fault = fmt.Errorf("active is %q; write yes or no", record[i])
		}
		e.Active = &active
	}
	return e
}

// truths are the values of the column active. Empty means yes.
var truths = map[string]bool{
	"": true, "yes": true, "y": true, "true": true, "1": true,
	"no": false, "n": false, "false": false, "0": false,
}
