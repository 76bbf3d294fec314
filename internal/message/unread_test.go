package message

import (
	"reflect"
	"testing"
)

// TestInvalidContentType: a part with an invalid type is text/plain (RFC 2045 5.2).
func TestInvalidContentType(t *testing.T) {
	for _, field := range []string{
		"text", "html", `"text/plain"`, `"text/plain"; charset=utf-8`, "text / plain; charset=utf-8",
		"text/", "/plain", "multipart; boundary=x",
	} {
		want := Content{Text: "the hearing"}
		m := parse(t, "Content-Type: "+field+"\r\n\r\nthe hearing\r\n")
		if got := m.Content(t.Context()); !reflect.DeepEqual(got, want) {
			t.Errorf("Content-Type: %s: the content is %+v, want %+v", field, got, want)
		}
	}
}

func TestTransferEncodings(t *testing.T) {
	for _, encoding := range []string{"", "7bit", "8BIT;", "binary (x)", "7-bit", "8-bit"} {
		want := Content{Text: "the hearing"}
		m := parse(t, "Content-Transfer-Encoding: "+encoding+"\r\n\r\nthe hearing\r\n")
		if got := m.Content(t.Context()); !reflect.DeepEqual(got, want) {
			t.Errorf("Content-Transfer-Encoding: %s: the content is %+v, want %+v", encoding, got, want)
		}
	}
	got := parse(t, "Content-Transfer-Encoding: X-UUencode\r\n\r\nbegin 644 a\r\n").Content(t.Context())
	want := Content{
		Text:   "begin 644 a",
		Unread: `its text cannot be decoded: the transfer encoding "x-uuencode" is not known`,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the content is %+v, want %+v", got, want)
	}
}

// TestPackedParts: what is in them may be text or an attachment.
func TestPackedParts(t *testing.T) {
	for _, kind := range []string{
		"multipart/encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime",
		"application/ms-tnef", "application/vnd.ms-tnef",
	} {
		raw := parts("\nhearing", "Content-Type: "+kind+"; boundary=c\n\nx\n--c--")
		want := Content{Text: "hearing", Incomplete: "a part is encrypted or packed: " + kind}
		if got := parse(t, raw).Content(t.Context()); !reflect.DeepEqual(got, want) {
			t.Errorf("the content is %+v, want %+v", got, want)
		}
	}
}

// TestPackedNames: a program that does not know the type of a file sends it as octets.
func TestPackedNames(t *testing.T) {
	for name, want := range map[string]string{
		"WINMAIL.DAT": "a part is encrypted or packed: application/octet-stream",
		"smime.p7m":   "a part is encrypted or packed: application/octet-stream",
		"smime.p7s":   "", "winmail.dat.pdf": "",
	} {
		raw := parts("\nhearing", "Content-Type: application/octet-stream; name="+name+"\n\nx")
		if got := parse(t, raw).Content(t.Context()).Incomplete; got != want {
			t.Errorf("with %s the content is incomplete because %q, want %q", name, got, want)
		}
	}
}

// TestDigest: its parts are messages if they do not say otherwise, and so attachments.
func TestDigest(t *testing.T) {
	raw := lines("Content-Type: multipart/digest; boundary=c\n\n--c\n\nSubject: a\n\nno\n" +
		"--c\nContent-Type: text/plain\n\nhearing\n--c--\n")
	want := Content{Text: "hearing", HasAttachment: true}
	if got := parse(t, raw).Content(t.Context()); !reflect.DeepEqual(got, want) {
		t.Errorf("the content is %+v, want %+v", got, want)
	}
}

// TestNamedText: text with a file name that does not say how it is to be shown is both text and an
// attachment.
func TestNamedText(t *testing.T) {
	for kind, text := range map[string]string{
		"text/plain": "hearing", "text/html": "hearing",
		"text/csv": "", "text": "",
	} {
		raw := "Content-Type: " + kind + "; name=a.txt\r\n\r\nhearing"
		want := Content{Text: text, HasAttachment: true, Attachments: []string{"a.txt"}}
		if got := parse(t, raw).Content(t.Context()); !reflect.DeepEqual(got, want) {
			t.Errorf("Content-Type: %s; name=a.txt: the content is %+v, want %+v", kind, got, want)
		}
	}
}

// TestWordsInHTML: what breaks a word, and what does not.
func TestWordsInHTML(t *testing.T) {
	for markup, want := range map[string]string{
		"hea<ins>ring</ins>": "hearing", "hea<q>ring</q>": "hearing", "hea<o:p></o:p>ring": "hearing",
		"hea<nobr>ring</nobr>": "hearing", "hea<b>ring</b>": "hearing",
		"a<img>b": "a\nb", "a<p>b": "a\nb", "a<td>b": "a\nb", "a<br/>b": "a\nb", "a<hgroup>b": "a\nb",
		"a<div>b</div>c": "a\nb\nc", "<noscript>h&#101;a<b>ring</b></noscript>": "hearing",
		"<noscript/>h&#101;a<b>ring</b>": "hearing",
	} {
		if got := parse(t, "Content-Type: text/html\r\n\r\n"+markup).Content(t.Context()).Text; got != want {
			t.Errorf("the text of %s is %q, want %q", markup, got, want)
		}
	}
}
