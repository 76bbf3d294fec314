package message

import (
	"encoding/base64"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// lines converts line ends to CRLF.
func lines(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }

// parts returns a multipart message of these parts.
func parts(list ...string) string {
	return lines("Content-Type: multipart/mixed; boundary=b\n\n--b\n" + strings.Join(list, "\n--b\n") + "\n--b--\n")
}

func TestContent(t *testing.T) {
	japanese := base64.StdEncoding.EncodeToString([]byte("\x1b$B4|F|8F=P>u\x1b(B"))
	tests := []struct {
		name, raw string
		want      Content
	}{
		{"plain", lines("Subject: x\n\nThe hearing\nis on Monday."), Content{Text: "The hearing\nis on Monday."}},
		{"no body", "Subject: x\r\n\r\n", Content{}},
		{"no header", "\r\nhearing", Content{Text: "hearing"}},
		{"a mbox line on top", lines("From a@x Mon Jan 1\nContent-Type: text/html\n\n<b>x</b>"), Content{Text: "x"}},
		{
			"quoted-printable",
			lines("Content-Transfer-Encoding: quoted-printable\nContent-Type: text/plain; charset=utf-8\n\n" +
				"M=C3=BCn=\nchen"),
			Content{Text: "München"},
		},
		{
			"base64",
			lines("Content-Transfer-Encoding: Base64\nContent-Type: text/plain; charset=utf-8\n\naGVh\ncmluZw==\n"),
			Content{Text: "hearing"},
		},
		{
			"a transfer encoding with a semicolon",
			lines("Content-Transfer-Encoding: base64 ;\nContent-Type: text/plain; charset=utf-8\n\naGVh\ncmluZw==\n"),
			Content{Text: "hearing"},
		},
		{
			"comments in the fields",
			lines("Content-Transfer-Encoding: (x) base64 (y)\n" +
				"Content-Type: (x) text/html (y); charset=utf-8 (z)\n\naGVh\ncmluZw==\n"),
			Content{Text: "hearing"},
		},
		{
			"parts below a comment",
			lines("Content-Type: multipart/mixed (x); boundary=b\n\n--b\n" +
				"Content-Type: application/x; name=copy(1).pdf\n\n--b--"),
			Content{HasAttachment: true, Attachments: []string{"copy(1).pdf"}},
		},
		{"latin-2", "Content-Type: text/plain; charset=iso-8859-2\r\n\r\n\xa3\xf3d\xbc", Content{Text: "Łódź"}},
		{"gb18030", "Content-Type: text/plain; charset=gb18030\r\n\r\n\xc4\xe3\xba\xc3", Content{Text: "你好"}},
		{
			"iso-2022-jp",
			lines("Content-Type: text/plain; charset=iso-2022-jp\nContent-Transfer-Encoding: base64\n\n" + japanese),
			Content{Text: "期日呼出状"},
		},
		{"iso-2022-jp that is not declared", "Subject: x\r\n\r\n\x1b$B4|F|8F=P>u\x1b(B", Content{Text: "期日呼出状"}},
		{
			"ASCII that is UTF-8", "Content-Type: text/plain; charset=us-ascii\r\n\r\nMünchen",
			Content{Text: "München"},
		},
		{
			"ASCII that is Windows-1252", "Content-Type: text/plain; charset=us-ascii\r\n\r\nM\xfcnchen",
			Content{Text: "München"},
		},
		{"unknown charset", "Content-Type: text/plain; charset=x-none\r\n\r\nMünchen", Content{Text: "München"}},
		{"cp950", "Content-Type: text/plain; charset=CP950\r\n\r\n\xa4\xa4\xa4\xe5", Content{Text: "中文"}},
		{"ms950", "Content-Type: text/plain; charset=MS950\r\n\r\n\xa4\xa4\xa4\xe5", Content{Text: "中文"}},
		{"ms936", "Content-Type: text/plain; charset=ms936\r\n\r\n\xd6\xd0\xce\xc4", Content{Text: "中文"}},
		{"cp949", "Content-Type: text/plain; charset=cp949\r\n\r\n\xb0\xa1", Content{Text: "가"}},
		{"cp932", "Content-Type: text/plain; charset=cp932\r\n\r\n\x8a\x4a\x92\xec", Content{Text: "開廷"}},
		{
			"ISO-2022-JP of Windows", "Content-Type: text/plain; charset=iso-2022-jp-ms\r\n\r\n\x1b$B3+Dn\x1b(B",
			Content{Text: "開廷"},
		},
		{"cp50221", "Content-Type: text/plain; charset=cp50221\r\n\r\n\x1b$B3+Dn\x1b(B", Content{Text: "開廷"}},
		{
			"what cron writes in the C locale", "Content-Type: text/plain; charset=ANSI_X3.4-1968\r\n\r\nMünchen",
			Content{Text: "München"},
		},
		{"unknown-8bit", "Content-Type: text/plain; charset=unknown-8bit\r\n\r\nM\xfcnchen", Content{Text: "München"}},
		{
			"latin-1", "Content-Type: text/plain; charset=latin-1\r\n\r\nM\xfcnchen \x80",
			Content{Text: "München €"},
		},
		{"ISO8859_1", "Content-Type: text/plain; charset=ISO8859_1\r\n\r\nM\xfcnchen", Content{Text: "München"}},
		{
			"unknown charset, and no UTF-8", "Content-Type: text/plain; charset=x-none\r\n\r\nM\xfcnchen",
			Content{Text: "München", Unread: `its charset "x-none" is not known`},
		},
		{
			"UTF-8 with an octet that is none", "Content-Type: text/plain; charset=UTF-8\r\n\r\n開廷 \xe9",
			Content{Text: "開廷 \uFFFD"},
		},
		{
			"HTML without a charset, with an octet that is none", "Content-Type: text/html\r\n\r\n<p>開廷 \xe9 9:00",
			Content{Text: "開廷 \uFFFD 9:00"},
		},
		{
			"HTML without a charset, and no UTF-8", "Content-Type: text/html\r\n\r\n<p>M\xfcnchen",
			Content{Text: "München"},
		},
		{
			"no valid UTF-8", "Content-Type: text/plain; charset=UTF-8\r\n\r\nM\xfcnchen",
			Content{Text: "München"},
		},
		{
			"utf-7", "Content-Type: text/plain; charset=utf-7\r\n\r\nM+APw-nchen",
			Content{Text: "M+APw-nchen", Unread: `its charset "utf-7" is not known`},
		},
		{
			"utf-7 by another name", "Content-Type: text/plain; charset=csUnicode11UTF7\r\n\r\nM+APw-nchen",
			Content{Text: "M+APw-nchen", Unread: `its charset "csunicode11utf7" is not known`},
		},
		{"utf-7 that is ASCII", "Content-Type: text/plain; charset=utf-7\r\n\r\nhearing", Content{Text: "hearing"}},
		{
			"iso-2022-kr", "Content-Type: text/plain; charset=iso-2022-kr\r\n\r\n\x1b$)C\x0e0!\x0f",
			Content{Text: "\x1b$)C\x0e0!\x0f", Unread: `its charset "iso-2022-kr" is not known`},
		},
		{
			"charset inside HTML", "Content-Type: text/html\r\n\r\n<meta charset=gbk><p>\xc4\xe3\xba\xc3",
			Content{Text: "你好"},
		},
		{
			"HTML",
			lines("Content-Type: text/html; charset=utf-8\n\n<html><head><title>no</title><style>p{}</style></head>" +
				"<body><p>The hea<b>ring</b> &amp; more</p><script>no()</script><td>a<td>b<br>c<!-- no --></body>"),
			Content{Text: "The hearing & more\n\na\nb\nc"},
		},
		{
			"HTML that ends too early", "Content-Type: text/html\r\n\r\n<p>hearing <a href='x",
			Content{Text: "hearing"},
		},
		{
			"flowed lines",
			lines("Content-Type: text/plain; charset=utf-8; Format=Flowed; DelSp=Yes\n\n開 \n廷\nof  \nit\n-- \nhe"),
			Content{Text: "開廷\nof it\n-- \nhe"},
		},
		{
			"flowed lines above a signature",
			lines("Content-Type: text/plain; format=flowed; delsp=yes\n\nRegards \n-- \nhe"),
			Content{Text: "Regards\n-- \nhe"},
		},
		{
			"HTML is not flowed", lines("Content-Type: text/html; format=flowed; delsp=yes\n\n<p>the \nhearing"),
			Content{Text: "the \nhearing"},
		},
		{
			"invisible characters in a word", "Content-Type: text/html; charset=utf-8\r\n\r\nhea&shy;ri\u200bng",
			Content{Text: "hearing"},
		},
		{
			"two parts", parts("Content-Type: text/plain\n\none", "Content-Type: text/html\n\n<p>two"),
			Content{Text: "one\ntwo"},
		},
		{
			"the text of an attachment is not the body",
			parts("\nbody", "Content-Disposition: attachment; filename=a.txt\n\nno"),
			Content{Text: "body", HasAttachment: true, Attachments: []string{"a.txt"}},
		},
		{"an attachment without a name", parts("Content-Disposition: attachment\n\nno"), Content{HasAttachment: true}},
		{
			"an encoded word for a name",
			parts("Content-Type: application/pdf; name=\"=?utf-8?Q?R=C3=BCckstand.pdf?=\"\n\n"),
			Content{HasAttachment: true, Attachments: []string{"Rückstand.pdf"}},
		},
		{
			"invisible characters in a name",
			parts("Content-Disposition: attachment; filename*=utf-8''se%C2%ADcret.p%E2%80%8Bdf\n\n"),
			Content{HasAttachment: true, Attachments: []string{"secret.pdf"}},
		},
		{
			"two names",
			parts("Content-Type: application/x; name=a.exe\nContent-Disposition: attachment; filename=a.txt\n\n"),
			Content{HasAttachment: true, Attachments: []string{"a.txt", "a.exe"}},
		},
		{
			"one name, written twice",
			parts("Content-Type: application/x; name=\"=?utf-8?q?=C3=A4?=\"\n" +
				"Content-Disposition: attachment; filename*=utf-8''%C3%A4\n\n"),
			Content{HasAttachment: true, Attachments: []string{"ä"}},
		},
		{
			"a name in pieces",
			parts("Content-Disposition: attachment; filename*0*=utf-8''R%C3%BC;\n" +
				" filename*1=ckstand.pdf\n\n"),
			Content{HasAttachment: true, Attachments: []string{"Rückstand.pdf"}},
		},
		{
			"a name in pieces in another charset",
			parts("Content-Disposition: attachment; filename*0*=iso-8859-1''K%FCndigung-;\n" +
				" filename*1=Vertrag-4711.pdf\n\n"),
			Content{HasAttachment: true, Attachments: []string{"Kündigung-Vertrag-4711.pdf"}},
		},
		{
			"all pieces of a name in another charset",
			parts("Content-Type: application/pdf; name*0*=big5''%b6%7d;\n name*1*=%a7%ca.pdf\n\n"),
			Content{HasAttachment: true, Attachments: []string{"開廷.pdf"}},
		},
		{
			"a name in another charset",
			parts("Content-Disposition: attachment; filename*=iso-8859-2''%A3%F3d%BC.pdf\n\n"),
			Content{HasAttachment: true, Attachments: []string{"Łódź.pdf"}},
		},
		{
			"a name without the quotes it needs",
			parts("Content-Disposition: attachment; filename=Scan 2026 1.pdf\n\n"),
			Content{HasAttachment: true, Attachments: []string{"Scan 2026 1.pdf"}},
		},
		{
			"a raw name in UTF-8", parts("Content-Disposition: attachment; filename=\"開廷.pdf\"\n\n"),
			Content{HasAttachment: true, Attachments: []string{"開廷.pdf"}},
		},
		{
			"an attached message stays closed", parts("Content-Type: message/rfc822; name=a.eml\n\nSubject: x\n\nno"),
			Content{HasAttachment: true, Attachments: []string{"a.eml"}},
		},
		{
			"an attached message without a name",
			parts("\nbody", "Content-Type: Message/RFC822\nContent-Disposition: inline\n\nSubject: x\n\nno"),
			Content{Text: "body", HasAttachment: true},
		},
		{
			"a report is no attached message", parts("Content-Type: message/delivery-status\n\nReporting-MTA: dns; x"),
			Content{},
		},
		{
			"a name written from right to left",
			parts("Content-Disposition: attachment; filename*=utf-8''invoice%E2%80%AEfdp.exe\n\n"),
			Content{HasAttachment: true, Attachments: []string{"invoice\u202efdp.exe"}},
		},
		{
			"the last boundary is missing",
			lines("Content-Type: multipart/mixed; boundary=b\n\n--b\n\none\n--b\n\ntwo"),
			Content{Text: "one\ntwo"},
		},
		{
			"no boundary", lines("Content-Type: multipart/mixed\n\n--b\n\none"),
			Content{Incomplete: "it has parts, but no valid boundary between them"},
		},
		{
			"another boundary than announced",
			lines("Content-Type: multipart/mixed; boundary=abc charset=utf-8\n\n--abc\n\none\n--abc--\n"),
			Content{Incomplete: "it has parts, but not the boundary that is announced between them"},
		},
		{
			"closed without a part", lines("Content-Type: multipart/mixed; boundary=b\n\nfor old programs\n--b--\n"),
			Content{},
		},
		{"nothing in it", lines("Content-Type: multipart/mixed; boundary=b\n\n"), Content{}},
		{
			"a name without the semicolon before it",
			lines("Content-Type: multipart/mixed; boundary=b\n\n--b\n" +
				"Content-Type: application/pdf; x-unix-mode=0644 name=\"x.pdf\"\n\none\n--b--\n"),
			Content{HasAttachment: true, Attachments: []string{"x.pdf"}},
		},
		{
			"broken base64", lines("Content-Transfer-Encoding: base64\n\naGVh*cmlu"),
			Content{Text: "hearin", Unread: "its text cannot be decoded: \"*\" is not allowed in base64"},
		},
		{
			"base64 in several pieces",
			lines("Content-Transfer-Encoding: base64\n\naGVh\ncmluZw==\nIG9uIA==\nTW9uZGF5\n"),
			Content{Text: "hearing on Monday"},
		},
		{
			"control characters in quoted-printable",
			lines("Content-Transfer-Encoding: quoted-printable\nContent-Type: text/plain; charset=iso-8859-1\n\n" +
				"hea\x01r\xefng=FC"),
			Content{Text: "hearïngü"},
		},
		{
			"a long line in quoted-printable",
			lines("Content-Transfer-Encoding: quoted-printable\n\n" +
				strings.Repeat("word ", 1000) + "hea=72ing\nMonday"),
			Content{Text: strings.Repeat("word ", 1000) + "hearing\nMonday"},
		},
		{
			"careless quoted-printable", lines("Content-Transfer-Encoding: quoted-printable\n\nhea=ZZ ring"),
			Content{Text: "hea=ZZ ring"},
		},
		{
			"a part whose header is none", parts("\none", "no header: \x00\nthis neither\n\ntwo"),
			Content{Text: "one", Incomplete: "its parts cannot be separated"},
		},
		{
			"too many fields",
			strings.Repeat("X:\r\n", maxFields) + "Content-Transfer-Encoding: base64\r\n\r\naGVhcmluZw==",
			Content{
				Text:       "Content-Transfer-Encoding: base64\n\naGVhcmluZw==",
				Incomplete: "a header is longer than 1 MiB or 10,000 fields",
			},
		},
		{
			"a part with too many fields",
			parts(strings.Repeat("X:\n", maxFields) + "Content-Disposition: attachment\n\nhearing"),
			Content{
				Text:       "Content-Disposition: attachment\n\nhearing",
				Incomplete: "a header is longer than 1 MiB or 10,000 fields",
			},
		},
		{
			"too many parts", parts(strings.Split(strings.Repeat(",\nx", 2000)[1:], ",")...),
			Content{Text: strings.Repeat("x\n", 998) + "x", Incomplete: "it has more than 1,000 parts"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := parse(t, tt.raw).Content(t.Context()); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("Content is %.300q\nwant       %.300q", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", tt.want))
			}
		})
	}
}

// TestFaultyContentType: a parameter that breaks the grammar is ignored, and the others are used.
func TestFaultyContentType(t *testing.T) {
	for _, tt := range []struct{ field, boundary string }{
		{`multipart/mixed; boundary=----=_NextPart_000_0093`, "----=_NextPart_000_0093"},
		{`multipart/mixed; boundary=----=_NextPart_000_0093;`, "----=_NextPart_000_0093"},
		{"multipart/mixed;\r\n\tboundary=----=_Part_1;\r\n\tcharset=utf-8", "----=_Part_1"},
		{`multipart/mixed; boundary=a/b:c?d@e`, "a/b:c?d@e"},
		{`multipart/mixed; boundary=b c `, "b c"},
		{`multipart/mixed; boundary=b=c (x)`, "b=c"},
		{`multipart/mixed; boundary="b`, "b"},
		{`multipart/mixed; boundary="b";;`, "b"},
		{`multipart/mixed; boundary="b;\"c";;`, `b;"c`},
		{`multipart/mixed; foo; boundary="b"`, "b"},
		{`multipart/mixed; boundary="b"; foo`, "b"},
		{`multipart/mixed; name=Größe der.pdf; boundary="b"`, "b"},
		{`multipart/mixed; charset=a; charset=c; boundary="b"`, "b"},
		{`multipart/mixed; boundary=b; boundary=c`, "b"},
		{`Multipart/Mixed; BOUNDARY=b; type="x; boundary=c"; foo`, "b"},
		{`multipart/mixed boundary="b"`, "b"},
		{`multipart/mixed, boundary="b"`, "b"},
		{`multipart/mixed; type="x" boundary="b"`, "b"},
	} {
		raw := "Content-Type: " + tt.field + lines("\n\n--"+tt.boundary+"\n\none\n--"+tt.boundary+"--\n")
		if c := parse(t, raw).Content(t.Context()); c.Text != "one" || c.Incomplete != "" {
			t.Errorf("Content-Type: %s: the content is %q, incomplete: %q; want the part, complete",
				tt.field, c.Text, c.Incomplete)
		}
	}
	for _, field := range []string{
		"text/plain; charset=big5;;", "text/plain; charset=big5; flowed", "text/plain; charset=big5 flowed; x",
		`text/plain; charset="big5" format=flowed`, `text/plain; charset="big5`, "text/html; charset=big5;;",
		"text/plain charset=big5", "text/plain; charset=big5; charset=utf-8",
	} {
		raw := "Content-Type: " + field + "\r\n\r\n\xa7A\xa6n"
		if c := parse(t, raw).Content(t.Context()); c.Text != "你好" {
			t.Errorf("Content-Type: %s: the text is %q, want 你好", field, c.Text)
		}
	}
}

func TestReceived(t *testing.T) {
	for name, tt := range map[string]struct{ raw, want string }{
		"topmost": {"Received: from a by b; Fri, 2 Jan 2026 10:00:00 +0100\r\n" +
			"Received: from c; Thu, 1 Jan 2026 10:00:00 +0000", "2026-01-02T09:00:00Z"},
		"a comment after it": {"Received: from a; Fri, 2 Jan 2026 10:00:00 +0000 (UTC)", "2026-01-02T10:00:00Z"},
		"folded before it":   {"Received: from a by b;\r\n\tFri, 2 Jan 2026 10:00:00 +0000", "2026-01-02T10:00:00Z"},
		"the topmost has none": {
			"Received: from a by b\r\nReceived: x; Fri, 2 Jan 2026 10:00:00 +0000",
			"2026-01-02T10:00:00Z",
		},
		"none": {"Date: Fri, 2 Jan 2026 10:00:00 +0000", "0001-01-01T00:00:00Z"},
	} {
		if got := parse(t, tt.raw+"\r\n\r\n").Header.Received().Format(time.RFC3339); got != tt.want {
			t.Errorf("%s: received %s, want %s", name, got, tt.want)
		}
	}
}
