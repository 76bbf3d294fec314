package imapsrc_test

import (
	"testing"

	"postrider/internal/imapsrc"
	"postrider/internal/testserver/fakeimap"
)

// TestLoginNotOffered: a login that the inbox is set to, and that the server does not offer, is not
// tried.
func TestLoginNotOffered(t *testing.T) {
	for auth, tc := range map[string]struct{ caps, says string }{
		"login": {"AUTH=PLAIN LOGINDISABLED", "does not offer LOGIN (it offers AUTH=PLAIN)"},
		"plain": {"AUTH=XOAUTH2", "does not offer PLAIN (it offers AUTH=XOAUTH2 LOGIN)"},
	} {
		t.Run(auth, func(t *testing.T) {
			cfg := fake(t, fakeimap.Step{Reply: "* OK [CAPABILITY IMAP4rev1 " + tc.caps + "] hi\r\n"}, logout)
			cfg.Auth = auth
			_, err := imapsrc.Dial(t.Context(), cfg)
			wantError(t, err, imapsrc.KindAuth, tc.says, "`postrider inbox set ann --auth auto`")
		})
	}
	cfg := fake(t, fakeimap.Step{Reply: "* OK [CAPABILITY IMAP4rev1 LOGINDISABLED AUTH=XOAUTH2] hi\r\n"}, logout)
	cfg.Auth = "plain"
	_, err := imapsrc.Dial(t.Context(), cfg)
	wantError(t, err, imapsrc.KindPlaintext, "accepts no password on an unencrypted connection")
}
