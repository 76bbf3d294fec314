package account

import (
	"slices"
	"strings"
)

// Login is a way to log in.
type Login string

// The logins. An app password (in China: 授权码) is made at the provider for one program, and
// is used instead of the account's password.
const (
	Password    Login = "password"
	AppPassword Login = "app password"
	OAuth2      Login = "OAuth2"
)

// Preset is what is known of a provider.
type Preset struct {
	Name        string
	Domains     []string // of its addresses; with a dot in front: those below it
	MX          []string // its MX hosts are these, or below them
	IMAP, SMTP  Server
	Logins      []Login // over IMAP
	Connections int     // that one account may have; 0 when the provider does not say
	NeedsID     bool    // opens no folder before the client sends ID (RFC 2971)
	NoIDLE      bool    // does not announce new mail (RFC 2177), whatever it offers: it has to be polled
	Hint        string  // what a refused password probably means, and what to do
}

func tls(host string, port int) Server { return Server{host, port, "tls"} }

func starttls(host string, port int) Server { return Server{host, port, "starttls"} }

const netease = " takes a 授权码 (authorization code), not the password of the account; " +
	"switch on IMAP and make the code at "

// Presets are from the providers' documentation; docs/servers.md shows them.
var Presets = []Preset{
	{
		Name: "Gmail and Google Workspace", Domains: []string{"gmail.com", "googlemail.com"},
		MX:   []string{"google.com", "googlemail.com"},
		IMAP: tls("imap.gmail.com", 993), SMTP: tls("smtp.gmail.com", 465),
		Logins: []Login{AppPassword, OAuth2}, Connections: 15,
		Hint: "Google takes an app password, not the password of the account; " +
			"make one at https://myaccount.google.com/apppasswords (it needs 2-Step Verification)",
	},
	{
		Name: "Microsoft 365", Domains: []string{".onmicrosoft.com"},
		MX:   []string{"mail.protection.outlook.com", "mx.microsoft"},
		IMAP: tls("outlook.office365.com", 993), SMTP: starttls("smtp.office365.com", 587),
		Logins: []Login{OAuth2},
		Hint:   "Microsoft 365 and Outlook.com take no password over IMAP, only OAuth2",
	},
	{
		Name: "Outlook.com",
		Domains: []string{
			"outlook.com", "hotmail.com", "live.com", "msn.com", "windowslive.com",
			"hotmail.co.uk", "hotmail.de", "hotmail.es", "hotmail.fr", "hotmail.it",
			"live.co.uk", "live.de", "live.fr", "live.it", "live.nl",
			"outlook.de", "outlook.es", "outlook.fr", "outlook.it",
		},
		MX:   []string{"olc.protection.outlook.com"},
		IMAP: tls("outlook.office365.com", 993), SMTP: starttls("smtp-mail.outlook.com", 587),
		Logins: []Login{OAuth2},
		Hint:   "Microsoft 365 and Outlook.com take no password over IMAP, only OAuth2",
	},
	{
		Name: "iCloud", Domains: []string{"icloud.com", "me.com", "mac.com"},
		MX:   []string{"mail.icloud.com"},
		IMAP: tls("imap.mail.me.com", 993), SMTP: starttls("smtp.mail.me.com", 587),
		Logins: []Login{AppPassword},
		Hint: "iCloud takes an app-specific password, not the password of the Apple Account; " +
			"make one at https://account.apple.com; " +
			"if that is refused, too, give the part of the iCloud address before the @ as --username",
	},
	{
		Name: "Yahoo",
		Domains: []string{
			"yahoo.com", "ymail.com", "rocketmail.com", "myyahoo.com", "yahoo.ca",
			"yahoo.co.in", "yahoo.co.nz", "yahoo.co.uk",
			"yahoo.com.ar", "yahoo.com.au", "yahoo.com.br", "yahoo.com.mx",
			"yahoo.de", "yahoo.es", "yahoo.fr", "yahoo.it", "yahoo.se",
		},
		IMAP: tls("imap.mail.yahoo.com", 993), SMTP: tls("smtp.mail.yahoo.com", 465),
		Logins: []Login{AppPassword, OAuth2}, NoIDLE: true,
		Hint: "Yahoo takes an app password, not the password of the account; " +
			"make one at https://login.yahoo.com/account/security",
	},
	{
		Name: "AOL", Domains: []string{"aol.com", "aim.com", "aol.co.uk", "aol.de", "aol.fr"},
		IMAP: tls("imap.aol.com", 993), SMTP: tls("smtp.aol.com", 465),
		Logins: []Login{AppPassword, OAuth2}, NoIDLE: true,
		Hint: "AOL takes an app password, not the password of the account; " +
			"make one at https://login.aol.com/account/security",
	},
	{
		Name: "Fastmail", Domains: []string{"fastmail.com", "fastmail.fm"},
		MX:   []string{"messagingengine.com"},
		IMAP: tls("imap.fastmail.com", 993), SMTP: tls("smtp.fastmail.com", 465),
		Logins: []Login{AppPassword},
		Hint: "Fastmail takes an app password, not the password of the account; " +
			"https://www.fastmail.help/hc/en-us/articles/360058752854 says how to make one",
	},
	{
		Name: "GMX", Domains: []string{"gmx.net", "gmx.de", "gmx.at", "gmx.ch"},
		IMAP: tls("imap.gmx.net", 993), SMTP: tls("mail.gmx.net", 465),
		Logins: []Login{Password, AppPassword},
		Hint: "IMAP has to be switched on in the settings of the mailbox at GMX; " +
			"with two-factor authentication it takes an app password, " +
			"see https://hilfe.gmx.net/sicherheit/2fa/anwendungsspezifisches-passwort.html",
	},
	{
		Name: "GMX.com", Domains: []string{"gmx.com", "gmx.us", "gmx.co.uk", "gmx.es", "gmx.fr"},
		IMAP: tls("imap.gmx.com", 993), SMTP: tls("mail.gmx.com", 465),
		Logins: []Login{Password, AppPassword},
		Hint: "IMAP has to be switched on in the settings of the mailbox at GMX; " +
			"with two-factor authentication it takes an app password, see https://support.gmx.com/",
	},
	{
		Name: "WEB.DE", Domains: []string{"web.de"},
		IMAP: tls("imap.web.de", 993), SMTP: tls("smtp.web.de", 465),
		Logins: []Login{Password, AppPassword},
		Hint: "IMAP has to be switched on in the settings of the mailbox at WEB.DE; " +
			"with two-factor authentication it takes an app password, see https://hilfe.web.de/",
	},
	{
		Name: "Yandex", Domains: []string{"yandex.ru", "yandex.com", "ya.ru", "yandex.by", "yandex.kz"},
		MX:   []string{"mx.yandex.net", "mx.yandex.ru"},
		IMAP: tls("imap.yandex.com", 993), SMTP: tls("smtp.yandex.com", 465),
		Logins: []Login{AppPassword},
		Hint: "Yandex takes an app password, not the password of the account, " +
			"and IMAP has to be switched on in the settings of the mailbox; " +
			"see https://yandex.com/support/passport/authorization/app-passwords.html",
	},
	{
		Name: "Zoho", Domains: []string{"zoho.com", "zohomail.com"},
		IMAP: tls("imap.zoho.com", 993), SMTP: tls("smtp.zoho.com", 465),
		Logins: []Login{Password, AppPassword}, Hint: zoho,
	},
	{
		Name: "Zoho for organizations", MX: []string{"zoho.com"},
		IMAP: tls("imappro.zoho.com", 993), SMTP: tls("smtppro.zoho.com", 465),
		Logins: []Login{Password, AppPassword}, Hint: zoho,
	},
	{
		Name: "Zoho for organizations (EU)", MX: []string{"zoho.eu"},
		IMAP: tls("imappro.zoho.eu", 993), SMTP: tls("smtppro.zoho.eu", 465),
		Logins: []Login{Password, AppPassword}, Hint: zoho,
	},
	{
		Name: "Zoho for organizations (India)", MX: []string{"zoho.in"},
		IMAP: tls("imappro.zoho.in", 993), SMTP: tls("smtppro.zoho.in", 465),
		Logins: []Login{Password, AppPassword}, Hint: zoho,
	},
	{
		Name: "163", Domains: []string{"163.com"},
		IMAP: tls("imap.163.com", 993), SMTP: tls("smtp.163.com", 465),
		Logins: []Login{AppPassword}, NeedsID: true, NoIDLE: true,
		Hint: "163" + netease + "https://mail.163.com/ (设置 > POP3/SMTP/IMAP)",
	},
	{
		Name: "126", Domains: []string{"126.com"},
		IMAP: tls("imap.126.com", 993), SMTP: tls("smtp.126.com", 465),
		Logins: []Login{AppPassword}, NeedsID: true, NoIDLE: true,
		Hint: "126" + netease + "https://mail.126.com/ (设置 > POP3/SMTP/IMAP)",
	},
	{
		Name: "QQ", Domains: []string{"qq.com", "vip.qq.com", "foxmail.com"},
		IMAP: tls("imap.qq.com", 993), SMTP: tls("smtp.qq.com", 465),
		Logins: []Login{AppPassword},
		Hint:   "QQ" + netease + "https://mail.qq.com/ (设置 > 账号)",
	},
	{
		Name: "Tencent Exmail", MX: []string{"mxbiz1.qq.com", "mxbiz2.qq.com"},
		IMAP: tls("imap.exmail.qq.com", 993), SMTP: tls("smtp.exmail.qq.com", 465),
		Logins: []Login{Password, AppPassword},
		Hint: "with 安全登录 (secure login) Exmail takes a 客户端专用密码 (client password), not the password of the account; " +
			"make one at https://exmail.qq.com/",
	},
	{
		Name: "Aliyun", Domains: []string{"aliyun.com"},
		IMAP: tls("imap.aliyun.com", 993), SMTP: tls("smtp.aliyun.com", 465),
		Logins: []Login{Password},
		Hint:   "IMAP has to be allowed in the settings of the mailbox at https://mail.aliyun.com/",
	},
	{
		Name: "Alibaba Mail", MX: []string{"mxhichina.com", "qiye.aliyun.com"},
		IMAP: tls("imap.qiye.aliyun.com", 993), SMTP: tls("smtp.qiye.aliyun.com", 465),
		Logins: []Login{Password, AppPassword},
		Hint: "if the 三方客户端安全密码 (security password for other clients) is switched on, Alibaba Mail takes that one, " +
			"not the password of the account; see https://qiye.aliyun.com/",
	},
	{
		Name: "Sina", Domains: []string{"sina.com"},
		IMAP: tls("imap.sina.com", 993), SMTP: tls("smtp.sina.com", 465),
		Logins: []Login{AppPassword},
		Hint:   "Sina" + netease + "https://mail.sina.com.cn/ (设置区 > 客户端pop/imap/smtp)",
	},
}

const zoho = "IMAP has to be switched on in the settings of the mailbox at Zoho; " +
	"with two-factor authentication it takes an app password, " +
	"see https://www.zoho.com/mail/help/imap-access.html"

// byDomain is the preset of an address at domain; nil when there is none.
func byDomain(domain string) *Preset {
	domain = canonical(domain)
	return choose(func(p Preset) bool {
		return slices.ContainsFunc(p.Domains, func(d string) bool {
			return domain == d || d[0] == '.' && strings.HasSuffix(domain, d)
		})
	})
}

// byMX is the preset of a domain whose mail goes to host; nil when there is none.
func byMX(host string) *Preset {
	return choose(func(p Preset) bool { return below(host, p.MX) })
}

// Of is the preset of an IMAP server; the zero Preset for most.
func Of(host string) Preset {
	if p := byHost(host); p != nil {
		return *p
	}
	return Preset{}
}

// OnlyOAuth reports whether the provider takes OAuth2 and no password.
func (p Preset) OnlyOAuth() bool { return slices.Equal(p.Logins, []Login{OAuth2}) }

func byHost(host string) *Preset {
	return choose(func(p Preset) bool { return canonical(host) == p.IMAP.Host })
}

func choose(is func(Preset) bool) *Preset {
	if i := slices.IndexFunc(Presets, is); i >= 0 {
		return &Presets[i]
	}
	return nil
}

// below reports whether name is one of the domains, or below one.
func below(name string, domains []string) bool {
	name = canonical(name)
	return slices.ContainsFunc(domains, func(d string) bool { return name == d || strings.HasSuffix(name, "."+d) })
}

// canonical is a DNS name in lower case, without the dot at its end.
func canonical(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }
