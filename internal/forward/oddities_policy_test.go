package forward

import "strings"

const rejects = "v=DMARC1; p=reject"

// oddPolicies are oddities of policies.
var oddPolicies = []oddity{
	{"p=none, and none for subdomains", withPolicy("v=DMARC1; p=none")},
	{"p=none, sp=reject, from a subdomain", func(a *sender, d string) string {
		return a.policy("v=DMARC1; p=none; sp=reject", ofAlice("mail."+d), d)
	}},
	{"p=reject, sp=none, from a subdomain", func(a *sender, d string) string {
		return a.policy("v=DMARC1; p=reject; sp=none", ofAlice("mail."+d), d)
	}},
	{"p=reject, from a subdomain two levels below", func(_ *sender, d string) string { return ofAlice("a.mail." + d) }},
	{"a subdomain's policy between", func(a *sender, d string) string {
		a.zone["_dmarc.mail."+d] = rejects
		return a.policy("v=DMARC1; p=none", ofAlice("a.mail."+d), d)
	}},
	{"a subdomain's own policy", func(a *sender, d string) string {
		a.zone["_dmarc.mail."+d] = rejects
		return a.policy("v=DMARC1; p=none", ofAlice("mail."+d), d)
	}},
	{"a subdomain's own p=none", func(a *sender, d string) string {
		a.zone["_dmarc.mail."+d] = "v=DMARC1; p=none"
		return ofAlice("mail." + d)
	}},
	{"the sp of a subdomain's own policy", func(a *sender, d string) string {
		a.zone["_dmarc.mail."+d] = "v=DMARC1; p=none; sp=reject"
		return ofAlice("mail." + d)
	}},
	{"a domain below a public suffix of two labels", func(a *sender, _ string) string {
		a.zone["_dmarc.author.co.uk"] = rejects
		a.publish("other.co.uk")
		return a.sign(ofAlice("mail.author.co.uk"), "other.co.uk")
	}},
	{"a signature of the parent, below co.uk", func(a *sender, _ string) string {
		a.zone["_dmarc.author.co.uk"] = rejects
		a.publish("author.co.uk")
		return a.sign(ofAlice("mail.author.co.uk"), "author.co.uk")
	}},
	{"a signature of a sister domain", func(a *sender, d string) string {
		a.publish("news." + d)
		return a.sign(ofAlice("mail."+d), "news."+d)
	}},
	{"adkim=S", func(a *sender, d string) string {
		return a.policy(rejects+"; adkim=S", a.sign(ofAlice(d), "mail."+d), d)
	}},
	{"adkim=strict", func(a *sender, d string) string {
		return a.policy(rejects+"; adkim=strict", a.sign(ofAlice(d), "mail."+d), d)
	}},
	{"p=Reject", withPolicy("v=DMARC1; p=Reject")},
	{"P=reject", withPolicy("v=DMARC1; P=reject")},
	{"v=dmarc1", withPolicy("v=dmarc1; p=reject")},
	{"no spaces", withPolicy("v=DMARC1;p=reject;")},
	{"spaces everywhere", withPolicy("v = DMARC1 ; p = reject ; ")},
	{"a space in front", withPolicy(" v=DMARC1; p=reject")},
	{"an empty tag", withPolicy("v=DMARC1;; p=reject")},
	{"the version is not first", withPolicy("p=reject; v=DMARC1")},
	{"commas", withPolicy("v=DMARC1, p=reject")},
	{"no separator", withPolicy("v=DMARC1 p=reject")},
	{"a backslash before the semicolon", withPolicy(`v=DMARC1\; p=reject`)},
	{"quotes around it", withPolicy(`"v=DMARC1; p=reject"`)},
	{"a later version", withPolicy("v=DMARC2; p=reject")},
	{"p is not second", withPolicy("v=DMARC1; rua=mailto:a@b.example; p=reject")},
	{"p twice, reject first", withPolicy("v=DMARC1; p=reject; p=none")},
	{"p twice, none first", withPolicy("v=DMARC1; p=none; p=reject")},
	{"an unknown policy", withPolicy("v=DMARC1; p=discard")},
	{"no policy but reports", withPolicy("v=DMARC1; rua=mailto:a@b.example")},
	{"an unknown tag", withPolicy("v=DMARC1; p=reject; np=reject; x=y")},
	{"an unknown tag without a value", withPolicy("v=DMARC1; p=reject; x")},
	{"pct=0", withPolicy("v=DMARC1; p=reject; pct=0")},
	{"two records, none first", func(a *sender, d string) string {
		a.second["_dmarc."+d] = rejects
		return a.policy("v=DMARC1; p=none", ofAlice(d), d)
	}},
	{"two records, reject first", func(a *sender, d string) string {
		a.second["_dmarc."+d] = "v=DMARC1; p=none"
		return a.policy(rejects, ofAlice(d), d)
	}},
	{"another record beside it", func(a *sender, d string) string {
		a.second["_dmarc."+d] = rejects
		return a.policy("v=spf1 -all", ofAlice(d), d)
	}},
	{"a record of two strings", func(a *sender, d string) string {
		reports := strings.Repeat("mailto:a@b.example,", 13) + "mailto:b@b.example"
		return a.policy("v=DMARC1; rua="+reports+"; p=reject", ofAlice(d), d)
	}},
}

// policy sets that of a domain, and returns the message.
func (a *sender) policy(record, raw, domain string) string {
	a.zone["_dmarc."+domain] = record
	return raw
}

// withPolicy makes a message without a signature, of a domain with that policy.
func withPolicy(record string) func(a *sender, d string) string {
	return func(a *sender, d string) string { return a.policy(record, ofAlice(d), d) }
}
