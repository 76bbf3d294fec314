package cmd

import (
	"time"

	"postrider/internal/certs"
	"postrider/internal/config"
	"postrider/internal/forward"
	"postrider/internal/srs"
)

func (s *services) relay() (*forward.Relay, error) {
	c := s.cfg
	var senders *srs.Rewriter
	if c.Forward.EnvelopeFrom == forward.SRS {
		var err error
		if senders, err = rewriter(c); err != nil {
			return nil, usage(err)
		}
	}
	cfg := forward.Config{
		Host: c.SMTP.Host, Port: c.SMTP.Port, Security: c.SMTP.Security,
		Username: c.SMTP.Username, Password: string(c.SMTP.Password), AllowPlaintext: c.SMTP.AllowPlaintext,
		Auth: c.SMTP.Auth, Token: s.relayToken(),
		Connections: c.SMTP.Connections, PerConnection: orNone(c.SMTP.Limits.PerConnection), Quota: s.quota,
		NoPipelining: !c.SMTP.Pipelining, LocalName: c.SMTP.LocalName, Proxy: string(c.SMTP.Proxy),
		Fingerprint: certs.Fingerprint(c.SMTP.TLSFingerprint), ClientCert: c.SMTP.Identity,
		Certificate: s.certificateOf(ofRelay), RootCAs: c.SMTP.Roots,
		From: c.Forward.From, EnvelopeFrom: c.Forward.EnvelopeFrom, SRS: senders,
		Signer: c.Signer, Confirm: c.Bounces.Confirm, Logger: s.log, Timeouts: forward.Timeouts{Command: s.patience},
	}
	relay, err := forward.NewRelay(cfg)
	if err != nil {
		return nil, usage(err)
	}
	return relay, nil
}

func rewriter(cfg *config.Config) (*srs.Rewriter, error) {
	return srs.New(srs.Config{
		Domain: cfg.SRS.Domain, Secrets: cfg.SRS.Secrets(), MaxAge: cfg.SRS.MaxAge, Now: time.Now,
	})
}
