package imapsrc_test

import (
	"maps"
	"testing"

	"postrider/internal/imapsrc"
	"postrider/internal/testserver/fakeimap"
)

var names = []string{"Archive", "INBOX", "Junk"}

// TestCounts: a folder that the server does not count is left out.
func TestCounts(t *testing.T) {
	c := dial(t, fake(t, greeting, loggedIn,
		fakeimap.Step{Expect: `STATUS "?Archive"? \(MESSAGES\)$`, Reply: "{tag} NO [NOPERM] not yours\r\n"},
		fakeimap.Step{Expect: `STATUS "?INBOX"? \(MESSAGES\)$`, Reply: "* STATUS INBOX (MESSAGES 4)\r\n" + tagOK},
		fakeimap.Step{Expect: `STATUS "?Junk"? \(MESSAGES\)$`, Reply: "* STATUS Junk (MESSAGES 0)\r\n" + tagOK},
		logout))
	got, err := c.Counts(t.Context(), names)
	if want := map[string]uint32{"INBOX": 4, "Junk": 0}; err != nil || !maps.Equal(got, want) {
		t.Errorf("Counts = %v, %v; want %v", got, err, want)
	}
}

func TestCountsLost(t *testing.T) {
	c := dial(t, fake(t, greeting, loggedIn, fakeimap.Step{Expect: "STATUS", Reply: "* BYE later\r\n", Close: true}))
	_, err := c.Counts(t.Context(), names)
	wantError(t, err, imapsrc.KindUnavailable, "count the messages of the folders", "later")
}

// TestHint: what a provider wants stands before the way to give it.
func TestHint(t *testing.T) {
	const hint = "make an app password at https://provider.example/"
	for says, set := range map[string]func(*imapsrc.Config){
		"bad); " + hint + "; set it with `postrider inbox set ann --password-stdin`": func(*imapsrc.Config) {},
		"bad); " + hint + "; try again with the right one; nothing was stored": func(c *imapsrc.Config) {
			c.Unstored = true
		},
		"bad); " + hint + "; change it in file:/run/secrets/ann": func(c *imapsrc.Config) {
			c.PasswordFrom = "file:/run/secrets/ann"
		},
		"bad); " + hint + "; use OAuth2: set up an application in the configuration, and give --oauth NAME": func(
			c *imapsrc.Config,
		) {
			c.OnlyOAuth, c.Unstored = true, true
		},
		hint + "; set up an application in the configuration, then `postrider inbox set ann --oauth NAME`": func(
			c *imapsrc.Config,
		) {
			c.OnlyOAuth = true
		},
	} {
		t.Run(says, func(t *testing.T) {
			refused := fakeimap.Step{Expect: "LOGIN", Reply: "{tag} NO [AUTHENTICATIONFAILED] bad\r\n"}
			cfg := fake(t, greeting, refused, logout)
			cfg.Hint = hint
			set(&cfg)
			_, err := imapsrc.Dial(t.Context(), cfg)
			wantError(t, err, imapsrc.KindAuth, says)
		})
	}
}

// TestCountsDovecot: all folders are counted in one go, names in other scripts and with the first
// command after the login, which ID goes with.
func TestCountsDovecot(t *testing.T) {
	s, cfg := dovecotConfig(t)
	s.Append(t, "ann", "INBOX", mail(1), mail(2))
	s.Append(t, "ann", "Entwürfe", mail(3))
	got, err := dial(t, cfg).Counts(t.Context(), []string{"Entwürfe", "INBOX", "Nowhere"})
	if want := map[string]uint32{"INBOX": 2, "Entwürfe": 1}; err != nil || !maps.Equal(got, want) {
		t.Errorf("Counts = %v, %v; want %v", got, err, want)
	}
}
