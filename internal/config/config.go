// Package config turns the configuration file and the environment into typed, validated settings.
//
// Load returns all errors at once, each with its line, the full name of its key and the fix. It
// changes nothing on disk. The result is complete: defaults are filled in, relative paths are
// relative to the file (the working directory of a cron job is the user's home), secrets are
// resolved, routes are compiled, and the keys and certificates that the file names are loaded.
//
// An environment variable overrides a key: POSTRIDER_SMTP_HOST is smtp.host. An empty variable
// counts as unset. Lists, keys in a list, and keys in a section that users name have no variable. A
// variable for one of these is an error, and so is one that looks like a misspelt key. Other
// variables with that prefix are ignored.
//
// A file is an error if anybody except root and the user of this process owns it or can write it:
// whoever can write it can run programs as that user. No error shows the value of a secret. A
// secret in plain text is accepted only in a file that no other user can read.
package config

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"time"

	"postrider/internal/arc"
	"postrider/internal/bounce"
	"postrider/internal/dkim"
	"postrider/internal/health"
	"postrider/internal/notify"
	"postrider/internal/oauth"
	"postrider/internal/route"
	"postrider/internal/secret"
	"postrider/internal/tasks"
)

// Config is everything that can be set. The tags name the keys of the file.
type Config struct {
	Database Database `yaml:"database"`
	SMTP     SMTP     `yaml:"smtp"`
	IMAP     IMAP     `yaml:"imap"`
	Forward  Forward  `yaml:"forward"`
	SRS      SRS      `yaml:"srs"`
	Bounces  Bounces  `yaml:"bounces"`
	DKIM     DKIM     `yaml:"dkim"`
	ARC      ARC      `yaml:"arc"`
	DNS      DNS      `yaml:"dns"`

	OAuth map[string]OAuth `yaml:"oauth"` // applications, by name

	Retry       Retry             `yaml:"retry"`
	Dedupe      tasks.Dedupe      `yaml:"dedupe"`
	Concurrency Concurrency       `yaml:"concurrency"`
	Watch       Watch             `yaml:"watch"`
	Secrets     Secrets           `yaml:"secrets"`
	Alerts      health.Limits     `yaml:"alerts"`
	Report      Report            `yaml:"report"`
	Metrics     Metrics           `yaml:"metrics"`
	Retention   Retention         `yaml:"retention"`
	Notify      Notify            `yaml:"notify"`
	Hook        []string          `yaml:"hook"` // a program and its arguments
	Web         Web               `yaml:"web"`
	Events      map[string]Events `yaml:"events"` // destinations, by name
	After       After             `yaml:"after"`
	Routes      []route.Rule      `yaml:"routes"`

	// What Load has made of the sections above.
	Table  *route.Table          `yaml:"-"` // of Routes
	Key    *dkim.Key             `yaml:"-"` // of DKIM; nil where nothing is signed
	Sealer *arc.Sealer           `yaml:"-"` // of ARC; nil where nothing is sealed
	Signer *bounce.Signer        `yaml:"-"` // of Bounces; nil when all mail has one reverse-path
	Apps   map[string]*oauth.App `yaml:"-"` // of OAuth, by name
}

// Database is where the registry is kept.
type Database struct {
	Driver string        `yaml:"driver"` // sqlite, mysql
	Path   string        `yaml:"path"`   // sqlite
	DSN    secret.String `yaml:"dsn"`    // mysql
	TLS    string        `yaml:"tls"`    // none, require, verify or a file; empty: by the host

	Roots *x509.CertPool `yaml:"-"` // of the file that TLS names; nil for a word
}

// SMTP is the relay.
type SMTP struct {
	Host           string        `yaml:"host"`
	Port           int           `yaml:"port"`     // never 0 after Load
	Security       string        `yaml:"security"` // tls, starttls, none
	Username       string        `yaml:"username"`
	Password       secret.String `yaml:"password"`
	Auth           string        `yaml:"auth"`  // password, plain, login, oauth
	OAuth          string        `yaml:"oauth"` // the name of an application
	AllowPlaintext bool          `yaml:"allow_plaintext"`
	Connections    int           `yaml:"connections"`
	Pipelining     bool          `yaml:"pipelining"` // where the relay offers it
	LocalName      string        `yaml:"local_name"` // empty: the host's name
	Proxy          secret.String `yaml:"proxy"`      // as IMAP's
	CAFile         string        `yaml:"ca_file"`    // besides the system's
	TLSFingerprint string        `yaml:"tls_fingerprint"`
	ClientCert     string        `yaml:"client_cert"` // a file with a certificate and its key
	Limits         Limits        `yaml:"limits"`

	Roots    *x509.CertPool   `yaml:"-"` // with CAFile; nil: the system's
	Identity *tls.Certificate `yaml:"-"` // of ClientCert; nil: none
}

// Limits are what the relay's provider allows; nil is no limit.
type Limits struct {
	PerMinute     *int `yaml:"per_minute"` // recipients, in any minute
	PerHour       *int `yaml:"per_hour"`
	PerDay        *int `yaml:"per_day"`
	PerConnection *int `yaml:"per_connection"` // messages
}

// IMAP is common to all inboxes.
type IMAP struct {
	Proxy       secret.String `yaml:"proxy"`   // empty: the environment's; direct; or a URL
	CAFile      string        `yaml:"ca_file"` // besides the system's
	IdleTimeout time.Duration `yaml:"idle_timeout"`
	DialTimeout time.Duration `yaml:"dial_timeout"`

	Roots *x509.CertPool `yaml:"-"` // with CAFile; nil: the system's
}

// Forward is what goes out.
type Forward struct {
	Mode         route.Mode       `yaml:"mode"`
	Fallback     route.Fallback   `yaml:"fallback"`
	Resent       bool             `yaml:"resent"`
	Note         string           `yaml:"note"` // a template; empty: the one that forward has
	From         string           `yaml:"from"`
	EnvelopeFrom string           `yaml:"envelope_from"` // an address, srs or keep; never empty after Load
	Uncertain    route.Uncertain  `yaml:"uncertain"`
	MaxSize      route.Size       `yaml:"max_size"`
	TooLarge     string           `yaml:"too_large"` // skip, notice
	MaxReceived  int              `yaml:"max_received"`
	Automated    route.Automated  `yaml:"automated"`   // Load copies it to the routes
	OwnAddress   route.OwnAddress `yaml:"own_address"` // likewise
}

// SRS is how senders are rewritten.
type SRS struct {
	Domain string        `yaml:"domain"` // in its ASCII form after Load
	Secret secret.String `yaml:"secret"` // one a line
	MaxAge time.Duration `yaml:"max_age"`
}

// Secrets are the lines of Secret, in order.
func (s SRS) Secrets() []string { return linesOf(s.Secret) }

func linesOf(s secret.String) []string {
	return strings.FieldsFunc(string(s), func(c rune) bool { return c == '\n' || c == '\r' })
}

// Bounces says how reports are read; without an inbox none is.
type Bounces struct {
	Inbox string `yaml:"inbox"` // its messages are read as reports
	// Address is the reverse-path of each delivery, with {token}; empty: forward.envelope_from.
	Address       string        `yaml:"address"`
	Secret        secret.String `yaml:"secret"` // one a line; if it is empty, Load sets it to srs.secret
	MaxAge        time.Duration `yaml:"max_age"`
	Confirm       bool          `yaml:"confirm"`
	SuspendAfter  int           `yaml:"suspend_after"` // bounces of one recipient
	SuspendWithin time.Duration `yaml:"suspend_within"`
	Suspend       bool          `yaml:"suspend"` // false: only notices
}

// Secrets are the lines of Secret, in order.
func (b Bounces) Secrets() []string { return linesOf(b.Secret) }

// DKIM is the key that signs composed and rewritten messages; empty for none.
type DKIM struct {
	Domain   string `yaml:"domain"`
	Selector string `yaml:"selector"`
	KeyFile  string `yaml:"key_file"`
}

// ARC is the key that seals redirected messages; without one nothing is sealed.
type ARC struct {
	Domain   string   `yaml:"domain"`
	Selector string   `yaml:"selector"`
	KeyFile  string   `yaml:"key_file"`
	Trust    []string `yaml:"trust"` // authserv-ids whose results are believed
}

// key is the key alone.
func (a ARC) key() DKIM { return DKIM{a.Domain, a.Selector, a.KeyFile} }

// DNS is the server that mode auto and ARC ask.
type DNS struct {
	Server string `yaml:"server"` // its IP address and port; empty: the system's
}

// Retry is how often and how long a message is tried.
type Retry struct {
	MaxAttempts   int           `yaml:"max_attempts"`
	GiveUpAfter   time.Duration `yaml:"give_up_after"`
	Base          time.Duration `yaml:"base"`
	Max           time.Duration `yaml:"max"`
	MaxLostLeases int           `yaml:"max_lost_leases"`
}

// Concurrency is how much is done at once.
type Concurrency struct {
	Inboxes int           `yaml:"inboxes"`
	PerHost int           `yaml:"per_host"` // inboxes of one IMAP server at once; protects the server
	Page    int           `yaml:"page"`     // messages fetched at once
	Lease   time.Duration `yaml:"lease"`
	Host    string        `yaml:"host"` // in leases and in the audit trail; empty: the host's name
}

// Watch is how `watch` waits for mail.
type Watch struct {
	Poll time.Duration `yaml:"poll"` // where IDLE does not say what arrives
	Idle time.Duration `yaml:"idle"` // until IDLE begins again, and a folder is looked into in any case
}

// Secrets is how the passwords of inboxes are kept.
type Secrets struct {
	KeyFile string   `yaml:"key_file"`
	FilesIn []string `yaml:"files_in"` // directories; after Load that of the file is the first
}

// Retention is how long the registry keeps what has ended.
type Retention struct {
	Forwarded Age `yaml:"forwarded"` // tasks, since they were forwarded
	Events    Age `yaml:"events"`    // lines of the audit trail
	Outbox    Age `yaml:"outbox"`    // what was done of it
}

// Report is what a pass prints when nobody watches it.
type Report struct {
	Remind time.Duration `yaml:"remind"` // after which a failure that lasts is printed again
}

// Metrics are for Prometheus.
type Metrics struct {
	TextFile string   `yaml:"textfile"` // that each pass writes; empty for none
	Labels   []string `yaml:"labels"`   // of inboxes, that become labels of the metrics
}

// Notify is who is notified of failures, and of which.
type Notify struct {
	To     []string      `yaml:"to"` // addresses
	On     []notify.Kind `yaml:"on"`
	AtMost time.Duration `yaml:"at_most"`
}

// Default is the configuration of an empty file. The relay, the sender and the routes have no
// default.
func Default() *Config {
	return &Config{
		Database: Database{Driver: "sqlite", Path: "postrider.db"},
		SMTP:     SMTP{Security: "starttls", Auth: "password", Connections: 8, Pipelining: true},
		IMAP:     IMAP{IdleTimeout: 2 * time.Minute, DialTimeout: 30 * time.Second},
		Forward: Forward{
			Mode: route.Redirect, Fallback: route.FallbackNone, Uncertain: route.Retry,
			MaxSize: 50 << 20, TooLarge: "skip", MaxReceived: 100,
			Automated: route.ForwardAutomated, OwnAddress: route.SkipOwnAddress,
		},
		SRS:     SRS{MaxAge: 21 * 24 * time.Hour},
		Bounces: Bounces{MaxAge: 21 * 24 * time.Hour, SuspendAfter: 5, SuspendWithin: 7 * 24 * time.Hour},
		Retry: Retry{
			MaxAttempts: 100, GiveUpAfter: 96 * time.Hour, Base: time.Minute, Max: time.Hour, MaxLostLeases: 3,
		},
		Dedupe:      tasks.DedupeInbox,
		Concurrency: Concurrency{Inboxes: 32, PerHost: 32, Page: 100, Lease: 5 * time.Minute},
		Watch:       Watch{Poll: time.Minute, Idle: 9 * time.Minute},
		Secrets:     Secrets{KeyFile: "postrider.key"},
		Report:      Report{Remind: time.Hour},
		Retention:   Retention{Outbox: Age(7 * 24 * time.Hour)},
		Notify:      Notify{On: notify.Kinds(), AtMost: time.Hour},
		Apps:        map[string]*oauth.App{},
	}
}
