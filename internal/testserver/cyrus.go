package testserver

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
)

const cyrusMissing = "Cyrus is not here: CI=true scripts/test gets it"

const cyrusConfig = `configdirectory: %[1]s/conf
partition-default: %[1]s/mail
defaultpartition: default
cyrus_user: %[2]s
cyrus_group: %[3]s
allowplaintext: yes
sasl_pwcheck_method: saslauthd
sasl_saslauthd_path: %[1]s/run/mux
sasl_mech_list: PLAIN LOGIN
virtdomains: userid
altnamespace: yes
autocreate_quota: 0
`

const cyrusServices = `START {
  recover cmd="/usr/lib/cyrus/bin/ctl_cyrusdb -C %[1]s/imapd.conf -r"
}
SERVICES {
  imap cmd="%[1]s/imapd -C %[1]s/imapd.conf" listen="127.0.0.1:%[2]d" prefork=0 maxchild=100
}
`

// Cyrus starts a Cyrus IMAP server of the test's own, and stops it when the test is over. It takes
// any password. A host without Cyrus skips the test.
func Cyrus(t testing.TB) *IMAP {
	t.Helper()
	master, server := findBinary("cyrmaster"), filepath.Join(cacheDir(), "cyrus-root/usr/lib/cyrus/bin/imapd")
	if _, err := os.Stat(server); master == "" || err != nil {
		t.Skip(cyrusMissing)
	}
	as, err := plainAccount()
	if err != nil {
		t.Fatal(err)
	}
	ports, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	s := &IMAP{Host: loopback, Port: ports[0], as: as}
	if err := s.prepareCyrus(t, server); err != nil {
		t.Fatalf("prepare a Cyrus: %v", err)
	}
	p, err := startProcess(filepath.Join(s.dir, "cyrus.log"), as, master,
		"-C", filepath.Join(s.dir, "imapd.conf"), "-M", filepath.Join(s.dir, "cyrus.conf"),
		"-p", filepath.Join(s.dir, "run", "pid"), "-D")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	if err := p.waitListening(s.Port); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *IMAP) prepareCyrus(t testing.TB, server string) error {
	dir, err := newDir("cyrus")
	if err != nil {
		return err
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the folder of a Cyrus: %v", err)
		}
	})
	s.dir = dir
	folders := []string{"", "users", "run", "mail", "conf", "conf/socket", "conf/proc", "conf/lock", "conf/log"}
	for _, sub := range folders {
		if err := s.mkdir(filepath.Join(dir, sub)); err != nil {
			return err
		}
	}
	program, err := os.ReadFile(server) // a copy: the cache may be for its owner only
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "imapd"), program, 0o755); err != nil {
		return err
	}
	for name, text := range map[string]string{
		"imapd.conf": fmt.Sprintf(cyrusConfig, dir, s.as.name, s.as.group),
		"cyrus.conf": fmt.Sprintf(cyrusServices, dir, s.Port),
	} {
		if err := s.writeFile(filepath.Join(dir, name), []byte(text)); err != nil {
			return err
		}
	}
	return s.letIn(t, filepath.Join(dir, "run", "mux"))
}

// letIn answers for saslauthd: whoever asks, may come in.
func (s *IMAP) letIn(t testing.TB, socket string) error {
	ln, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				for range 4 { // the user, the password, the service, the realm
					var n uint16
					if binary.Read(conn, binary.BigEndian, &n) != nil {
						return
					}
					if _, err := io.CopyN(io.Discard, conn, int64(n)); err != nil {
						return
					}
				}
				_, _ = conn.Write([]byte("\x00\x02OK"))
			}()
		}
	}()
	return s.as.own(socket)
}
