package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"postrider/internal/oauth"
	"postrider/internal/secret"
)

// OAuth is an application that is registered with an OAuth2 provider.
type OAuth struct {
	ClientID       string        `yaml:"client_id"`
	ClientSecret   secret.String `yaml:"client_secret"`
	Tenant         string        `yaml:"tenant"` // of microsoft
	Issuer         string        `yaml:"issuer"` // of other providers: an URL
	Scopes         []string      `yaml:"scopes"` // in place of the usual ones
	Flow           oauth.Flow    `yaml:"flow"`   // empty: by the provider
	ServiceAccount secret.String `yaml:"service_account"`
	TokenCommand   []string      `yaml:"token_command"`
}

// app is the application.
func (o OAuth) app(name string) (*oauth.App, error) {
	app := &oauth.App{
		Name: name, ClientID: o.ClientID, ClientSecret: string(o.ClientSecret), Tenant: o.Tenant, Issuer: o.Issuer,
		Scopes: o.Scopes, Flow: o.Flow, Command: o.TokenCommand,
	}
	if o.ServiceAccount == "" {
		return app, nil
	}
	var err error
	app.Key, err = oauth.ParseKey([]byte(o.ServiceAccount))
	return app, err
}

var tenant = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]*$`) // it is a part of URLs

var oauthName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

func (r *reader) oauth(c *Config) {
	names := slices.Sorted(maps.Keys(c.OAuth))
	for _, name := range names {
		c.Apps[name] = r.application(name, c.OAuth[name])
	}
	s := c.SMTP
	oneOf(r, "smtp.auth", s.Auth, "password", "plain", "login", "oauth")
	_, known := c.OAuth[s.OAuth]
	known = known || r.hasErrorWithin("oauth")
	switch {
	case s.Auth != "oauth":
	case s.OAuth == "":
		r.refuse("smtp.oauth", "is missing; name the application that smtp.auth: oauth is to use (%s)",
			knownApps(names))
	case !known:
		r.refuse("smtp.oauth", "there is no application %q in the section oauth (%s)", s.OAuth, knownApps(names))
	case s.Username == "":
		r.refuse("smtp.username", "is missing; smtp.auth: oauth needs the account that logs in")
	case s.Password != "":
		r.refuse("smtp.password", "is not used with smtp.auth: oauth; remove it")
	}
}

func knownApps(names []string) string {
	if len(names) == 0 {
		return "none is configured yet"
	}
	return "configured: " + strings.Join(names, ", ")
}

// application checks one application, and returns it.
func (r *reader) application(name string, o OAuth) *oauth.App {
	at := "oauth." + name
	builtIn := name == oauth.Microsoft || name == oauth.Google
	own := o.ServiceAccount != "" || o.TokenCommand != nil || r.hasError(at+".service_account") // needs no client
	if !oauthName.MatchString(name) {
		r.refuse(at, "is not a valid name; use up to 64 lower-case letters, digits, - and _")
	}
	if builtIn && o.Issuer != "" {
		r.refuse(at+".issuer", "is built in for %s; give the application another name", name)
	}
	if !builtIn && !own && o.Issuer == "" {
		r.refuse(at+".issuer", "is missing; only microsoft and google are built in: give the URL of the provider, "+
			"below which it has /.well-known/openid-configuration")
	}
	if o.Issuer != "" && !oauth.Secure(o.Issuer) {
		r.refuse(at+".issuer", "%s is not an https URL without a username, and secrets would go there",
			unlessSecret(o.Issuer))
	}
	if o.ClientID == "" && !own && !r.hasError(at+".client_id") {
		r.refuse(at+".client_id", "is missing; register an application with the provider, as docs/providers.md says")
	}
	for _, client := range []struct{ key, value string }{
		{"client_id", o.ClientID}, {"client_secret", string(o.ClientSecret)},
	} {
		if own && client.value != "" {
			r.refuse(at+"."+client.key, "is not used with service_account or token_command; remove it")
		}
	}
	if name == oauth.Google && !own && o.ClientID != "" && o.ClientSecret == "" && !r.hasError(at+".client_secret") {
		r.refuse(at+".client_secret", "is missing; Google shows it with the client_id")
	}
	switch {
	case o.Tenant == "":
	case name != oauth.Microsoft:
		r.refuse(at+".tenant", "is for microsoft alone")
	case !tenant.MatchString(o.Tenant):
		r.refuse(at+".tenant", "%q is not a tenant; give the organization's domain or ID", o.Tenant)
	}
	if o.TokenCommand != nil && (len(o.TokenCommand) == 0 || o.TokenCommand[0] == "") {
		r.refuse(at+".token_command", "is empty; give a program and its arguments")
	}
	r.flow(name, o)
	app, err := o.app(name)
	if err != nil {
		r.refuse(at+".service_account", "cannot be used: %v", err)
	}
	return app
}

func (r *reader) flow(name string, o OAuth) {
	at := "oauth." + name + ".flow"
	if o.Flow == "" {
		return
	}
	oneOf(r, at, o.Flow, oauth.Device, oauth.Browser, oauth.Application)
	switch {
	case o.ServiceAccount != "" || o.TokenCommand != nil:
		r.refuse(at, "is not used with service_account or token_command; remove it")
	case name == oauth.Google && o.Flow != oauth.Browser:
		r.refuse(at, "%s cannot be used, because Google gives it no permission for mail; "+
			"use browser, or service_account", o.Flow)
	case o.Flow == oauth.Application && o.ClientSecret == "":
		r.refuse("oauth."+name+".client_secret", "is missing; flow: application needs it")
	case o.Flow == oauth.Application && name == oauth.Microsoft && o.Tenant == "":
		r.refuse("oauth."+name+".tenant", "is missing; flow: application needs the organization's domain or ID")
	}
}
