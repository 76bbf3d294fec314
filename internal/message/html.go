package message

import (
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// inline are elements that do not break a word: "hea<b>ring</b>" is one word. All other elements
// begin a new line.
var inline = map[atom.Atom]bool{
	atom.A: true, atom.Abbr: true, atom.B: true, atom.Bdi: true, atom.Bdo: true, atom.Big: true, atom.Code: true,
	atom.Em: true, atom.Font: true, atom.I: true, atom.Mark: true, atom.S: true, atom.Small: true, atom.Span: true,
	atom.Strong: true, atom.Sub: true, atom.Sup: true, atom.Tt: true, atom.U: true, atom.Wbr: true,
}

// hidden are elements whose text is not displayed.
var hidden = map[atom.Atom]bool{atom.Script: true, atom.Style: true, atom.Title: true}

// htmlText returns the displayed text of HTML, approximately: it ignores layout and CSS.
func htmlText(s string) string {
	var out strings.Builder
	var skip atom.Atom
	z := html.NewTokenizer(strings.NewReader(s))
	for {
		kind := z.Next()
		if kind == html.ErrorToken { // the end: all of it is in memory
			return out.String()
		}
		if kind == html.TextToken && skip == 0 {
			out.Write(z.Text())
			continue
		}
		name, _ := z.TagName()
		tag := atom.Lookup(name)
		switch {
		case kind == html.StartTagToken && skip == 0 && hidden[tag]:
			skip = tag
		case kind == html.EndTagToken && tag == skip:
			skip = 0
		case kind != html.CommentToken && kind != html.DoctypeToken && skip == 0 && !inline[tag]:
			out.WriteByte('\n')
		}
	}
}
