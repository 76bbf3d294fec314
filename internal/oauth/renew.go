package oauth

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
	"golang.org/x/oauth2/jwt"
)

// Key is the key of a Google service account, as Google gives it out.
type Key struct {
	Email   string `json:"client_email"`
	ID      string `json:"private_key_id"`
	Private string `json:"private_key"`
	URL     string `json:"token_uri"`
	Type    string `json:"type"`
}

// ParseKey reads the JSON file of a service account.
func ParseKey(file []byte) (*Key, error) {
	k := &Key{}
	if err := json.Unmarshal(file, k); err != nil {
		return nil, errors.New("it is not JSON; download the key of the service account as JSON")
	}
	if k.Type != "service_account" || k.Email == "" || k.Private == "" || !Secure(k.URL) {
		return nil, errors.New("it is not the key of a service account " +
			"(type service_account, with client_email, private_key and token_uri)")
	}
	if block, _ := pem.Decode([]byte(k.Private)); block == nil {
		return nil, errors.New("its private_key is no PEM; download the key again")
	}
	return k, nil
}

// Renew returns a new token for an account: with what the last login or renewal left, or as the
// application itself. A provider may take the refresh token of old only once: whoever calls Renew
// has to see to it that nobody else does with the same token, and to store what it returns.
func (a *App) Renew(ctx context.Context, use Use, account string, old Token) (Token, error) {
	ctx, cancel := context.WithTimeout(withClient(ctx), patience)
	defer cancel()
	got, err := a.renew(ctx, use, account, old)
	if err != nil {
		return Token{}, a.explain(err, old.Refresh, old.Access)
	}
	return newToken(got), nil
}

func (a *App) renew(ctx context.Context, use Use, account string, old Token) (*oauth2.Token, error) {
	if k := a.Key; k != nil {
		config := &jwt.Config{
			Email: k.Email, PrivateKey: []byte(k.Private), PrivateKeyID: k.ID, TokenURL: k.URL,
			Subject: account, Scopes: a.scopes(google.app),
		}
		return config.TokenSource(ctx).Token()
	}
	p, err := a.provider(ctx)
	if err != nil {
		return nil, err
	}
	if a.Way() == Application {
		config := &clientcredentials.Config{
			ClientID: a.ClientID, ClientSecret: a.ClientSecret,
			TokenURL: p.endpoint.TokenURL, AuthStyle: p.endpoint.AuthStyle,
			Scopes: a.scopes(p.app),
		}
		return config.Token(ctx)
	}
	if old.Refresh == "" {
		return nil, &LoginError{
			Reason: fmt.Sprintf("%s gave nothing to renew the access token with (no refresh token)", a.Name),
		}
	}
	return a.config(p, use).TokenSource(ctx, &oauth2.Token{RefreshToken: old.Refresh}).Token()
}
