package bearer

import (
	"slices"
	"testing"
)

func TestInitial(t *testing.T) {
	for _, tt := range []struct{ mechanism, user, want string }{
		// The example of Google's documentation, and that of RFC 7628 4.1.
		{XOAuth2, "someuser@example.com", "user=someuser@example.com\x01auth=Bearer ya29.vF9\x01\x01"},
		{
			OAuthBearer, "user@example.com",
			"n,a=user@example.com,\x01host=server.example.com\x01port=143\x01auth=Bearer ya29.vF9\x01\x01",
		},
		{
			OAuthBearer, "a,b=c@example.com",
			"n,a=a=2Cb=3Dc@example.com,\x01host=server.example.com\x01port=143\x01auth=Bearer ya29.vF9\x01\x01",
		},
	} {
		l := Login{Mechanism: tt.mechanism, Username: tt.user, Host: "server.example.com", Port: 143, Token: "ya29.vF9"}
		if got := string(l.Initial()); got != tt.want {
			t.Errorf("%s begins with %q, want %q", tt.mechanism, got, tt.want)
		}
	}
}

func TestChoose(t *testing.T) {
	for _, tt := range []struct {
		offered []string
		want    string
	}{
		{nil, ""},
		{[]string{"PLAIN", "LOGIN"}, ""},
		{[]string{"PLAIN", "XOAUTH2"}, XOAuth2},
		{[]string{"OAUTHBEARER"}, OAuthBearer},
		{[]string{"OAUTHBEARER", "XOAUTH2"}, XOAuth2},
	} {
		if got := Choose(tt.offered); got != tt.want {
			t.Errorf("of %q it chooses %q, want %q", tt.offered, got, tt.want)
		}
	}
}

func TestAnswer(t *testing.T) {
	for _, tt := range []struct{ challenge, want string }{
		{
			`{"status":"400","schemes":"Bearer","scope":"https://mail.google.com/"}`,
			`status "400", it wants the scope "https://mail.google.com/"`,
		},
		{`{"status":"invalid_token"}`, `status "invalid_token"`},
		{"\x1b[2Jno \xff", `the server says "[2Jno ?"`},
		{`[1]`, `the server says "[1]"`},
		{"", `the server says ""`},
	} {
		var l Login
		if answer := l.Answer([]byte(tt.challenge)); string(answer) != "\x01" || l.Refusal() != tt.want {
			t.Errorf("after %q: answer %q, refusal %s; want \\x01 and %s", tt.challenge, answer, l.Refusal(), tt.want)
		}
	}
}

// TestSecrets: each message of a login is among what is taken out of a server's text.
func TestSecrets(t *testing.T) {
	l := Login{Username: "ann", Host: "h", Port: 1, Token: "ya29.vF9"}
	for _, m := range []string{XOAuth2, OAuthBearer} {
		l.Mechanism = m
		if !slices.Contains(l.Secrets(), string(l.Initial())) || !slices.Contains(l.Secrets(), l.Token) {
			t.Errorf("%s: the secrets are %q, want its message and the token among them", m, l.Secrets())
		}
	}
	if (Login{}).Secrets() != nil {
		t.Error("there are secrets without a token")
	}
}
