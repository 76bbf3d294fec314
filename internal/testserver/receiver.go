package testserver

import (
	"embed"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"
)

//go:embed receiver/*.conf
var receiverConfigs embed.FS

// Receiver is the mail server of receiver.example: a Postfix that has each message judged by rspamd
// on one port, and by OpenDMARC, with OpenDKIM before it, on another. Both do what the DMARC policy
// of the author asks for. What arrives has their results in Authentication-Results, and X-Spam
// where rspamd takes it for spam.
type Receiver struct {
	Rspamd, OpenDMARC int // the ports
}

// ReceiverClient is the address that a Receiver takes its client for. SPF is about addresses, and
// filters trust those on loopback.
const ReceiverClient = "192.0.2.25"

// publicSuffixes are those of domains that tests use. rspamd takes a minute to compile all that
// there are.
const publicSuffixes = "com\norg\nuk\nco.uk\nexample\n"

// StartReceiver starts a server of the test's own, which asks dns and hands what it accepts to
// next, a port on loopback. It is stopped when the test is over; when the test failed, what its
// programs logged is shown. It needs root, and programs that not every machine can have: without
// them the test is skipped, whatever is required.
func StartReceiver(t testing.TB, dns *DNS, next int) *Receiver {
	t.Helper()
	for _, program := range []string{"rspamd", "opendkim", "opendmarc"} {
		if findBinary(program) == "" {
			t.Skipf("%s is not installed: as root, run scripts/test, "+
				"or apt-get install rspamd opendkim opendmarc", program)
		}
	}
	if os.Getuid() != 0 {
		t.Skip("Postfix has to be started by root: run the tests as root")
	}
	ports, err := freePorts(5)
	if err != nil {
		t.Fatal(err)
	}
	rspamd, opendkim, opendmarc := ports[0], ports[1], ports[2]
	r := &Receiver{}
	starting := []*process{
		startRspamd(t, dns, rspamd), startOpenDKIM(t, dns, opendkim), startOpenDMARC(t, dns, opendmarc),
	}
	filtered := func(port int, milters ...int) string {
		var list []string
		for _, m := range milters {
			list = append(list, "inet:"+address(m))
		}
		return fmt.Sprintf("%s inet n - n - - smtpd -o smtpd_upstream_proxy_protocol=haproxy -o smtpd_milters=%s",
			address(port), strings.Join(list, ","))
	}
	Postfix(t, PostfixOptions{
		Next:     next,
		Services: []string{filtered(ports[3], rspamd), filtered(ports[4], opendkim, opendmarc)},
		Settings: []string{
			"myhostname = mx.receiver.example", "relay_domains = receiver.example", "relay_recipient_maps =",
			"smtpd_relay_restrictions = permit_auth_destination, reject",
			"smtpd_tls_security_level = none", "smtpd_sasl_auth_enable = no",
			"in_flow_delay = 0", "smtp_line_length_limit = 0", "message_drop_headers =",
		},
	})
	for i, p := range starting {
		if err := p.waitListening(ports[i]); err != nil {
			t.Fatal(err)
		}
	}
	r.Rspamd, r.OpenDMARC = disguise(t, ports[3]), disguise(t, ports[4])
	return r
}

// disguise is a port that leads to a server's, with ReceiverClient as the client.
func disguise(t testing.TB, port int) int {
	return Listen(t, func(client net.Conn) {
		server, err := net.Dial("tcp", address(port))
		if err != nil {
			return
		}
		defer func() { _ = server.Close() }()
		_, _ = fmt.Fprintf(server, "PROXY TCP4 %s 192.0.2.1 40000 25\r\n", ReceiverClient)
		go func() {
			_, _ = io.Copy(server, client)
			_ = server.Close()
		}()
		_, _ = io.Copy(client, server)
	})
}

func startRspamd(t testing.TB, dns *DNS, port int) *process {
	as, err := plainAccount()
	if err != nil {
		t.Fatal(err)
	}
	dir := receiverDir(t, "rspamd")
	if err := as.own(dir); err != nil {
		t.Fatal(err)
	}
	receiverFile(t, dir, "suffixes", publicSuffixes)
	conf := receiverConfig(t, dir, "rspamd.conf", map[string]any{
		"Dir": dir, "Port": port, "DNS": dns.Address,
		"OtherClock": os.Getenv("FAKETIME") != "", // by its own clock our signatures are of the future then
	})
	return startFilter(t, dir, as, ownClock(findBinary("rspamd"), "-f", "-c", conf)...)
}

func startOpenDKIM(t testing.TB, dns *DNS, port int) *process {
	dir := receiverDir(t, "opendkim")
	host, dnsPort, _ := net.SplitHostPort(dns.Address)
	receiverConfig(t, dir, "unbound.conf", map[string]any{"Address": host + "@" + dnsPort})
	config := receiverConfig(t, dir, "opendkim.conf", map[string]any{"Dir": dir, "Port": port})
	return startFilter(t, dir, nil, findBinary("opendkim"), "-f", "-x", config)
}

// startOpenDMARC starts it in a root directory of its own: the only way to point its resolver
// somewhere is /etc/resolv.conf, which takes no port.
func startOpenDMARC(t testing.TB, dns *DNS, port int) *process {
	dir := receiverDir(t, "opendmarc")
	receiverFile(t, dir, "etc/resolv.conf", "nameserver "+dns.OnPort53(t)+"\n")
	receiverFile(t, dir, "ignored", "192.0.2.255\n") // else it ignores this host
	receiverFile(t, dir, "suffixes", publicSuffixes)
	receiverFile(t, filepath.Join(dir, dir), "suffixes", publicSuffixes) // for reloads in that root
	conf := receiverConfig(t, dir, "opendmarc.conf", map[string]any{"Dir": dir, "Port": port})
	return startFilter(t, dir, nil, findBinary("opendmarc"), "-f", "-c", conf)
}

// startFilter starts a program, which ends with the test.
func startFilter(t testing.TB, dir string, as *account, argv ...string) *process {
	log := filepath.Join(dir, "log")
	p, err := startProcess(log, as, argv...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		if text, err := os.ReadFile(log); t.Failed() && err == nil {
			t.Logf("%s logged:\n%s", filepath.Base(argv[0]), text)
		}
	})
	return p
}

// receiverDir is a folder that other users can read.
func receiverDir(t testing.TB, name string) string {
	dir, err := newDir(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// receiverConfig writes a configuration file, and returns its path.
func receiverConfig(t testing.TB, dir, name string, values map[string]any) string {
	tmpl, err := template.ParseFS(receiverConfigs, "receiver/"+name)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := tmpl.Execute(&text, values); err != nil {
		t.Fatal(err)
	}
	return receiverFile(t, dir, name, text.String())
}

// receiverFile writes a file, and returns its path.
func receiverFile(t testing.TB, dir, name, text string) string {
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
