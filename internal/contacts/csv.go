package contacts

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"postrider/internal/csvfile"
)

var columns = []string{"name", "email", "keywords", "active"}

// ReadCSV reads contacts from a file as package csvfile does. Only the column name is required. A
// missing column, or an empty email or active, leaves the field of an existing contact unchanged.
//
// An entry holds the fault of its line, which Plan and Put report. An *InvalidError says why no
// line can be read. name is the file's name, for errors.
func ReadCSV(name string, in io.Reader) ([]Entry, error) {
	lines, err := csvfile.Read(name, in, columns)
	if unreadable, ok := errors.AsType[*csvfile.Error](err); ok {
		return nil, &InvalidError{unreadable}
	}
	if err != nil {
		return nil, err
	}
	var list []Entry
	for _, l := range lines {
		list = append(list, entry(l))
	}
	return list, nil
}

// entry reads one line.
func entry(l csvfile.Line) Entry {
	e := Entry{Where: l.Where, Fault: l.Fault}
	if name := l.Value("name"); name != nil {
		e.Name = *name
	}
	if email := l.Value("email"); email != nil {
		e.Email = *email
	}
	if keywords := l.Value("keywords"); keywords != nil {
		e.Keywords = append([]string{}, Keywords(*keywords)...)
	}
	if said := l.Value("active"); said != nil && strings.TrimSpace(*said) != "" {
		active, ok := csvfile.Truth(*said)
		if !ok {
			e.Fault = fmt.Errorf("active is %q; write yes or no", *said)
		}
		e.Active = &active
	}
	return e
}
