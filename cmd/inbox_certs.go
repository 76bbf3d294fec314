package cmd

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/spf13/cobra"

	"postrider/internal/certs"
	"postrider/internal/inbox"
)

// certFlags say which certificate of its server an inbox accepts, and which one it shows.
type certFlags struct {
	caFile      string
	fingerprint string
	clientCert  string
}

func (f *certFlags) register(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.caFile, "ca-file", "",
		"trust the certificates of this `FILE` besides the system's; \"\" for none")
	flags.StringVar(&f.fingerprint, "tls-fingerprint", "",
		"accept the server's certificate if it has the fingerprint `sha256:HEX`, and no other; "+
			"\"\" checks issuer and name again")
	flags.StringVar(&f.clientCert, "client-cert", "",
		"show the certificate in this `FILE`, which also has its key, to the server; \"\" for none")
	mayBeEmpty(c, "ca-file", "tls-fingerprint", "client-cert")
}

// check makes the paths absolute, because cron runs in another directory, and reads the files.
func (f *certFlags) check() (err error) {
	for flag, path := range map[string]*string{"--ca-file": &f.caFile, "--client-cert": &f.clientCert} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return usage(fmt.Errorf("%s: %w", flag, err))
		}
	}
	if _, err := certs.Roots(nil, f.caFile); err != nil {
		return usage(fmt.Errorf("--ca-file: %w", err))
	}
	if _, err := certs.Client(f.clientCert); err != nil {
		return usage(fmt.Errorf("--client-cert: %w", err))
	}
	return nil
}

// peer is how an inbox and its server prove to each other who they are.
type peer struct {
	caFile, fingerprint, clientCert string
}

// credentials are what a peer's files have. The TLS sessions are for this peer alone: a session
// that was made with other settings could be resumed without the certificates being checked again.
type credentials struct {
	roots    *x509.CertPool
	client   *tls.Certificate
	sessions tls.ClientSessionCache
}

// peers reads the files of each peer once.
type peers struct {
	roots *x509.CertPool // the system's and those of imap.ca_file; nil: the system's
	mu    sync.Mutex
	known map[peer]*credentials
}

// of are the credentials for an inbox. A failure is not kept.
func (p *peers) of(in inbox.Inbox) (*credentials, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := peer{in.CAFile, in.TLSFingerprint, in.ClientCert}
	if c, ok := p.known[key]; ok {
		return c, nil
	}
	c := &credentials{sessions: tls.NewLRUClientSessionCache(0)}
	var err error
	if c.roots, err = certs.Roots(p.roots, in.CAFile); err != nil {
		return nil, fmt.Errorf("CA file of inbox %s: %w", in.Address, err)
	}
	if c.client, err = certs.Client(in.ClientCert); err != nil {
		return nil, fmt.Errorf("client certificate of inbox %s: %w", in.Address, err)
	}
	if p.known == nil {
		p.known = map[peer]*credentials{}
	}
	p.known[key] = c
	return c, nil
}
