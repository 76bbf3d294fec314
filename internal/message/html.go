package message

import (
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// breaks are elements that begin a new line, or are displayed between words. All others, also
// unknown ones, do not break a word: "hea<b>ring</b>" is one.
var breaks = map[atom.Atom]bool{
	atom.Address: true, atom.Article: true, atom.Aside: true, atom.Blockquote: true, atom.Body: true,
	atom.Br: true, atom.Button: true, atom.Caption: true, atom.Center: true, atom.Col: true, atom.Dd: true,
	atom.Details: true, atom.Dialog: true, atom.Dir: true, atom.Div: true, atom.Dl: true, atom.Dt: true,
	atom.Fieldset: true, atom.Figcaption: true, atom.Figure: true, atom.Footer: true, atom.Form: true,
	atom.H1: true, atom.H2: true, atom.H3: true, atom.H4: true, atom.H5: true, atom.H6: true, atom.Head: true,
	atom.Header: true, atom.Hgroup: true, atom.Hr: true, atom.Html: true, atom.Iframe: true, atom.Img: true,
	atom.Input: true, atom.Legend: true, atom.Li: true, atom.Listing: true, atom.Main: true, atom.Menu: true,
	atom.Nav: true, atom.Ol: true, atom.Optgroup: true, atom.Option: true, atom.P: true, atom.Pre: true,
	atom.Section: true, atom.Select: true, atom.Summary: true, atom.Table: true, atom.Tbody: true, atom.Td: true,
	atom.Textarea: true, atom.Tfoot: true, atom.Th: true, atom.Thead: true, atom.Tr: true, atom.Ul: true,
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
		case tag == atom.Noscript: // also <noscript/>, which is a start tag
			z.NextIsNotRawText() // mail programs run no scripts, so they display it
		case kind == html.StartTagToken && skip == 0 && hidden[tag]:
			skip = tag
		case kind == html.EndTagToken && tag == skip:
			skip = 0
		case skip == 0 && breaks[tag]:
			out.WriteByte('\n')
		}
	}
}
