package account_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"postrider/internal/account"
	"postrider/internal/testserver"
)

// place is a domain with its DNS and web servers. Every web server of any name is this one, whose
// certificate is for example.com and what is below it.
type place struct {
	account.Finder
	dns   *testserver.DNS
	asked chan string // host and address of each request
}

// newPlace has a web server that answers as serve does; nil for none that anybody reaches.
func newPlace(t *testing.T, serve http.HandlerFunc) *place {
	t.Helper()
	p := &place{dns: testserver.NameServer(t, nil), asked: make(chan string, 100)}
	p.DNS = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, p.dns.Address)
	}}
	if serve == nil {
		p.HTTP = &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("there is no such host")
		}}
		return p
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case p.asked <- r.Host + r.URL.String():
		default: // far more than a search asks
		}
		serve(w, r)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it logs clients that hang up
	server.StartTLS()
	t.Cleanup(server.Close)
	transport := server.Client().Transport.(*http.Transport).Clone()
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}
	t.Cleanup(transport.CloseIdleConnections)
	p.HTTP = transport
	return p
}

// Where a domain has its settings.
const (
	autoconfig = "autoconfig.example.com/mail/config-v1.1.xml"
	wellKnown  = "example.com/.well-known/autoconfig/mail/config-v1.1.xml"
)

func is(host string, port int, security, source string) account.Found {
	return account.Found{IMAP: account.Server{Host: host, Port: port, Security: security}, Source: source}
}

func TestFind(t *testing.T) {
	for _, tt := range []struct {
		name, domain string
		records      func(t *testing.T, d *testserver.DNS)
		want         account.Found // Preset by its name
		preset       string
		fault        string
	}{
		{
			name: "a preset", domain: "163.com", preset: "163",
			want: is("imap.163.com", 993, "tls", "the built-in settings of 163"),
		},
		{
			name: "below a preset's domain", domain: "firm.onmicrosoft.com", preset: "Microsoft 365",
			want: is("outlook.office365.com", 993, "tls", "the built-in settings of Microsoft 365"),
		},
		{name: "a name below one that has no others", domain: "vip.163.com", fault: "no MX record"},
		{
			name: "MX of Google Workspace", domain: "example.com", preset: "Gmail and Google Workspace",
			records: func(t *testing.T, d *testserver.DNS) {
				d.SetMX(t, "example.com", "mx.old.example", 20)
				d.SetMX(t, "example.com", "ASPMX.L.Google.com", 10)
			},
			want: is("imap.gmail.com", 993, "tls",
				"the MX of example.com, aspmx.l.google.com, which is of Gmail and Google Workspace"),
		},
		{
			name: "MX of Microsoft 365, before SRV", domain: "example.com", preset: "Microsoft 365",
			records: func(t *testing.T, d *testserver.DNS) {
				d.SetMX(t, "example.com", "example-com.mail.protection.outlook.com", 0)
				d.SetSRV(t, "_imaps._tcp.example.com", "imap.example.com", 993, 0, 0)
			},
			want: is("outlook.office365.com", 993, "tls",
				"the MX of example.com, example-com.mail.protection.outlook.com, which is of Microsoft 365"),
		},
		{
			name: "a name that only ends like a provider's", domain: "example.com",
			records: func(t *testing.T, d *testserver.DNS) { d.SetMX(t, "example.com", "aspmx.notgoogle.com", 1) },
			fault:   `MX: "aspmx.notgoogle.com" is of no known provider`,
		},
		{
			name: "a backup MX tells nothing", domain: "example.com",
			records: func(t *testing.T, d *testserver.DNS) {
				d.SetMX(t, "example.com", "aspmx.l.google.com", 20)
				d.SetMX(t, "example.com", "mx.example.com", 10)
			},
			fault: `MX: "mx.example.com" is of no known provider`,
		},
		{
			name: "SRV by priority, then weight", domain: "example.com",
			records: func(t *testing.T, d *testserver.DNS) {
				d.SetSRV(t, "_imaps._tcp.example.com", "third.example.com", 993, 1, 50)
				d.SetSRV(t, "_imaps._tcp.example.com", "Another.example.com", 993, 0, 5)
				d.SetSRV(t, "_imaps._tcp.example.com", "First.example.com", 1993, 0, 50)
			},
			want: is("first.example.com", 1993, "tls", "the SRV record _imaps._tcp.example.com"),
		},
		{
			name: "SRV with STARTTLS", domain: "example.com",
			records: func(t *testing.T, d *testserver.DNS) {
				d.SetSRV(t, "_imaps._tcp.example.com", ".", 0, 0, 0)
				d.SetSRV(t, "_imap._tcp.example.com", "imap.example.com", 143, 0, 0)
			},
			want: is("imap.example.com", 143, "starttls", "the SRV record _imap._tcp.example.com"),
		},
		{
			name: "SRV out of the domain", domain: "example.com",
			records: func(t *testing.T, d *testserver.DNS) {
				d.SetSRV(t, "_imaps._tcp.example.com", "imap.elsewhere.example", 993, 0, 0)
			},
			want: account.Found{
				IMAP:   account.Server{Host: "imap.elsewhere.example", Port: 993, Security: "tls"},
				Source: "the SRV record _imaps._tcp.example.com", Foreign: true,
			},
		},
		{
			name: "SRV within the registered domain", domain: "sub.example.com",
			records: func(t *testing.T, d *testserver.DNS) {
				d.SetSRV(t, "_imaps._tcp.sub.example.com", "imap.example.com", 993, 0, 0)
			},
			want: is("imap.example.com", 993, "tls", "the SRV record _imaps._tcp.sub.example.com"),
		},
		{
			name: "SRV to a provider", domain: "example.com", preset: "Fastmail",
			records: func(t *testing.T, d *testserver.DNS) {
				d.SetSRV(t, "_imaps._tcp.example.com", "imap.fastmail.com", 993, 0, 0)
			},
			want: is("imap.fastmail.com", 993, "tls", "the SRV record _imaps._tcp.example.com"),
		},
		{
			name: "SRV that says there is no service", domain: "example.com",
			records: func(t *testing.T, d *testserver.DNS) { d.SetSRV(t, "_imaps._tcp.example.com", ".", 0, 0, 0) },
			fault:   "SRV _imaps._tcp.example.com: the domain says that it has no such service",
		},
		{
			name: "SRV with port 0", domain: "example.com",
			records: func(t *testing.T, d *testserver.DNS) {
				d.SetSRV(t, "_imaps._tcp.example.com", "imap.example.com", 0, 0, 0)
			},
			fault: `SRV _imaps._tcp.example.com: "imap.example.com" port 0 is not a server`,
		},
		{
			name: "SRV with an odd target", domain: "example.com",
			records: func(t *testing.T, d *testserver.DNS) {
				d.SetSRV(t, "_imaps._tcp.example.com", "_x.example.com", 993, 0, 0)
			},
			fault: `SRV _imaps._tcp.example.com: "_x.example.com" port 993 is not a server`,
		},
		{
			name: "a DNS that fails", domain: "example.com", fault: "MX: server misbehaving",
			records: func(_ *testing.T, d *testserver.DNS) { d.Fail("example.com") },
		},
		{name: "nothing", domain: "example.com", fault: "https://" + wellKnown + ": there is no such host"},
		{name: "an IP address", domain: "[192.0.2.1]", fault: "it is an IP address"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t, nil)
			if tt.records != nil {
				tt.records(t, p.dns)
			}
			p.wants(t, tt.domain, tt.want, tt.preset, tt.fault)
		})
	}
}

// wants compares what is found, or why nothing is.
func (p *place) wants(t *testing.T, domain string, want account.Found, preset, fault string) {
	t.Helper()
	got, err := p.Find(t.Context(), domain)
	var nothing *account.NotFoundError
	if fault != "" {
		if !errors.As(err, &nothing) || !strings.Contains(err.Error(), fault) {
			t.Errorf("Find = %+v, %v; want an error with %q", got, err, fault)
		}
		return
	}
	name := ""
	if got.Preset != nil {
		name = got.Preset.Name
	}
	got.Preset = nil
	if err != nil || got != want || name != preset {
		t.Errorf("Find = %+v of %q, %v; want %+v of %q", got, name, err, want, preset)
	}
}

// TestOnlyTheDomainIsSent looks at each request that a search makes.
func TestOnlyTheDomainIsSent(t *testing.T) {
	p := newPlace(t, http.NotFound)
	p.wants(t, "example.com", account.Found{}, "", "HTTP status 404")
	close(p.asked)
	n := 0
	for asked := range p.asked {
		n++
		if asked != autoconfig && asked != wellKnown {
			t.Errorf("the web server was asked for %s", asked)
		}
	}
	if n != 2 {
		t.Errorf("the web server was asked %d times, want 2", n)
	}
}

// TestSilence: servers that do not answer end with the timeout, and another answer does not wait
// for them.
func TestSilence(t *testing.T) {
	over := make(chan struct{})
	silent := func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-over:
		}
	}
	p := newPlace(t, silent)
	t.Cleanup(func() { close(over) }) // before the server closes
	p.Timeout = 50 * time.Millisecond
	p.wants(t, "example.com", account.Found{}, "", "https://"+autoconfig+": no answer in time")
	p.Timeout = time.Hour
	p.dns.SetMX(t, "example.com", "in1-smtp.messagingengine.com", 1)
	p.wants(t, "example.com", account.Found{
		IMAP:   account.Server{Host: "imap.fastmail.com", Port: 993, Security: "tls"},
		Source: "the MX of example.com, in1-smtp.messagingengine.com, which is of Fastmail",
	}, "Fastmail", "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Find(ctx, "example.net"); !errors.Is(err, context.Canceled) {
		t.Errorf("Find after the end of its context: %v, want that", err)
	}
}

// TestSlowDocument: a document that comes an octet at a time ends with the timeout, too.
func TestSlowDocument(t *testing.T) {
	p := newPlace(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, "<clientConfig>")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	p.Timeout = 50 * time.Millisecond
	p.wants(t, "example.com", account.Found{}, "", "https://"+autoconfig+": no answer in time")
}

// clock notes until when it may take to answer.
type clock struct{ until chan time.Time }

func (c clock) LookupMX(ctx context.Context, _ string) ([]*net.MX, error) {
	until, _ := ctx.Deadline()
	c.until <- until
	return nil, nil
}

func (c clock) LookupSRV(context.Context, string, string, string) (string, []*net.SRV, error) {
	return "", nil, nil
}

// TestBounded: without another timeout a search has ten seconds.
func TestBounded(t *testing.T) {
	p, c := newPlace(t, nil), clock{make(chan time.Time, 1)}
	p.DNS = c
	latest := time.Now().Add(10 * time.Second)
	p.wants(t, "example.com", account.Found{}, "", "no MX record")
	if until := <-c.until; until.Before(latest) || until.After(time.Now().Add(10*time.Second)) {
		t.Errorf("a search ends at %s, want ten seconds after its begin, about %s", until, latest)
	}
}
