package inbox

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

// TestCertificatesAreStored, changed and removed; a password stays usable.
func TestCertificatesAreStored(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		hex := strings.Repeat("0A", 32)
		ca, client := filepath.Join(t.TempDir(), "ca.pem"), filepath.Join(t.TempDir(), "client.pem")
		desk := Inbox{Address: "a@x.org", Host: "h", CAFile: ca, TLSFingerprint: "SHA256:" + hex}
		in, err := b.Add(b.ctx, desk, "hunter2")
		if err != nil {
			t.Fatal(err)
		}
		wantTrust(t, b, in, ca, "sha256:"+strings.ToLower(hex), "")
		if in, err = b.Set(b.ctx, in.Address, Changes{ClientCert: ptr(client), TLSFingerprint: ptr("")}); err != nil {
			t.Fatal(err)
		}
		wantTrust(t, b, in, ca, "", client)
		for _, tt := range []struct {
			name string
			c    Changes
			want string
		}{
			{
				"a fingerprint that is none",
				Changes{TLSFingerprint: ptr("sha256:0A")},
				"is not sha256: and 64 hex digits",
			},
			{"a relative path", Changes{CAFile: ptr("ca.pem")}, "has no absolute path"},
			{
				"without TLS",
				Changes{Security: ptr(None), AllowPlaintext: ptr(true)},
				"security none has no certificates",
			},
		} {
			_, err := b.Set(b.ctx, in.Address, tt.c)
			wantError(t, err, tt.want)
			if !errors.As(err, new(*InvalidError)) {
				t.Errorf("%s: the error is a %T, want an *InvalidError", tt.name, err)
			}
		}
		wantTrust(t, b, b.get(in.Address), ca, "", client)
	})
}

// TestCertificatesOfOthers: a password is not used for certificates that something else stored, and
// what it stored does not outlast the command that sets the password again.
func TestCertificatesOfOthers(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		again := Changes{
			Host: ptr("imap.x.org"), Port: ptr(993), Security: ptr(TLS), Username: ptr("a"), Password: ptr("hunter2"),
		}
		mine := filepath.Join(t.TempDir(), "mine.pem")
		for column, value := range map[string]string{
			"ca_file":         "/tmp/evil.pem",
			"tls_fingerprint": "sha256:" + strings.Repeat("e0", 32),
			"client_cert":     "/tmp/evil.pem",
		} {
			in := b.add(column + "@x.org")
			b.exec(`UPDATE monitored_emails SET `+column+` = ? WHERE id = ?`, value, in.ID)
			_, err := b.Password(b.ctx, b.get(in.Address))
			wantError(t, err, "changed by another program", value)
			_, err = b.Set(b.ctx, in.Address, Changes{Password: ptr("new")})
			wantError(t, err, setAgain(in.Address))
			c := again
			c.CAFile = ptr(mine)
			got, err := b.Set(b.ctx, in.Address, c)
			if err != nil {
				t.Fatal(err)
			}
			wantTrust(t, b, got, mine, "", "")
			// While nothing is wrong with the row, what is not given stays.
			if got, err = b.Set(b.ctx, in.Address, again); err != nil {
				t.Fatal(err)
			}
			wantTrust(t, b, got, mine, "", "")
		}
	})
}

func wantTrust(t *testing.T, b bench, in Inbox, ca, fingerprint, client string) {
	t.Helper()
	if in.CAFile != ca || in.TLSFingerprint != fingerprint || in.ClientCert != client {
		t.Errorf("the inbox has %q, %q and %q; want %q, %q and %q",
			in.CAFile, in.TLSFingerprint, in.ClientCert, ca, fingerprint, client)
	}
	if got, err := b.Password(b.ctx, in); err != nil || got != "hunter2" {
		t.Errorf("the password comes back as %q (%v), want hunter2", got, err)
	}
}
