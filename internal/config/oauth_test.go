package config

import (
	"strings"
	"testing"

	"postrider/internal/oauth"
)

const oauthMinimal = `
smtp: {host: smtp.example.com}
forward: {from: a@x.example}
routes: [{name: all, match: {}, to: desk@firm.example}]
`

func TestOAuth(t *testing.T) {
	t.Setenv("MS_SECRET", "s")
	c, err := loadFile(write(t, oauthMinimal+`
oauth:
  microsoft: {client_id: abc, tenant: firm.example, client_secret: env:MS_SECRET, flow: application}
  helper: {token_command: [oama, access, "{account}"]}
`), variables())
	if err != nil {
		t.Fatal(err)
	}
	app := c.Apps["microsoft"]
	if app.ClientSecret != "s" || app.Tenant != "firm.example" || app.Way() != oauth.Application {
		t.Errorf("the application is %s %s; want one that acts for itself", app.Name, app.Way())
	}
}

func TestOAuthErrors(t *testing.T) {
	const google = "oauth: {google: {client_id: x, client_secret: y"
	for _, tt := range []struct{ name, text, want string }{
		{
			"no client", "oauth: {microsoft: {tenant: x}}",
			"oauth.microsoft.client_id: is missing; register an application",
		},
		{
			"unknown provider", "oauth: {corp: {client_id: x}}",
			"oauth.corp.issuer: is missing; only microsoft and google are built in",
		},
		{
			"issuer of google", google + ", issuer: https://x.example}}",
			"oauth.google.issuer: is built in for google",
		},
		{
			"no https", "oauth: {corp: {client_id: x, issuer: http://x.example}}",
			`oauth.corp.issuer: "http://x.example" is not an https URL`,
		},
		{
			"wrong flow", "oauth: {microsoft: {client_id: x, flow: magic}}",
			`oauth.microsoft.flow: "magic" is not one of device, browser, application`,
		},
		{
			"google's devices", google + ", flow: device}}",
			"oauth.google.flow: device cannot be used, because Google gives it no permission for mail",
		},
		{
			"no secret", "oauth: {microsoft: {client_id: x, tenant: x, flow: application}}",
			"oauth.microsoft.client_secret: is missing",
		},
		{
			"no tenant", "oauth: {microsoft: {client_id: x, client_secret: y, flow: application}}",
			"oauth.microsoft.tenant: is missing",
		},
		{"tenant", google + ", tenant: y}}", "oauth.google.tenant: is for microsoft alone"},
		{
			"key", "oauth: {google: {service_account: xyzzy}}",
			"oauth.google.service_account: cannot be used: it is not JSON",
		},
		{
			"no key file", "oauth: {corp: {service_account: file:none.json}}",
			"oauth.corp.service_account: read a secret: there is no file ",
		},
		{
			"no command", "oauth: {corp: {token_command: []}}",
			"oauth.corp.token_command: is empty; give a program and its arguments",
		},
		{
			"command and client", "oauth: {corp: {token_command: [tok.sh], client_id: x}}",
			"oauth.corp.client_id: is not used with service_account or token_command; remove it",
		},
		{
			"command and secret", "oauth: {corp: {token_command: [tok.sh], client_secret: xyzzy}}",
			"oauth.corp.client_secret: is not used with",
		},
		{
			"google's secret", "oauth: {google: {client_id: x}}",
			"oauth.google.client_secret: is missing; Google shows it with the client_id",
		},
		{
			"no tenant's name", "oauth: {microsoft: {client_id: x, tenant: a/b}}",
			`oauth.microsoft.tenant: "a/b" is not a tenant; give the organization's domain or ID`,
		},
		{
			"name", "oauth: {My App: {client_id: x, issuer: https://x.example}}",
			"oauth.My App: is not a valid name",
		},
		{
			"unknown key", "oauth: {google: {client_idd: x, client_id: x, client_secret: y}}",
			"oauth.google.client_idd: unknown key; did you mean oauth.google.client_id?",
		},
		{
			"the relay's, unknown", "smtp: {host: h, auth: oauth, oauth: corp, username: a}\n" + google + "}}",
			`smtp.oauth: there is no application "corp" in the section oauth (configured: google)`,
		},
		{
			"the relay's, not named", "smtp: {host: h, auth: oauth, username: a}",
			"smtp.oauth: is missing; name the application that smtp.auth: oauth is to use (none is configured yet)",
		},
		{
			"the relay's, no user", "smtp: {host: h, auth: oauth, oauth: google}\n" + google + "}}",
			"smtp.username: is missing",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := oauthMinimal + tt.text
			if strings.HasPrefix(tt.text, "smtp") {
				text = strings.Replace(oauthMinimal, "smtp: {host: smtp.example.com}\n", "", 1) + tt.text
			}
			_, err := loadFile(write(t, text), variables())
			if err == nil || !strings.Contains(err.Error(), tt.want) ||
				strings.Contains(err.Error(), "xyzzy") || strings.Contains(err.Error(), "\n") {
				t.Errorf("the error is %v, want %q, in one line", err, tt.want)
			}
		})
	}
}
