package account_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"postrider/internal/account"
)

const servers = `<?xml version="1.0" encoding="UTF-8"?>
<clientConfig version="1.1"><emailProvider id="example.com">
<incomingServer type="pop3"><hostname>pop.example.com</hostname>` +
	`<port>995</port><socketType>SSL</socketType></incomingServer>
%s
</emailProvider></clientConfig>`

func imap(host, port, socket, user string) string {
	return fmt.Sprintf(`<incomingServer type="imap"><hostname>%s</hostname><port>%s</port>`+
		`<socketType>%s</socketType><username>%s</username></incomingServer>`, host, port, socket, user)
}

func TestAutoconfig(t *testing.T) {
	const first, second = "https://" + autoconfig, "https://" + wellKnown
	const noServer = "it names no IMAP server with TLS"
	local := is("imap.example.com", 993, "tls", first)
	local.LocalPart = true
	for _, tt := range []struct {
		name  string
		serve http.HandlerFunc
		want  account.Found
		fault string
	}{
		{
			name: "TLS before STARTTLS",
			serve: says(imap("imap.example.com", "143", "STARTTLS", "%EMAILADDRESS%") +
				imap("imap.%EMAILDOMAIN%", "993", "SSL", "%EMAILADDRESS%")),
			want: is("imap.example.com", 993, "tls", first),
		},
		{
			name:  "STARTTLS",
			serve: says(imap("imap.elsewhere.example", "143", "STARTTLS", "")),
			want:  is("imap.elsewhere.example", 143, "starttls", first),
		},
		{name: "the local part", serve: says(imap("imap.example.com", "993", "SSL", "%EMAILLOCALPART%")), want: local},
		{
			name: "in Latin-1", want: is("imap.example.com", 993, "tls", first),
			serve: func(w http.ResponseWriter, _ *http.Request) {
				latin1 := strings.Replace(servers, "UTF-8", "ISO-8859-1", 1)
				name := "<displayName>B\xfcro</displayName>"
				_, _ = fmt.Fprintf(w, latin1, name+imap("imap.example.com", "993", "SSL", ""))
			},
		},
		{
			name:  "unencrypted",
			serve: says(imap("imap.example.com", "143", "plain", "")),
			fault: first + ": " + noServer,
		},
		{name: "port 0", serve: says(imap("imap.example.com", "0", "SSL", "")), fault: noServer},
		{name: "an odd host", serve: says(imap("imap.example.com/x y", "993", "SSL", "")), fault: noServer},
		{
			name: "only the second address", want: is("imap.example.com", 993, "tls", second),
			serve: func(w http.ResponseWriter, r *http.Request) {
				if r.Host != "example.com" {
					http.NotFound(w, r)
					return
				}
				says(imap("imap.example.com", "993", "SSL", ""))(w, r)
			},
		},
		{name: "404", serve: http.NotFound, fault: first + ": HTTP status 404"},
		{
			name: "a page", fault: "it is no configuration: ",
			serve: func(w http.ResponseWriter, _ *http.Request) {
				_, _ = fmt.Fprint(w, "<!DOCTYPE html><html><body>Hello</body></html>")
			},
		},
		{
			name: "entities", fault: "it is no configuration: ",
			serve: func(w http.ResponseWriter, _ *http.Request) {
				const entity = `<!DOCTYPE x [<!ENTITY h "imap.example.com">]>`
				config := servers[strings.Index(servers, "<clientConfig"):]
				_, _ = fmt.Fprintf(w, entity+config, imap("&h;", "993", "SSL", ""))
			},
		},
		{
			name: "a huge document", fault: "the document is larger than 64 KiB",
			serve: func(w http.ResponseWriter, _ *http.Request) {
				line := strings.Repeat(" ", 1<<10)
				for range 10 << 10 {
					if _, err := fmt.Fprintln(w, line); err != nil {
						return
					}
				}
			},
		},
		{
			name: "to HTTP", fault: "it redirects to an address without HTTPS",
			serve: func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://example.com/x", http.StatusFound)
			},
		},
		{
			name: "to another domain", fault: `it redirects to another domain, "www.example.org"`,
			serve: func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "https://www.example.org/x", http.StatusFound)
			},
		},
		{
			name: "in a circle", fault: "it redirects more than three times",
			serve: func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "https://www.example.com/x", http.StatusFound)
			},
		},
		{
			name: "within the domain", want: is("imap.example.com", 993, "tls", first),
			serve: func(w http.ResponseWriter, r *http.Request) {
				if r.Host != "www.example.com" {
					http.Redirect(w, r, "https://www.example.com/x", http.StatusFound)
					return
				}
				says(imap("imap.example.com", "993", "SSL", ""))(w, r)
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			newPlace(t, tt.serve).wants(t, "example.com", tt.want, "", tt.fault)
		})
	}
}

func says(list string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintf(w, servers, list) }
}
