package imapsrc

import (
	"context"
	"net"
)

// DialOver is Dial over a connection that is open.
func DialOver(ctx context.Context, conn net.Conn, cfg Config) (*Conn, error) {
	c := newConn(cfg)
	if err := c.greet(ctx, conn); err != nil {
		return nil, err
	}
	if err := c.enter(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}
