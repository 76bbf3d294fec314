package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"postrider/internal/forward"
	"postrider/internal/imapsrc"
	"postrider/internal/inbox"
	"postrider/internal/oauth"
	"postrider/internal/text"
	"postrider/internal/tokens"
)

// credentials are what an inbox logs in with: a password, or what gives out its tokens.
func (s *services) credentials(ctx context.Context, in inbox.Inbox) (password string, _ imapsrc.Token, err error) {
	acct, err := s.account(in)
	if err != nil || acct == nil {
		if err == nil {
			password, err = s.inboxes.Password(ctx, in)
		}
		return password, nil, err
	}
	if in.ID == 0 && acct.App.Way() != oauth.Application { // it is not stored yet, and has a token of its own
		access, err := s.tokens.Try(ctx, *acct)
		return "", only(access), err
	}
	access := func(ctx context.Context, refused string) (string, error) {
		return s.tokens.Access(ctx, *acct, refused)
	}
	return "", access, nil
}

// account is whose tokens an inbox uses; nil when it has a password.
func (s *services) account(in inbox.Inbox) (*tokens.Account, error) {
	name, err := s.inboxes.OAuth(in)
	if err != nil || name == "" {
		return nil, err
	}
	app, err := s.app(name)
	if err != nil {
		return nil, fmt.Errorf("inbox %s: %w", in.Address, err)
	}
	acct := tokens.ForInbox(in, app)
	return &acct, nil
}

// app is an application of the configuration.
func (s *services) app(name string) (*oauth.App, error) {
	if app := s.cfg.Apps[name]; app != nil {
		return app, nil
	}
	known := slices.Sorted(maps.Keys(s.cfg.Apps))
	if len(known) == 0 {
		return nil, usage(fmt.Errorf("there is no OAuth2 application %q: the configuration has no section oauth; "+
			"docs/providers.md says what to write there", name))
	}
	return nil, usage(fmt.Errorf("there is no OAuth2 application %q in the section oauth of the configuration%s",
		name, cmp.Or(text.DidYouMean(name, known), ", which has "+strings.Join(known, ", "))))
}

// relayAccount is whose tokens the relay gets.
func (s *services) relayAccount() (tokens.Account, error) {
	if s.cfg.SMTP.Auth != "oauth" {
		return tokens.Account{}, usage(errors.New("the relay does not log in with OAuth2; " +
			"set smtp.auth to oauth, and smtp.oauth to the name of an application"))
	}
	app, err := s.app(s.cfg.SMTP.OAuth)
	if err != nil {
		return tokens.Account{}, err
	}
	smtp := s.cfg.SMTP
	return tokens.ForRelay(fmt.Sprintf("%s:%d %s", smtp.Host, smtp.Port, smtp.Security), smtp.Username, app), nil
}

// relayToken gives out tokens for the relay; nil when it gets a password.
func (s *services) relayToken() forward.Token {
	if s.cfg.SMTP.Auth != "oauth" {
		return nil
	}
	return func(ctx context.Context, refused string) (string, error) {
		if s.tokens == nil {
			return "", errors.New("the relay's access token is in the database, which cannot be used now; " +
				"in a new installation run `postrider migrate` and `postrider smtp login`")
		}
		acct, err := s.relayAccount()
		if err != nil {
			return "", err
		}
		return s.tokens.Access(ctx, acct, refused)
	}
}

// logins says of which inboxes, by their ids, a person has to log in, and why; key 0 is the relay.
func (s *services) logins(ctx context.Context) (map[int64]string, error) {
	var relay *tokens.Account
	if acct, err := s.relayAccount(); err == nil {
		relay = &acct
	}
	return s.tokens.Needed(ctx, s.cfg.Apps, relay)
}
