package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

func TestWeb(t *testing.T) {
	path := write(t, minimal+
		"web: {users: web-users, operators: [anna, ben], tls: {cert: /etc/page.pem, key: key.pem}}\n")
	c, err := loadFile(path, variables("POSTRIDER_WEB_USERS", "others"))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(path)
	if c.Web.Users != filepath.Join(dir, "others") || c.Web.TLS.Key != filepath.Join(dir, "key.pem") ||
		c.Web.TLS.Cert != "/etc/page.pem" || len(c.Web.Operators) != 2 {
		t.Errorf("web is %+v, want paths relative to the file, and the environment's users", c.Web)
	}
	const from = `[192.0.2.7, 10.1.2.3/8, "::ffff:192.0.2.8", "2001:db8::1"]`
	c = load(t, minimal+"web: {proxy: {from: "+from+", user_header: X-Remote-User}}\n")
	if got := fmt.Sprint(c.Web.Proxy.Networks()); got != "[192.0.2.7/32 10.0.0.0/8 192.0.2.8/32 2001:db8::1/128]" {
		t.Errorf("the networks of the proxy are %s", got)
	}
}

func TestWebErrors(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{
			"no key", "web: {tls: {cert: page.pem}}",
			"web.tls: needs both: cert, a file with the certificate, and key, a file with its key",
		},
		{
			"a misspelt key", "web: {tls: {cert: page.pem, kee: x}}",
			"web.tls.kee: unknown key; did you mean web.tls.key?",
		},
		{"no header", "web: {proxy: {from: 10.0.0.0/8}}", "web.proxy: needs both: from, "},
		{
			"no network", "web: {proxy: {from: [10.0.0.0/8, proxy.example], user_header: X-User}}",
			`web.proxy.from[1]: "proxy.example" is not a network; ` +
				"write an address or a network, such as 192.0.2.7 or 10.0.0.0/8",
		},
		{
			"no header's name", `web: {proxy: {from: 10.0.0.0/8, user_header: "X User"}}`,
			`web.proxy.user_header: "X User" is not a header`,
		},
		{"nobody", `web: {operators: [""]}`, "web.operators[0]: is empty; name a user, or * for all users"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := loadErrors(t, write(t, strings.TrimPrefix(minimal, "\n")+tt.text+"\n"), variables())
			if !strings.Contains(got, tt.want) || strings.Count(got, "\n") > 1 {
				t.Errorf("the errors are\n%s\nwant one line with\n%s", got, tt.want)
			}
		})
	}
}
