package cmd

import (
	"net"
	"path/filepath"
	"strconv"
	"testing"

	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

// TestCheckThroughProxy checks that smtp.proxy is where the relay is reached.
func TestCheckThroughProxy(t *testing.T) {
	sink, err := smtpsink.Start(smtpsink.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sink.Close)
	g := testserver.StartGateway(t, net.JoinHostPort("127.0.0.1", strconv.Itoa(sink.Port())), testserver.SOCKSProxy)
	code, stderr := runIn(t.Context(), t, map[string]string{
		"POSTRIDER_DATABASE_PATH": filepath.Join(t.TempDir(), "p.db"), "POSTRIDER_SMTP_HOST": "smtp.firm.example",
		"POSTRIDER_SMTP_PORT": "25", "POSTRIDER_SMTP_PROXY": "socks5://bob:p%3Aw@" + g.Addr,
	}, "check")
	if code != exitOK || g.LastTarget() != "smtp.firm.example:25" {
		t.Errorf("exit code %d, %q, and the proxy was asked for %q; want 0, and smtp.firm.example:25",
			code, stderr, g.LastTarget())
	}
}
