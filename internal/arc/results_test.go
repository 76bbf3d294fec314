package arc

import (
	"slices"
	"strings"
	"testing"
)

// header texts of servers, above a message.
const (
	border = "Received: from mx.client.example by mx.firm.example\r\n"
	author = "DKIM-Signature: v=1\r\nReceived: from desk by mx.client.example\r\nFrom: alice@client.example\r\n"
)

func TestTrusted(t *testing.T) {
	const (
		ours   = "Authentication-Results: mx.firm.example; "
		forged = "Authentication-Results: mx.firm.example; dmarc=pass header.from=bank.example\r\n"
	)
	spf := []string{"spf=pass"}
	tests := []struct {
		name, header string
		want         []string
		others       string
	}{
		{
			"one field, above Received",
			ours + "spf=pass smtp.mailfrom=a@client.example\r\n" + border + author,
			[]string{"spf=pass smtp.mailfrom=a@client.example"},
			"",
		},
		{
			"one field, below Received",
			"Return-Path: <a@client.example>\r\n" + border + "Received-SPF: pass\r\n" + ours + "spf=pass\r\n" + author,
			spf, "",
		},
		{
			"a field of each filter",
			"Delivered-To: x\r\nReceived: by imap\r\n" +
				ours + "dmarc=fail header.from=client.example\r\n" +
				ours + "dkim=pass header.d=client.example; dkim=fail header.d=list.example\r\n" + border + author,
			[]string{
				"dmarc=fail header.from=client.example",
				"dkim=pass header.d=client.example", "dkim=fail header.d=list.example",
			},
			"",
		},
		{
			"a method counts once, from above",
			ours + "dmarc=fail\r\n" + forged + border + author,
			[]string{"dmarc=fail"},
			"",
		},
		{"forged below Received", ours + "spf=pass\r\n" + border + forged + author, spf, ""},
		{"forged below the author's fields", border + "Subject: x\r\n" + forged + author, nil, ""},
		{"forged below the author's signature", border + "DKIM-Signature: v=1\r\n" + forged + author, nil, ""},
		{
			"the topmost one is of another server",
			"Authentication-Results: imap.other.example; none\r\n" + forged + border + author, nil,
			`; the results of "imap.other.example" are not used, because arc.trust does not name it`,
		},
		{
			"another server, below the trusted one",
			ours + "spf=pass\r\nAuthentication-Results: other.example; dmarc=pass\r\n" + forged + border + author,
			spf, "",
		},
		{
			"without a server, as of Exchange",
			"Authentication-Results: spf=pass (sender IP is 192.0.2.1) smtp.mailfrom=client.example; " +
				"dmarc=pass\r\n" + author, nil,
			`; the results of "spf=pass smtp.mailfrom=client.example" are not used, because arc.trust does not name it`,
		},
		{"none", border + author, nil, ""},
		{"no result", "Authentication-Results: mx.firm.example 1; none\r\n" + border + author, nil, ""},
		{
			"the server in another case, with a version",
			"Authentication-Results: MX.Firm.example 1; spf=pass\r\n" + border + author, spf, "",
		},
		{
			"the server in quotes, and a comment",
			"Authentication-Results: (a; \\) b) \"mx.firm.example\" (c (d)); spf=pass\r\n" + border + author,
			spf, "",
		},
		{
			"another version",
			"Authentication-Results: mx.firm.example 2; spf=pass\r\n" + border + author, nil,
			`; the results of "mx.firm.example 2" are not used, because arc.trust does not name it`,
		},
		{
			"a comment without an end",
			ours + "spf=pass (x\r\n" + border + author, nil,
			"; the results of its server are not used, because they cannot be read",
		},
		{
			"another result for arc, which is ours to say",
			ours + "arc=fail; spf=pass\r\n" + border + author, spf, "",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fields, _ := parsed(t, tt.header+"\r\nx\r\n")
			got, others := trusted(fields, []string{"mx.firm.example"})
			if !slices.Equal(got, tt.want) || others != tt.others {
				t.Errorf("trusted = %q, %q, want %q, %q", got, others, tt.want, tt.others)
			}
		})
	}
	many, _ := parsed(t, "Authentication-Results: mx.firm.example"+
		strings.Repeat("; dkim=pass", 2*maxResults)+"\r\n"+author+"\r\n")
	if got, _ := trusted(many, []string{"mx.firm.example"}); len(got) != maxResults {
		t.Errorf("of many results %d are taken, want %d", len(got), maxResults)
	}
	if got, _ := trusted(nil, nil); len(got) > 0 {
		t.Errorf("without a header trusted = %q, want none", got)
	}
}

func TestParseResults(t *testing.T) {
	long := "x=pass y.z=" + strings.Repeat("a", maxResult)
	tests := []struct {
		value string
		want  []string
	}{
		{
			"m; dkim=pass (1024-bit key; insecure) header.i=@client.example header.s=s header.b=ab+c/d",
			[]string{"dkim=pass header.i=@client.example header.s=s header.b=ab+c/d"},
		},
		{
			"m;\r\n\tspf = pass\r\n\tsmtp.mailfrom = a=b@client.example ;\r\n",
			[]string{"spf=pass smtp.mailfrom=a=b@client.example"},
		},
		{
			`m; spf=pass reason="good; (very)  good" smtp.helo=x`,
			[]string{`spf=pass reason="good; (very)  good" smtp.helo=x`},
		},
		{`m; spf=pass smtp.mailfrom="a b"@x.example; dmarc=pass`, []string{"dmarc=pass"}},
		{`m; spf=pass reason="a\"b"; dmarc=pass`, []string{"dmarc=pass"}},
		{"m; dkim/1=fail; auth=pass smtp.auth=x", []string{"dkim/1=fail", "auth=pass smtp.auth=x"}},
		{"m; spf=pass smtp.mailfrom=zażółć@x.example; dmarc=pass", []string{"dmarc=pass"}},
		{"m; " + long + "; dmarc=pass", []string{"dmarc=pass"}},
		{
			"m; spf; =pass; spf=; pass spf=pass; dmarc=pass action=none header.from=x",
			[]string{"dmarc=pass action=none header.from=x"},
		},
		{"m; spf=pass\r\nX-Forged: y; dmarc=pass", []string{"dmarc=pass"}},
	}
	for _, tt := range tests {
		if server, got, ok := parseResults(tt.value); !ok || server != "m" || !slices.Equal(got, tt.want) {
			t.Errorf("parseResults(%q) = %q, %q, want m, %q", tt.value, server, got, tt.want)
		}
	}
}
