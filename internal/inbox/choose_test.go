package inbox

import "testing"

func TestHostPort(t *testing.T) {
	for host, want := range map[string]string{
		"imap.firm.example": "imap.firm.example:993", "192.0.2.1": "192.0.2.1:993", "2001:db8::1": "[2001:db8::1]:993",
	} {
		in := Inbox{Host: host, Port: 993, Security: TLS}
		if got := in.HostPort(); got != want {
			t.Errorf("the server %s is %s, want %s", host, got, want)
		}
		if got := in.Server(); got != want+" tls" {
			t.Errorf("the server %s with its security is %s, want %s tls", host, got, want)
		}
	}
}
