package imapsrc

import (
	"context"
	"errors"
	"net"

	"postrider/internal/proxy"
)

// connect opens a connection to the server, through the proxy if there is one.
func (c *Conn) connect(ctx context.Context) (net.Conn, error) {
	conn, err := proxy.Dialer{Proxy: c.cfg.Proxy, RootCAs: c.cfg.RootCAs}.Dial(ctx, c.host)
	if err == nil {
		return conn, nil
	}
	var setting *proxy.SettingError
	var secure *proxy.TLSError
	switch {
	case errors.As(err, &setting):
		err = &Error{Kind: KindLocal, Err: err}
	case errors.As(err, &secure) && ctx.Err() == nil:
		err = tlsFailure(secure.Err, secure.Host)
	case errors.Is(err, proxy.ErrEndless):
		err = &Error{Kind: KindProtocol, Err: err}
	}
	return nil, err
}
