package forward

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"postrider/internal/testserver/smtpsink"
)

func TestTokenLogin(t *testing.T) {
	errClosed := errors.New("the provider is closed on Mondays")
	for _, tt := range []struct {
		name    string
		offered []string
		tokens  []string // that are given out; none is left then
		asked   string   // what the relay refused, at each request
		login   string   // the mechanism
		says    []string
	}{
		{"XOAUTH2", []string{"PLAIN", "XOAUTH2", "OAUTHBEARER"}, []string{"good"}, "()", "XOAUTH2", nil},
		{"OAUTHBEARER", []string{"OAUTHBEARER"}, []string{"good"}, "()", "OAUTHBEARER", nil},
		{"refused once", []string{"XOAUTH2"}, []string{"old", "good"}, "()(old)", "XOAUTH2", nil},
		{"refused once, OAUTHBEARER", []string{"OAUTHBEARER"}, []string{"old", "good"}, "()(old)", "OAUTHBEARER", nil},
		{"refused twice", []string{"XOAUTH2"}, []string{"old", "older"}, "()(old)", "", []string{
			"535 5.7.8", `status "invalid_token", it wants the scope "mail"`, "smtp.username is its name there",
		}},
		{"the same token again", []string{"XOAUTH2"}, []string{"old", "old"}, "()(old)", "", []string{
			"535 5.7.8", `status "invalid_token", it wants the scope "mail"`, "smtp.username is its name there",
		}},
		{"no new token", []string{"XOAUTH2"}, []string{"old"}, "()(old)", "", []string{
			"it refused the access token (535 5.7.8 ", `"mail"), and there is no new one`, errClosed.Error(),
		}},
		{"no token", []string{"XOAUTH2"}, nil, "()", "", []string{errClosed.Error()}},
		{"not offered", []string{"PLAIN"}, []string{"good"}, "()", "", []string{
			`the relay offers "PLAIN", and neither XOAUTH2 nor OAUTHBEARER`,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var asked []string
			left := tt.tokens
			s := sink(t, smtpsink.Options{Auth: tt.offered, Users: map[string]string{user: "good"}})
			r := relayOn(t, s.Port(), func(c *Config) {
				c.Username, c.Token = user, func(_ context.Context, refused string) (string, error) {
					asked = append(asked, refused)
					if len(left) == 0 {
						return "", errClosed
					}
					token := left[0]
					left = left[1:]
					return token, nil
				}
			})
			info, err := r.Info(t.Context(), nil)
			if got := "(" + strings.Join(asked, ")(") + ")"; got != tt.asked {
				t.Errorf("tokens were asked for after %s, want %s", got, tt.asked)
			}
			if n, want := s.Connections(), len(slices.Compact(slices.Clone(tt.tokens))); n != want {
				t.Errorf("there were %d connections, want %d: one for each token", n, want)
			}
			if info.Login != tt.login || (err == nil) != (tt.login != "") {
				t.Fatalf("logged in with %q, %v; want %q", info.Login, err, tt.login)
			}
			for _, says := range tt.says {
				if !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "older") {
					t.Errorf("the error is %v, want %q in it, and no token", err, says)
				}
			}
		})
	}
}
