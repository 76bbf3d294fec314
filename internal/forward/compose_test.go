package forward

import (
	"strings"
	"testing"
)

// headerOf is what is composed, up to the empty line, unfolded.
func headerOf(t *testing.T, c *Content) string {
	t.Helper()
	head, _, _ := strings.Cut(octetsOf(t, c.Reader()), "\r\n\r\n")
	return strings.NewReplacer("\r\n ", " ", "\r\n\t", " ").Replace(head) + "\r\n"
}

func TestComposedHeader(t *testing.T) {
	const author = "From: Alice Example <alice@client.example>\r\n"
	tests := []struct {
		name, raw string
		mode      Mode
		want      []string // lines
		never     []string // starts of lines
	}{
		{
			"rewrite", author + "Subject: x\r\nMessage-ID: <a@b>\r\nDate: yesterday\r\n", Rewrite,
			[]string{
				`From: "Alice Example via Intake" <forwarder@example.com>`,
				"Reply-To: \"Alice Example\" <alice@client.example>",
				"X-Original-From: Alice Example <alice@client.example>",
				"Subject: x", "Message-ID: <a@b>", "Date: yesterday",
			},
			[]string{"From: Alice", "Auto-Submitted"},
		},
		{
			"rewrite keeps what the author wished",
			author + "Reply-To: desk@client.example\r\nAuto-Submitted: auto-replied\r\n", Rewrite,
			[]string{
				"Reply-To: desk@client.example", "Auto-Submitted: auto-replied",
				"Date: Fri, 20 Nov 2026 10:00:00 +0000",
			},
			[]string{"Reply-To: \"Alice"},
		},
		{
			"rewrite takes out what can no longer verify",
			"Return-Path: <x@client.example>\r\nDKIM-Signature: v=1; h=from;\r\n b=abc\r\nARC-Seal: i=1\r\n" +
				"ARC-Message-Signature: i=1\r\nARC-Authentication-Results: i=1\r\nAuthentication-Results: mx\r\n" +
				author + "Sender: bob@client.example\r\nList-Id: <l.example>\r\n", Rewrite,
			[]string{
				"X-Original-Sender: bob@client.example", "List-Id: <l.example>", "Authentication-Results: mx",
			},
			[]string{"DKIM-", "ARC-", "Return-Path", "Sender:", " b=abc"},
		},
		{
			"no name", "From: alice@client.example\r\n", Rewrite,
			[]string{`From: "alice at client.example via Intake" <forwarder@example.com>`},
			nil,
		},
		{
			"a name made to deceive",
			"From: =?utf-8?B?Y2VvQGZpcm0uZXhhbXBsZSBvciBhQGIg77yg4oCuZQ==?= <a@x.example>\r\n", Rewrite,
			[]string{`From: "ceo at firm.example or a at b at e via Intake" <forwarder@example.com>`},
			nil,
		},
		{
			"a name that nobody sees", "From: =?utf-8?b?4oCP4oCO?= <a@x.example>\r\n", Rewrite,
			[]string{`From: "a at x.example via Intake" <forwarder@example.com>`},
			nil,
		},
		{
			"a long name", "From: " + strings.Repeat("x", 101) + " <a@x.example>\r\n", Rewrite,
			[]string{`From: "` + strings.Repeat("x", 100) + `... via Intake" <forwarder@example.com>`},
			nil,
		},
		{
			"nobody", "Subject: x\r\n", Rewrite,
			[]string{`From: "Intake" <forwarder@example.com>`},
			[]string{"Reply-To", "X-Original-From"},
		},
		{
			"name in another script", "From: =?utf-8?B?546L5bCP5piO?= <w@client.example>\r\n", Rewrite,
			[]string{
				"From: =?utf-8?q?=E7=8E=8B=E5=B0=8F=E6=98=8E_via_Intake?= <forwarder@example.com>",
				"X-Original-From: =?utf-8?B?546L5bCP5piO?= <w@client.example>",
			},
			nil,
		},
		{
			"raw UTF-8 is encoded",
			"From: Zoë <z@client.example>\r\nSubject: Größe\r\nTo: Jörg <j@firm.example>, b@firm.example\r\n" +
				"X-Note: ä\r\n", Rewrite,
			[]string{
				"Subject: =?utf-8?q?Gr=C3=B6=C3=9Fe?=", "To: =?utf-8?q?J=C3=B6rg?= <j@firm.example>, b@firm.example",
				"X-Note: =?utf-8?q?=C3=A4?=", "X-Original-From: =?utf-8?q?Zo=C3=AB_<z@client.example>?=",
			},
			nil,
		},
		{
			"raw file name", author + "Content-Type: application/pdf; name=\"Akte ä.pdf\"\r\n", Rewrite,
			[]string{"Content-Type: application/pdf; name*=utf-8''Akte%20%C3%A4.pdf"},
			nil,
		},
		{
			"raw file name that breaks the grammar",
			author + "Content-Type: multipart/mixed;\r\n boundary=abc; name=Aktä.pdf\r\n", Rewrite,
			[]string{"Content-Type: multipart/mixed; boundary=abc; name=Akt_.pdf"},
			nil,
		},
		{
			"raw UTF-8 beside a parameter in another charset",
			author + "Content-Type: application/pdf; name*=big5''%b6%7d.pdf; x=\"ö\"\r\n", Rewrite,
			[]string{"Content-Type: application/pdf; name*=big5''%b6%7d.pdf; x=\"_\""},
			nil,
		},
		{
			"raw UTF-8 in fields for programs",
			author + "Content-Transfer-Encoding: base64 (ä)\r\nMessage-ID: <ä@b>\r\n" +
				"Date: Fri, 20 Nov 2026 10:00:00 +0100 (mañana)\r\n", Rewrite,
			[]string{
				"Content-Transfer-Encoding: base64 (_)", "Message-ID: <_@b>",
				"Date: Fri, 20 Nov 2026 10:00:00 +0100 (ma_ana)",
			},
			nil,
		},
		{
			"raw UTF-8 in one of several fields",
			author + "To: a@firm.example\r\nTo: Jörg <j@firm.example>\r\n" +
				"Cc: Zoë <z@firm.example>\r\nCc: b@firm.example\r\n", Rewrite,
			[]string{
				"To: a@firm.example", "X-Original-To: =?utf-8?q?J=C3=B6rg?= <j@firm.example>",
				"Cc: =?utf-8?q?Zo=C3=AB?= <z@firm.example>", "X-Original-Cc: b@firm.example",
			},
			nil,
		},
		{
			"fields that a message may have once",
			"Subject: a\r\nsubject: b\r\nSubject:\r\n c\r\nX-Note: a\r\nX-Note: b\r\n" + author +
				"Message-ID: <a@b>\r\nMessage-ID: <b@b>\r\n" +
				"Reply-To: nobody:;\r\nReply-To: a@x.example\r\nReply-To: b@x.example\r\n", Rewrite,
			[]string{
				"Subject: a", "X-Original-Subject: b", "X-Original-Subject: c", "X-Note: a", "X-Note: b",
				"Message-ID: <a@b>", "X-Original-Message-ID: <b@b>",
				"Reply-To: a@x.example", "X-Original-Reply-To: b@x.example",
			},
			[]string{
				"subject", "Subject: b", "Subject: c", "Message-ID: <b@b>", "Reply-To: nobody", "Reply-To: b@",
			},
		},
		{
			"fields about the body that a message may have once",
			author + "MIME-Version: 1.0\r\nMIME-Version: 1.1\r\nContent-Type: text/plain\r\n" +
				"Content-type: text/html\r\nContent-Transfer-Encoding: 7bit\r\n" +
				"Content-Transfer-Encoding: base64\r\n", Rewrite,
			[]string{
				"MIME-Version: 1.0", "X-Original-MIME-Version: 1.1", "Content-Type: text/plain",
				"X-Original-Content-Type: text/html", "Content-Transfer-Encoding: 7bit",
				"X-Original-Content-Transfer-Encoding: base64",
			},
			[]string{"MIME-Version: 1.1", "Content-type: text/html", "Content-Transfer-Encoding: base64"},
		},
		{
			"fields about the body without a value",
			author + "MIME-Version:\r\nMIME-Version: 1.0\r\nContent-Type: \r\nContent-Type: text/html\r\n" +
				"Content-Transfer-Encoding:\r\nContent-Transfer-Encoding: base64\r\n", Rewrite,
			[]string{"MIME-Version: 1.0", "Content-Type: text/html", "Content-Transfer-Encoding: base64"},
			[]string{"X-Original-MIME", "X-Original-Content"},
		},
		{
			"a Date and a Message-ID without a value",
			author + "Date:\r\nDate:  \r\nMessage-ID: <>\r\nMessage-ID: <a@b>\r\n", Rewrite,
			[]string{"Date: Fri, 20 Nov 2026 10:00:00 +0000", "Message-ID: <a@b>"},
			[]string{"Date: \r\n", "Date:\r\n", "Message-ID: <>", "X-Original-Date", "X-Original-Message-ID"},
		},
		{
			"raw UTF-8 that is no address",
			author + "To: 王小明\r\nCc: Müller, Jörg <jm@x.example>, Özil\r\nBcc: 收件者:;\r\n", Rewrite,
			[]string{
				"To: =?utf-8?q?=E7=8E=8B=E5=B0=8F=E6=98=8E?= :;", "Bcc: =?utf-8?b?5pS25Lu26ICFOjs=?= :;",
				"Cc: =?utf-8?b?TcO8bGxlciwgSsO2cmcgPGptQHguZXhhbXBsZT4sIMOWemls?= :;, jm@x.example",
			},
			nil,
		},
		{
			"raw UTF-8 in other fields with addresses",
			author + "Resent-From: Jörg <j@x.example>\r\nDisposition-Notification-To: Jörg <j@x.example>\r\n", Rewrite,
			[]string{
				"Resent-From: =?utf-8?q?J=C3=B6rg?= <j@x.example>",
				"Disposition-Notification-To: =?utf-8?q?J=C3=B6rg?= <j@x.example>",
			},
			nil,
		},
		{
			"raw UTF-8 in List- fields",
			author + "List-Id: Förening <lista.x.example>\r\nList-Post: <mailto:l@x.example> (för medlemmar)\r\n" +
				"List-Unsubscribe: <https://x.example/?a=ö>, <mailto:l@x.example>\r\nList-Help: hjälp\r\n", Rewrite,
			[]string{
				"List-Id: =?utf-8?q?F=C3=B6rening?= <lista.x.example>",
				"List-Post: <mailto:l@x.example> =?utf-8?q?(f=C3=B6r_medlemmar)?=",
				"List-Unsubscribe: <https://x.example/?a=%C3%B6> , <mailto:l@x.example>",
				"List-Help: =?utf-8?q?hj=C3=A4lp?=",
			},
			nil,
		},
		{
			"rewrite with a Reply-To that leads nowhere", author + "Reply-To: undisclosed:;\r\n", Rewrite,
			[]string{"Reply-To: \"Alice Example\" <alice@client.example>"},
			[]string{"Reply-To: undisclosed"},
		},
		{
			"an address only SMTPUTF8 can say", "From: Jörg <jörg@client.example>\r\n", Attach,
			[]string{"Reply-To: =?utf-8?b?SsO2cmcgasO2cmdAY2xpZW50LmV4YW1wbGU=?= :;"},
			nil,
		},
		{
			"a domain that is not ASCII", "From: j@exämple.example\r\n", Attach,
			[]string{"Reply-To: j@xn--exmple-cua.example"},
			nil,
		},
		{
			"attach",
			author + "Subject: x\r\nMessage-ID: <c@b>\r\nReferences: <a@b> <b@b>\r\nList-Id: <l.example>\r\n", Attach,
			[]string{
				`From: "Alice Example via Intake" <forwarder@example.com>`,
				"Reply-To: \"Alice Example\" <alice@client.example>", "To: office@firm.example", "Subject: Fwd: x",
				"Date: Fri, 20 Nov 2026 10:00:00 +0000", "In-Reply-To: <c@b>", "References: <a@b> <b@b> <c@b>",
				"Auto-Submitted: auto-generated", "MIME-Version: 1.0",
			},
			[]string{"List-Id", "Message-ID: <c@b>", "X-Original"},
		},
		{"attach 8-bit content", author + "\r\nGröße\r\n", Attach, []string{"Content-Transfer-Encoding: 8bit"}, nil},
		{"attach in base64", author + "X-Note: ä\r\n\r\nGröße\r\n", Attach, nil, []string{"Content-Transfer-Encoding"}},
		{"no subject, no thread", author, Attach, []string{"Subject: Fwd:"}, []string{"In-Reply-To", "References"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := parse(t, tt.raw+"\r\nbody\r\n")
			head := "\r\n" + headerOf(t, compose(t, composer(t, ComposeConfig{}), m, Style{Mode: tt.mode}))
			for _, want := range tt.want {
				if !strings.Contains(head, "\r\n"+want+"\r\n") {
					t.Errorf("want the field %q in:%s", want, head)
				}
			}
			for _, never := range tt.never {
				if strings.Contains(head, "\r\n"+never) {
					t.Errorf("want no line that starts with %q in:%s", never, head)
				}
			}
		})
	}
}

// TestMessageID: two messages, two inboxes, two kinds have different ones; what is rewritten keeps
// its own.
func TestMessageID(t *testing.T) {
	c := composer(t, ComposeConfig{})
	seen := map[string]string{}
	for name, raw := range map[string]string{"one": "Subject: 1\r\n\r\n", "other": "Subject: 2\r\n\r\n"} {
		for _, mode := range []Mode{Rewrite, Attach} {
			for _, inbox := range []string{"a@firm.example", "b@firm.example"} {
				o := origin
				o.Inbox = inbox
				out, err := c.Compose(t.Context(), parse(t, raw), o, Style{Mode: mode})
				if err != nil {
					t.Fatal(err)
				}
				_, id, _ := strings.Cut(headerOf(t, out), "\r\nMessage-ID: ")
				id, _, _ = strings.Cut(id, "\r\n")
				where := strings.Join([]string{name, string(mode), inbox}, " ")
				if !strings.HasSuffix(id, "."+string(mode)+"@example.com>") || seen[id] != "" {
					t.Errorf("%s has Message-ID %q, which %q has too; want its own", where, id, seen[id])
				}
				seen[id] = where
			}
		}
	}
}

// TestDigest: any number of tasks have different digests, and so have parts that are split
// otherwise.
func TestDigest(t *testing.T) {
	seen := map[string][]any{}
	for _, parts := range [][]any{
		{"a", int64(1)},
		{"a", int64(2_000_000)},
		{"a", int64(2_000_001)},
		{"a", int64(1) << 62},
		{"a 1"},
		{"a", 1, ""},
		{"a\" \"b"},
		{"a", "b"},
	} {
		d := digest("boundary", parts...)
		if before, ok := seen[d]; ok {
			t.Errorf("%#v and %#v have one digest, want two", before, parts)
		}
		seen[d] = parts
	}
}

func TestResent(t *testing.T) {
	const all = "Resent-Date: Fri, 20 Nov 2026 10:00:00 +0000\r\nResent-From: \"Intake\" <forwarder@example.com>\r\n"
	tests := []struct{ name, signs, want, remark string }{
		{"not signed", "", all + "Resent-Message-ID: <", ""},
		{"signed otherwise", "from:to:subject", all + "Resent-Message-ID: <", ""},
		{"the identifier is covered", "from:Resent-Message-Id", all, "without Resent-Message-ID"},
		{"the author is covered", "from:resent-from", "", "no Resent- fields: a signature covers Resent-From"},
		{"over-signed", "from:resent-date:resent-date", "", "no Resent- fields: a signature covers Resent-Date"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			raw := plain
			if tt.signs != "" {
				raw = "DKIM-Signature: v=1; h=" + tt.signs + "; b=x\r\n" + raw
			}
			c := compose(t, composer(t, ComposeConfig{}), parse(t, raw), Style{Mode: Redirect, Resent: true})
			head, whole := strings.CutSuffix(octetsOf(t, c.Reader()), raw)
			_, block, traced := strings.Cut(head, "task=7\r\n")
			exact := tt.want == "" || tt.want == all && tt.remark != ""
			if !whole || !traced || !strings.HasPrefix(block, tt.want) || exact && block != tt.want {
				t.Errorf("on top is %q, want a trace field and %q", head, tt.want)
			}
			if !strings.HasPrefix(c.Remark, tt.remark) || (tt.remark == "") != (c.Remark == "") {
				t.Errorf("Remark = %q, want %q", c.Remark, tt.remark)
			}
		})
	}
}

func TestNoSender(t *testing.T) {
	for _, from := range []string{"", "jörg@example.com"} {
		c, err := NewComposer(ComposeConfig{From: from})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Compose(t.Context(), parse(t, plain), origin, Style{Mode: Redirect}); err != nil {
			t.Errorf("From %q, redirect: %v, want it to need no address", from, err)
		}
		for _, s := range []Style{
			{Mode: Rewrite}, {Mode: Attach}, {Mode: Redirect, Resent: true}, {Mode: Redirect, Fallback: true},
		} {
			_, err := c.Compose(t.Context(), parse(t, plain), origin, s)
			if err == nil || !strings.Contains(err.Error(), "forward.from") {
				t.Errorf("From %q, %+v: %v, want an error that names forward.from", from, s, err)
			}
		}
	}
}

// TestCostOfRewriting: a header of many fields takes no more than its length.
func TestCostOfRewriting(t *testing.T) {
	c := composer(t, ComposeConfig{})
	cost := func(n int) float64 {
		m := parse(t, "From: a@client.example\r\n"+strings.Repeat("X: ä\r\nTo: ä <b@client.example>\r\n", n)+"\r\n")
		return testing.AllocsPerRun(1, func() { compose(t, c, m, Style{Mode: Rewrite}) })
	}
	if one, four := cost(100), cost(400); four > 6*one {
		t.Errorf("400 fields take %.0f allocations, and 100 fields %.0f, want about four times as many", four, one)
	}
}
