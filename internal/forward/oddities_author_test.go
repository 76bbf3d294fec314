package forward

import "strings"

// oddAuthors are oddities of the From field.
var oddAuthors = []oddity{
	{"another address in the name", func(a *sender, d string) string {
		return from(`"bob@` + d + `" <alice@open.example>`)
	}},
	{"another address in the name, encoded", func(a *sender, d string) string {
		return from(`=?utf-8?q?bob=40` + d + `?= <alice@open.example>`)
	}},
	{"another address in the name, without quotes", func(a *sender, d string) string {
		return from(`bob@` + d + ` <alice@open.example>`)
	}},
	{"another address in angle brackets in the name", func(a *sender, d string) string {
		return from(`"<bob@` + d + `>" <alice@open.example>`)
	}},
	{"another address in a comment", func(a *sender, d string) string {
		return from(`alice@open.example (bob@` + d + `)`)
	}},
	{"another address in a comment before", func(a *sender, d string) string {
		return from(`(bob@` + d + `) alice@open.example`)
	}},
	{"a comment in the domain", func(a *sender, d string) string { return from(`alice@open.example(.` + d + `)`) }},
	{"two authors", func(a *sender, d string) string { return from(`alice@open.example, bob@` + d) }},
	{"two authors, the other first", func(a *sender, d string) string {
		return from(`bob@` + d + `, alice@open.example`)
	}},
	{"a group", func(a *sender, d string) string { return from(`Staff: alice@open.example, bob@` + d + `;`) }},
	{"a group of one", func(_ *sender, d string) string { return from(`Staff: bob@` + d + `;`) }},
	{"a route", func(a *sender, d string) string { return from(`<@` + d + `:alice@open.example>`) }},
	{"a quoted local part", func(a *sender, d string) string { return from(`"bob@` + d + `"@open.example`) }},
	{"two From fields", func(a *sender, d string) string { return "From: alice@open.example\r\n" + ofAlice(d) }},
	{"two From fields, the other first", func(a *sender, d string) string {
		return strings.Replace(ofAlice(d), "To:", "From: alice@open.example\r\nTo:", 1)
	}},
	{"no From field", func(_ *sender, d string) string { return strings.Replace(ofAlice(d), "From:", "X-From:", 1) }},
	{"Sender of the policy's domain", func(a *sender, d string) string {
		return "Sender: bob@" + d + "\r\n" + ofAlice("open.example")
	}},
	{"a folded From", func(_ *sender, d string) string { return from("Alice\r\n <alice@" + d + ">") }},
	{"a dot at the end of the domain", func(_ *sender, d string) string { return from("alice@" + d + ".") }},
	{"spaces around the @", func(_ *sender, d string) string { return from("alice @ " + d) }},
	{"an internationalized domain", func(a *sender, _ string) string {
		a.zone["_dmarc.xn--bcher-kva.example"] = rejects
		return ofAlice("bücher.example")
	}},
	{"an internationalized domain as ASCII", func(a *sender, _ string) string {
		a.zone["_dmarc.xn--bcher-kva.example"] = rejects
		return ofAlice("xn--bcher-kva.example")
	}},
	{"a name that is not UTF-8", func(_ *sender, d string) string { return from("J\xf6rg <joerg@" + d + ">") }},
	{"From with a NUL in an encoded word", func(_ *sender, d string) string {
		return from("=?utf-8?q?a=00b?= <alice@" + d + ">")
	}},
	{"a space before the colon of From", func(_ *sender, d string) string {
		return strings.Replace(ofAlice(d), "From:", "From :", 1)
	}},
}
