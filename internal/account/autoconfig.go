package account

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/html/charset"
)

// maxDocument is the size of the largest document that is read, in octets.
const maxDocument = 64 << 10

// document is a configuration in Thunderbird's format.
type document struct {
	XMLName xml.Name `xml:"clientConfig"`
	Servers []struct {
		Type     string `xml:"type,attr"`
		Host     string `xml:"hostname"`
		Port     int    `xml:"port"`
		Socket   string `xml:"socketType"`
		Username string `xml:"username"`
	} `xml:"emailProvider>incomingServer"`
}

// autoconfig asks for the document that the domain publishes at an address. The TLS certificate
// proves that the document comes from the domain, so the document may name any server.
func (f Finder) autoconfig(format string) question {
	return func(ctx context.Context, domain string) (*Found, error) {
		address := fmt.Sprintf(format, domain)
		text, err := f.get(ctx, address)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", address, err)
		}
		found, err := parse(text, domain)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", address, err)
		}
		found.Source = address
		return found, nil
	}
}

// get fetches a document over HTTPS alone.
func (f Finder) get(ctx context.Context, address string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("User-Agent", "postrider")
	client := http.Client{Transport: f.HTTP, CheckRedirect: redirect}
	response, err := client.Do(request)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // the caller names the address
		}
		if ctx.Err() != nil {
			err = errors.New("no answer in time")
		}
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("HTTP status %d", response.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxDocument+1))
	switch {
	case ctx.Err() != nil:
		return "", errors.New("no answer in time")
	case err != nil:
		return "", err
	case len(text) > maxDocument:
		return "", fmt.Errorf("the document is larger than %d KiB", maxDocument>>10)
	}
	return string(text), nil
}

// redirect follows a redirect only within the domain, and only to HTTPS.
func redirect(to *http.Request, via []*http.Request) error {
	switch {
	case to.URL.Scheme != "https":
		return errors.New("it redirects to an address without HTTPS")
	case !related(to.URL.Hostname(), via[0].URL.Hostname()):
		return fmt.Errorf("it redirects to another domain, %q", to.URL.Hostname())
	case len(via) > 3:
		return errors.New("it redirects more than three times")
	}
	return nil
}

// parse reads the first IMAP server with TLS, or else with STARTTLS. The decoder knows no entities
// but those of XML itself.
func parse(text, domain string) (*Found, error) {
	var doc document
	in := xml.NewDecoder(strings.NewReader(text))
	in.CharsetReader = charset.NewReaderLabel
	if err := in.Decode(&doc); err != nil {
		return nil, fmt.Errorf("it is no configuration: %w", err)
	}
	var second *Found
	for _, s := range doc.Servers {
		security := map[string]string{"SSL": "tls", "STARTTLS": "starttls"}[strings.TrimSpace(s.Socket)]
		host := canonical(strings.ReplaceAll(strings.TrimSpace(s.Host), "%EMAILDOMAIN%", domain))
		if s.Type != "imap" || security == "" || s.Port < 1 || s.Port > 65535 || !hostname(host) {
			continue
		}
		found := &Found{
			IMAP: Server{host, s.Port, security}, Preset: byHost(host),
			LocalPart: strings.TrimSpace(s.Username) == "%EMAILLOCALPART%",
		}
		if security == "tls" {
			return found, nil
		}
		second = cmp.Or(second, found)
	}
	if second == nil {
		return nil, errors.New("it names no IMAP server with TLS")
	}
	return second, nil
}
