package forward

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	msgauth "github.com/emersion/go-msgauth/dkim"
)

// oddity is what authors send, or publish, seldom. It has a domain of its own, d, with keys and
// the policy to reject what does not pass; those that have another one set it.
type oddity struct {
	name string
	made func(a *sender, d string) string
}

var oddities = slices.Concat(oddSignatures, oddPolicies, oddAuthors)

// oddSignatures are oddities of keys and signatures.
var oddSignatures = []oddity{
	{"a key in test mode", func(a *sender, d string) string { a.key(d, "t=y; "); return a.sign(ofAlice(d), d) }},
	{"a key for exactly the domain", func(a *sender, d string) string {
		a.key(d, "t=s; ")
		return a.sign(ofAlice(d), d, func(o *msgauth.SignOptions) { o.Identifier = "@mail." + d })
	}},
	{"a key for other services", func(a *sender, d string) string {
		a.key(d, "s=other; ")
		return a.sign(ofAlice(d), d)
	}},
	{"a key for SHA-1", func(a *sender, d string) string { a.key(d, "h=sha1; "); return a.sign(ofAlice(d), d) }},
	{"a key with flags in capitals", func(a *sender, d string) string {
		a.key(d, "t=Y; ")
		return a.sign(ofAlice(d), d)
	}},
	{"a key with a note", func(a *sender, d string) string {
		a.key(d, "n=a note; g=*; ")
		return a.sign(ofAlice(d), d)
	}},
	{"a key without its version", func(a *sender, d string) string {
		a.zone["rsa._domainkey."+d] = strings.TrimPrefix(a.zone["rsa._domainkey."+d], "v=DKIM1; ")
		return a.sign(ofAlice(d), d)
	}},
	{"a key with its version last", func(a *sender, d string) string {
		a.zone["rsa._domainkey."+d] = strings.TrimPrefix(a.zone["rsa._domainkey."+d], "v=DKIM1; ") + "; v=DKIM1"
		return a.sign(ofAlice(d), d)
	}},
	{"a key of a later version", func(a *sender, d string) string {
		a.zone["rsa._domainkey."+d] = strings.Replace(a.zone["rsa._domainkey."+d], "DKIM1", "DKIM2", 1)
		return a.sign(ofAlice(d), d)
	}},
	{"a revoked key", func(a *sender, d string) string {
		a.zone["rsa._domainkey."+d] = "v=DKIM1; k=rsa; p="
		return a.sign(ofAlice(d), d)
	}},
	{"two keys under one name, the first of another", func(a *sender, d string) string {
		name := "rsa._domainkey." + d
		a.second[name], a.zone[name] = a.zone[name], a.record(a.weak(2048))
		return a.sign(ofAlice(d), d)
	}},
	{"two keys under one name, the second of another", func(a *sender, d string) string {
		a.second["rsa._domainkey."+d] = a.record(a.weak(2048))
		return a.sign(ofAlice(d), d)
	}},
	{"a key of 1024 bits", func(a *sender, d string) string { return a.signWeak(d, 1024) }},
	{"a key of 4096 bits", func(a *sender, d string) string { return a.signWeak(d, 4096) }},
	{"a key without its ASN.1 frame", func(a *sender, d string) string {
		key := a.weak(2048)
		der := x509.MarshalPKCS1PublicKey(&key.PublicKey)
		a.zone["weak._domainkey."+d] = "v=DKIM1; p=" + base64.StdEncoding.EncodeToString(der)
		return a.sign(ofAlice(d), d, func(o *msgauth.SignOptions) { o.Selector, o.Signer = "weak", key })
	}},
	{"an expired signature", func(a *sender, d string) string {
		return a.sign(ofAlice(d), d, func(o *msgauth.SignOptions) { o.Expiration = time.Now().Add(-time.Hour) })
	}},
	{"simple canonicalization", func(a *sender, d string) string {
		return a.simple(ofAlice(d), d)
	}},
	{"simple canonicalization, odd white space", func(a *sender, d string) string {
		return a.simple(oddSpace(d)+"\r\n \r\n\r\n", d)
	}},
	{"relaxed canonicalization, odd white space", func(a *sender, d string) string {
		return a.sign(oddSpace(d)+" \t\r\n \r\n\r\n", d)
	}},
	{"a space before the colon, simple", func(a *sender, d string) string {
		return a.sign(strings.Replace(ofAlice(d), "Subject:", "Subject :", 1), d, simpleHeader)
	}},
	{"simple: a tab after the colon", func(a *sender, d string) string {
		return a.simple(strings.Replace(ofAlice(d), "Subject: the", "Subject:\tthe", 1), d)
	}},
	{"simple: two spaces after the colon", func(a *sender, d string) string {
		return a.simple(strings.Replace(ofAlice(d), "Subject: the", "Subject:  the", 1), d)
	}},
	{"simple: no space after the colon", func(a *sender, d string) string {
		return a.simple(strings.Replace(ofAlice(d), "Subject: the", "Subject:the", 1), d)
	}},
	{"simple: a name in capitals", func(a *sender, d string) string {
		return a.simple(strings.Replace(ofAlice(d), "Subject: the", "SUBJECT: the", 1), d)
	}},
	{"simple: a name in odd case, folded", func(a *sender, d string) string {
		return a.simple(strings.Replace(ofAlice(d), "Subject: the", "Subject: the\r\n\t", 1), d)
	}},
	{"simple: a fold right after the colon", func(a *sender, d string) string {
		return a.simple(strings.Replace(ofAlice(d), "Subject: the", "Subject:\r\n the", 1), d)
	}},
	{"simple: odd white space in a fold", func(a *sender, d string) string {
		return a.simple(strings.Replace(ofAlice(d), "Subject: the", "Subject: the \t\r\n  \t ", 1), d)
	}},
	{"simple: white space within", func(a *sender, d string) string {
		return a.simple(strings.Replace(ofAlice(d), "Subject: the", "Subject: the  \t ", 1), d)
	}},
	{"simple: white space at the end of a field", func(a *sender, d string) string {
		return a.simple(strings.Replace(ofAlice(d), "Monday\r\n", "Monday \t\r\n", 1), d)
	}},
	{"simple: white space in the body", func(a *sender, d string) string {
		return a.simple(ofAlice(d)+" \t x \r\n \r\n\r\n", d)
	}},
	{"simple: an empty field", func(a *sender, d string) string {
		return a.simple(strings.Replace(ofAlice(d), "Subject: the hearing on Monday", "Subject:", 1), d)
	}},
	{"simple: an empty field with a space", func(a *sender, d string) string {
		return a.simple(strings.Replace(ofAlice(d), "Subject: the hearing on Monday", "Subject: ", 1), d)
	}},
	{"two To fields, signed once", func(a *sender, d string) string {
		return "To: a@b.example\r\n" + a.sign(ofAlice(d), d)
	}},
	{"two To fields, both signed", func(a *sender, d string) string {
		return a.sign("To: a@b.example\r\n"+ofAlice(d), d, over(usual+":To"))
	}},
	{"two Content-Type fields, signed once", func(a *sender, d string) string {
		return "Content-Type: text/plain\r\n" + a.sign(ofAlice(d), d)
	}},
	{"two Message-ID fields, signed once", func(a *sender, d string) string {
		return "Message-ID: <a@b>\r\n" + a.sign(ofAlice(d), d)
	}},
	{"two MIME-Version fields, signed once", func(a *sender, d string) string {
		return "MIME-Version: 1.0\r\n" + a.sign(ofAlice(d), d)
	}},
	{"two References fields, signed once", func(a *sender, d string) string {
		return "References: <a@b>\r\n" + a.sign("References: <b@b>\r\n"+ofAlice(d), d, over(usual+":References"))
	}},
	{"two List-Id fields, signed once", func(a *sender, d string) string {
		return "List-Id: <a.b>\r\n" + a.sign("List-Id: <b.b>\r\n"+ofAlice(d), d, over(usual+":List-Id"))
	}},
	{"two Subject fields, none signed", func(a *sender, d string) string {
		return "Subject: another\r\n" + a.sign(ofAlice(d), d, over("From:To:Date"))
	}},
	{"two Received fields, signed once", func(a *sender, d string) string {
		raw := "Received: from a by b; Fri, 20 Nov 2026 10:00:00 +0000\r\n" + ofAlice(d)
		return "Received: from a by b; Fri, 20 Nov 2026 10:00:01 +0000\r\n" + a.sign(raw, d, over(usual+":Received"))
	}},
	{"a signature without s= on top", func(a *sender, d string) string {
		return a.broken(d, "v=1; a=rsa-sha256; d=service.example; h=from; b=YQ==; bh=YQ==")
	}},
	{"a signature without b= on top", func(a *sender, d string) string {
		return a.broken(d, "v=1; a=rsa-sha256; d=service.example; s=rsa; h=from; bh=YQ==")
	}},
	{"a signature with an empty b= on top", func(a *sender, d string) string {
		return a.broken(d, "v=1; a=rsa-sha256; d=service.example; s=rsa; h=from; b=; bh=YQ==")
	}},
	{"a signature without a version on top", func(a *sender, d string) string {
		return a.broken(d, "a=rsa-sha256; d=service.example; s=rsa; h=from; b=YQ==; bh=YQ==")
	}},
	{"a signature with another i= on top", func(a *sender, d string) string {
		return a.broken(d, "v=1; a=rsa-sha256; d=service.example; i=@other.example; s=rsa; h=from; b=YQ==; bh=YQ==")
	}},
	{"a signature that omits From on top", func(a *sender, d string) string {
		return a.broken(d, "v=1; a=rsa-sha256; d=service.example; s=rsa; h=to; b=YQ==; bh=YQ==")
	}},
	{"a signature with a bad t= on top", func(a *sender, d string) string {
		return a.broken(d, "v=1; a=rsa-sha256; d=service.example; s=rsa; t=now; h=from; b=YQ==; bh=YQ==")
	}},
	{"a signature of an unknown algorithm on top", func(a *sender, d string) string {
		return a.broken(d, "v=1; a=rsa-sha999; d=service.example; s=rsa; h=from; b=YQ==; bh=YQ==")
	}},
	{"a signature of an unknown canonicalization on top", func(a *sender, d string) string {
		return a.broken(d, "v=1; a=rsa-sha256; c=x/y; d=service.example; s=rsa; h=from; b=YQ==; bh=YQ==")
	}},
	{"a signature with an unknown tag on top", func(a *sender, d string) string {
		return a.broken(d, "v=1; a=rsa-sha256; x-y=1; d=service.example; s=rsa; h=from; b=YQ==; bh=YQ==")
	}},
	{"a signature with a tag twice on top", func(a *sender, d string) string {
		return a.broken(d, "v=1; a=rsa-sha256; d=service.example; d=service.example; s=rsa; h=from; b=YQ==; bh=YQ==")
	}},
	{"a signature with a tag without value on top", func(a *sender, d string) string {
		return a.broken(d, "v=1; a=rsa-sha256; d; s=rsa; h=from; b=YQ==; bh=YQ==")
	}},
	{"a signature that ends with ;; on top", func(a *sender, d string) string {
		return a.broken(d, "v=1; a=rsa-sha256; d=service.example; s=rsa; h=from; b=YQ==; bh=YQ==;;")
	}},
	{"a signature with 8-bit octets on top", func(a *sender, d string) string {
		return a.broken(d, "v=1; a=rsa-sha256; d=\xfc.example; s=rsa; h=from; b=YQ==; bh=YQ==")
	}},
	{"a signature with x= before t= on top", func(a *sender, d string) string {
		return a.broken(d, "v=1; a=rsa-sha256; t=1700000001; x=1700000000; d=service.example; s=rsa; "+
			"h=from; b=YQ==; bh=YQ==")
	}},
	{"a signature with q=x on top", func(a *sender, d string) string {
		return a.broken(d, "v=1; a=rsa-sha256; q=x; d=service.example; s=rsa; h=from; b=YQ==; bh=YQ==")
	}},
	{"a signature with bad base64 on top", func(a *sender, d string) string {
		return a.broken(d, "v=1; a=rsa-sha256; d=service.example; s=rsa; h=from; b=%%; bh=%%")
	}},
	{"nonsense below", func(a *sender, d string) string {
		return strings.Replace(a.sign(ofAlice(d), d), "\r\nFrom: ", "\r\nDKIM-Signature: nonsense\r\nFrom: ", 1)
	}},
	{"an empty signature on top", func(a *sender, d string) string { return a.broken(d, "") }},
	{"a mangled signature on top", func(a *sender, d string) string {
		return "X-DKIM-Signature: nonsense\r\n" + a.sign(ofAlice(d), d)
	}},
	{"no body", func(a *sender, d string) string { return a.sign(strings.SplitAfter(ofAlice(d), "\r\n\r\n")[0], d) }},
	{"no body, simple", func(a *sender, d string) string {
		return a.sign(strings.SplitAfter(ofAlice(d), "\r\n\r\n")[0], d, simpleBody)
	}},
	{"a last line without its end", func(a *sender, d string) string {
		return strings.TrimSuffix(a.sign(ofAlice(d), d), "\r\n")
	}},
	{"empty lines at the end", func(a *sender, d string) string { return a.sign(ofAlice(d)+"\r\n\r\n\r\n", d) }},
	{"8-bit content", func(a *sender, d string) string {
		const eight = "utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\nZażółć "
		return a.sign(strings.Replace(ofAlice(d), "us-ascii\r\n\r\n", eight, 1), d)
	}},
	{"a signed 8-bit header", func(a *sender, d string) string {
		return a.sign(strings.Replace(ofAlice(d), "hearing", "Anhörung", 1), d)
	}},
	{"a signed 8-bit header, not UTF-8", func(a *sender, d string) string {
		return a.sign(strings.Replace(ofAlice(d), "hearing", "Anh\xf6rung", 1), d)
	}},
	{"a mbox line on top", func(a *sender, d string) string {
		return "From alice Fri Nov 20 10:00:00 2026\r\n" + a.sign(ofAlice(d), d)
	}},
	{"a line that is no field", func(a *sender, d string) string {
		return strings.Replace(a.sign(ofAlice(d), d), "Subject:", "junk\r\nSubject:", 1)
	}},
	{"over-signed twice", func(a *sender, d string) string {
		return a.sign(ofAlice(d), d, over(usual+":"+usual+":"+usual))
	}},
	{"the trace field is signed", func(a *sender, d string) string {
		return a.sign(ofAlice(d), d, over(usual+":"+traceField))
	}},
	{"Received is over-signed", func(a *sender, d string) string {
		return a.sign(ofAlice(d), d, over(usual+":Received"))
	}},
	{"Authentication-Results is over-signed", func(a *sender, d string) string {
		return a.sign(ofAlice(d), d, over(usual+":Authentication-Results"))
	}},
	{"To is not signed and there is none", func(a *sender, d string) string {
		return a.sign(strings.Replace(ofAlice(d), "To: office@firm.example\r\n", "", 1), d)
	}},
	{"two Subject fields, the lower one signed", func(a *sender, d string) string {
		return "Subject: another\r\n" + a.sign(ofAlice(d), d)
	}},
	{"a domain in capitals", func(a *sender, d string) string { return a.sign(ofAlice(strings.ToUpper(d)), d) }},
	{"a signer in capitals", func(a *sender, d string) string { return a.sign(ofAlice(d), strings.ToUpper(d)) }},
	{"the fourth signature is the domain's", func(a *sender, d string) string {
		return a.services(a.sign(ofAlice(d), d), 3)
	}},
	{"the third signature is the domain's", func(a *sender, d string) string {
		return a.services(a.sign(ofAlice(d), d), 2)
	}},
	{"the sixth signature is the domain's", func(a *sender, d string) string {
		return a.services(a.sign(ofAlice(d), d), 5)
	}},
	{"a broken signature above a valid one", func(a *sender, d string) string {
		signed := a.sign(a.sign(ofAlice(d), d), d, over("From:X-Note"))
		return strings.Replace(signed, "\r\nFrom: ", "\r\nX-Note: new\r\nFrom: ", 1)
	}},
	{"a valid signature above a broken one", func(a *sender, d string) string {
		return a.sign(strings.Replace(a.sign(ofAlice(d), d), "at ten", "at two", 1), d)
	}},
	{"a signature field that cannot be read on top", func(a *sender, d string) string {
		return "DKIM-Signature: nonsense\r\n" + a.sign(ofAlice(d), d)
	}},
	{"a signature of a later version on top", func(a *sender, d string) string {
		return "DKIM-Signature: v=2; a=x; d=" + d + "; s=y; h=from; b=; bh=\r\n" + a.sign(ofAlice(d), d)
	}},
}

func simpleHeader(o *msgauth.SignOptions) { o.HeaderCanonicalization = msgauth.CanonicalizationSimple }

func simpleBody(o *msgauth.SignOptions) { o.BodyCanonicalization = msgauth.CanonicalizationSimple }

// simple signs every space.
func (a *sender) simple(raw, domain string) string {
	return a.sign(raw, domain, simpleHeader, simpleBody)
}

// oddSpace is a message with a Subject that only relaxed canonicalization makes usual.
func oddSpace(domain string) string {
	return strings.Replace(ofAlice(domain), "Subject: the hearing", "SUBJECT:\tthe  \r\n \thearing ", 1)
}

// broken is a message with a valid signature, and a field on top that is none.
func (a *sender) broken(domain, value string) string {
	return "DKIM-Signature: " + value + "\r\n" + a.sign(ofAlice(domain), domain)
}

// key changes the record of a domain's RSA key.
func (a *sender) key(domain, tags string) {
	name := "rsa._domainkey." + domain
	a.zone[name] = strings.Replace(a.zone[name], "k=rsa; ", "k=rsa; "+tags, 1)
}

// services puts n signatures of mail services on top.
func (a *sender) services(raw string, n int) string {
	for range n {
		raw = a.sign(raw, "service.example")
	}
	return raw
}

func (a *sender) weak(bits int) *rsa.PrivateKey {
	a.t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

func (a *sender) record(key *rsa.PrivateKey) string {
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		a.t.Fatal(err)
	}
	return "v=DKIM1; k=rsa; p=" + base64.StdEncoding.EncodeToString(der)
}

// signWeak signs with a key of that size.
func (a *sender) signWeak(domain string, bits int) string {
	key := a.weak(bits)
	a.zone["weak._domainkey."+domain] = a.record(key)
	return a.sign(ofAlice(domain), domain, func(o *msgauth.SignOptions) { o.Selector, o.Signer = "weak", key })
}
