package imapsrc

import (
	"bytes"
	"strings"
	"time"
)

// dates finds the values of INTERNALDATE in a FETCH response. The library closes the connection at
// a value that it cannot parse: a date of the year 1 (gluon, and so Proton Bridge), NIL (Zarafa),
// or a string that is not as in RFC 3501. It gets noDate instead.
type dates struct {
	word  []byte // the current word, as far as it may be the name of the item
	value []byte // of the item, as far as it has come
	on    bool   // the value is being read
	flags bool   // the item is FLAGS
}

const (
	itemDate = "INTERNALDATE"
	dateTime = `"_2-Jan-2006 15:04:05 -0700"` // RFC 3501 9
)

// noDate is a date that no server has, but that the library can parse. It stands for an unknown
// date.
var noDate = time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC)

// step appends an octet of the items to out, or holds it back until a value is whole. outside says
// that the octet is outside of a quoted string.
func (d *dates) step(c byte, outside bool, out []byte) []byte {
	ends := outside && strings.IndexByte(" (){\r", c) >= 0
	switch {
	case d.on && !ends:
		d.value = append(d.value, c)
		return out
	case d.on:
		out = append(out, readable(d.value)...)
		d.on, d.value = false, d.value[:0]
	case ends:
		d.on = c == ' ' && bytes.EqualFold(d.word, []byte(itemDate))
		d.flags = bytes.EqualFold(d.word, []byte("FLAGS")) || d.flags && len(d.word) == 0 && c != ')'
		d.word = d.word[:0]
	case outside && len(d.word) <= len(itemDate):
		d.word = append(d.word, c)
	}
	return append(out, c)
}

// readable is a date as the server sent it, or noDate for one that the library cannot read, or
// whose year in UTC cannot be written with four digits (RFC 3339 has no others).
func readable(value []byte) []byte {
	if len(value) == 0 { // a list or a literal follows
		return nil
	}
	if t, err := time.Parse(dateTime, string(value)); err != nil || t.UTC().Year() <= 1 || t.UTC().Year() > 9999 {
		return noDate.AppendFormat(nil, dateTime)
	}
	return value
}
