package imapsrc_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"postrider/internal/imapsrc"
	"postrider/internal/testserver/fakeimap"
)

var errNoToken = errors.New("the provider is closed on Mondays")

// withTokens gives out tokens, one after the other; it fails when there are none left. asked is
// what it was asked for.
func withTokens(cfg imapsrc.Config, asked *[]string, tokens ...string) imapsrc.Config {
	cfg.Password = ""
	cfg.Token = func(_ context.Context, refused string) (string, error) {
		*asked = append(*asked, refused)
		if len(tokens) == 0 {
			return "", errNoToken
		}
		token := tokens[0]
		tokens = tokens[1:]
		return token, nil
	}
	return cfg
}

func bearerGreeting(mechanisms string) fakeimap.Step {
	return fakeimap.Step{Reply: "* OK [CAPABILITY IMAP4rev1 SASL-IR " + mechanisms + "] hi\r\n"}
}

func encoded(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func xoauth2(token string) string {
	return regexp.QuoteMeta(encoded("user=ann\x01auth=Bearer " + token + "\x01\x01"))
}

func TestTokenLogin(t *testing.T) {
	const in = "{tag} OK [CAPABILITY IMAP4rev1] in\r\n"
	challenge := "+ " + encoded(`{"status":"400","scope":"https://mail.google.com/"}`) + "\r\n"
	no := "{tag} NO [AUTHENTICATIONFAILED] bad t1 t2\r\n"
	for name, tc := range map[string]struct {
		steps  []fakeimap.Step
		tokens []string
		asked  string // what the server refused, at each request for a token
		kind   imapsrc.Kind
		says   []string
	}{
		"XOAUTH2": {
			steps: []fakeimap.Step{
				bearerGreeting("AUTH=XOAUTH2"),
				{Expect: "AUTHENTICATE XOAUTH2 " + xoauth2("t1") + "$", Reply: in},
			},
			tokens: []string{"t1"}, asked: "()",
		},
		"OAUTHBEARER": {
			steps: []fakeimap.Step{
				bearerGreeting("AUTH=PLAIN AUTH=OAUTHBEARER"),
				{Expect: "AUTHENTICATE OAUTHBEARER bixhPWFubi", Reply: in},
			},
			tokens: []string{"t1"}, asked: "()",
		},
		"refused once": {
			steps: []fakeimap.Step{
				bearerGreeting("AUTH=XOAUTH2"),
				{Expect: xoauth2("t1") + "$", Reply: challenge},
				{Expect: "^AQ==$", Reply: "T1 NO bad\r\n"},
				{Expect: xoauth2("t2") + "$", Reply: in},
			},
			tokens: []string{"t1", "t2"}, asked: "()(t1)",
		},
		"refused twice": {
			steps: []fakeimap.Step{
				bearerGreeting("AUTH=XOAUTH2"),
				{Expect: xoauth2("t1") + "$", Reply: no},
				{Expect: xoauth2("t2") + "$", Reply: no},
			},
			tokens: []string{"t1", "t2"}, asked: "()(t1)", kind: imapsrc.KindAuth,
			says: []string{"refused the access token (NO [AUTHENTICATIONFAILED] bad t1 ***)", "ann is its name there"},
		},
		"no new token": {
			steps:  []fakeimap.Step{bearerGreeting("AUTH=XOAUTH2"), {Expect: xoauth2("t1") + "$", Reply: no}},
			tokens: []string{"t1"}, asked: "()(t1)", kind: imapsrc.KindToken,
			says: []string{
				"the server refused the access token (NO [AUTHENTICATIONFAILED] bad", "), and there is no new one",
				errNoToken.Error(),
			},
		},
		"refused, and there is no other": {
			steps:  []fakeimap.Step{bearerGreeting("AUTH=XOAUTH2"), {Expect: xoauth2("t1") + "$", Reply: no}},
			tokens: []string{"t1", "t1"}, asked: "()(t1)", kind: imapsrc.KindAuth,
			says: []string{"refused the access token (NO [AUTHENTICATIONFAILED] bad *** t2)"},
		},
		"a challenge, then BAD": {
			steps: []fakeimap.Step{
				bearerGreeting("AUTH=XOAUTH2"),
				{Expect: xoauth2("t1") + "$", Reply: challenge},
				{Expect: "^AQ==$", Reply: "T1 BAD what\r\n"},
				{Expect: xoauth2("t2") + "$", Reply: challenge},
				{Expect: "^AQ==$", Reply: "T2 BAD what\r\n"},
			},
			tokens: []string{"t1", "t2"}, asked: "()(t1)", kind: imapsrc.KindAuth,
			says: []string{`BAD what; status "400", it wants the scope "https://mail.google.com/"`},
		},
		"the server repeats what it refuses": {
			steps: []fakeimap.Step{
				bearerGreeting("AUTH=XOAUTH2"),
				{Expect: xoauth2("t1") + "$", Reply: no},
				{
					Expect: xoauth2("t2") + "$",
					Reply: "{tag} NO [AUTHENTICATIONFAILED] AUTHENTICATE XOAUTH2 " +
						encoded("user=ann\x01auth=Bearer t2\x01\x01") + "\r\n",
				},
			},
			tokens: []string{"t1", "t2"}, asked: "()(t1)", kind: imapsrc.KindAuth,
			says: []string{"AUTHENTICATE XOAUTH2 ***)"},
		},
		"the server is down": {
			steps: []fakeimap.Step{
				bearerGreeting("AUTH=XOAUTH2"),
				{Expect: xoauth2("t1") + "$", Reply: "{tag} NO [UNAVAILABLE] later\r\n"},
			},
			tokens: []string{"t1"}, asked: "()", kind: imapsrc.KindUnavailable, says: []string{"later"},
		},
		"takes no tokens": {
			steps: []fakeimap.Step{bearerGreeting("AUTH=PLAIN")}, tokens: []string{"t1"}, asked: "()",
			kind: imapsrc.KindAuth, says: []string{"takes no access tokens (it offers AUTH=PLAIN"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			cfg := withTokens(fake(t, append(tc.steps, logout)...), &asked, tc.tokens...)
			conn, err := imapsrc.Dial(t.Context(), cfg)
			if err == nil {
				_ = conn.Close()
			}
			if got := "(" + strings.Join(asked, ")(") + ")"; got != tc.asked {
				t.Errorf("tokens were asked for after %s, want %s", got, tc.asked)
			}
			switch {
			case tc.kind == "" && err != nil:
				t.Fatal(err)
			case tc.kind != "":
				wantError(t, err, tc.kind, tc.says...)
			}
		})
	}
}

// TestNoToken checks that the server is left alone when there is no token to show.
func TestNoToken(t *testing.T) {
	var asked []string
	cfg := imapsrc.Config{Host: "127.0.0.1", Port: 1, Security: imapsrc.SecurityNone, Username: "ann"}
	_, err := imapsrc.Dial(t.Context(), withTokens(cfg, &asked))
	wantError(t, err, imapsrc.KindToken, "get an access token: ", errNoToken.Error())
	if !errors.Is(err, errNoToken) {
		t.Errorf("the error %v does not wrap its cause", err)
	}
}

// loginNeeded is an error that only a person can do something about.
type loginNeeded struct{ error }

func (loginNeeded) NeedsLogin() {}

func TestLoginNeeded(t *testing.T) {
	cfg := imapsrc.Config{Host: "127.0.0.1", Port: 1, Security: imapsrc.SecurityNone, Username: "ann"}
	cfg.Token = func(context.Context, string) (string, error) {
		return "", fmt.Errorf("corp: %w", loginNeeded{errNoToken})
	}
	_, err := imapsrc.Dial(t.Context(), cfg)
	wantError(t, err, imapsrc.KindLogin, "get an access token: corp: ", errNoToken.Error())
}
