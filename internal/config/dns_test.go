package config

import "testing"

func TestDNSServer(t *testing.T) {
	for given, want := range map[string]string{
		"192.0.2.53": "192.0.2.53:53", "127.0.0.1:5353": "127.0.0.1:5353",
		`"2001:db8::53"`: "[2001:db8::53]:53", `"[::1]:5353"`: "[::1]:5353",
	} {
		if got := load(t, minimal+"dns: {server: "+given+"}\n").DNS.Server; got != want {
			t.Errorf("dns.server: %s is read as %q, want %q", given, got, want)
		}
	}
}
