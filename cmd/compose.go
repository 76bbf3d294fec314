package cmd

import (
	"context"
	"errors"
	"net"

	"postrider/internal/config"
	"postrider/internal/dmarc"
	"postrider/internal/forward"
)

// nameServer is a resolver that asks dns.server. A *net.Resolver names a server of the system in
// its errors instead.
type nameServer struct {
	*net.Resolver
	address string // empty for those of the system
}

// LookupTXT implements dmarc.Resolver and arc.Resolver.
func (n nameServer) LookupTXT(ctx context.Context, name string) ([]string, error) {
	texts, err := n.Resolver.LookupTXT(ctx, name)
	if failed, ok := errors.AsType[*net.DNSError](err); ok && n.address != "" {
		failed.Server = n.address
	}
	return texts, err
}

// resolver is the DNS resolver of mode auto and ARC.
func resolver(cfg *config.Config) nameServer {
	r := &net.Resolver{PreferGo: true} // the Go resolver stops with its context on all systems
	if cfg.DNS.Server != "" {
		r.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, cfg.DNS.Server)
		}
	}
	return nameServer{r, cfg.DNS.Server}
}

// composer returns the Composer of outgoing messages.
func composer(cfg *config.Config, dns dmarc.Resolver) (*forward.Composer, error) {
	made, err := forward.NewComposer(forward.ComposeConfig{
		From: cfg.Forward.From, Note: cfg.Forward.Note, Key: cfg.Key, Sealer: cfg.Sealer, Judge: dmarc.NewJudge(dns),
	})
	if err != nil {
		return nil, usage(err)
	}
	return made, nil
}
