package forward

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// scripted is a relay that answers line by line; the greeting is the answer to an empty line. With
// a configuration of TLS it negotiates that after it has answered STARTTLS.
func scripted(t *testing.T, conf *tls.Config, answer func(line string) string) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { converse(c, conf, answer) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return l.Addr().(*net.TCPAddr).Port
}

func converse(c net.Conn, conf *tls.Config, answer func(line string) string) {
	defer func() { _ = c.Close() }()
	lines := bufio.NewScanner(c)
	for line := ""; ; line = lines.Text() {
		if _, err := io.WriteString(c, answer(line)+"\r\n"); err != nil {
			return
		}
		if strings.EqualFold(line, "STARTTLS") && conf != nil {
			c = tls.Server(c, conf)
			lines = bufio.NewScanner(c)
		}
		if !lines.Scan() {
			return
		}
	}
}
