package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"postrider/internal/account"
	"postrider/internal/address"
	"postrider/internal/config"
	"postrider/internal/secret"
	"postrider/internal/terminal"
)

const (
	noLogin    = "none" // in place of a username
	whichRelay = "Relay (the name of the SMTP server, or NAME:PORT)"
)

// initFlags are the flags of init for the keys of the configuration.
var initFlags = map[string]string{
	"smtp.host": "--smtp-host", "smtp.port": "--smtp-port", "smtp.security": "--smtp-security",
	"smtp.username": "--smtp-username", "smtp.password": "--smtp-password-from",
	"forward.from": "--from", "forward.envelope_from": "--from", "routes[0].to[0]": "--to",
}

// settle completes what the flags say.
func (s *draft) settle(ctx context.Context, opts initOptions) error {
	if err := s.passwordFlags(opts); err != nil {
		return err
	}
	without := s.first.Username == noLogin
	if without {
		s.first.Username = ""
	}
	if s.terminal() == nil {
		if err := s.missing(opts); err != nil {
			return err
		}
	}
	if err := s.faults(ctx, s.started()); err != nil {
		return err
	}
	if s.terminal() != nil {
		if err := s.askServer(ctx, without); err != nil {
			return err
		}
	}
	if err := s.takePassword(ctx, opts.passwordStdin); err != nil || s.terminal() == nil {
		return err
	}
	return s.ask(ctx, "Who gets the mail (an address)", "routes[0].to[0]", "", &s.first.To)
}

// passwordFlags checks the flags about the password, and takes a reference.
func (s *draft) passwordFlags(opts initOptions) (err error) {
	switch {
	case opts.passwordStdin && opts.passwordFrom != "":
		return usage(errors.New("the password can come from one place only; " +
			"use --smtp-password-stdin or --smtp-password-from"))
	case s.first.Username == noLogin && (opts.passwordStdin || opts.passwordFrom != ""):
		return usage(errors.New("with --smtp-username none there is no password; leave the other flag out"))
	case opts.passwordFrom != "":
		s.first.Password, err = reference("--smtp-password-from", opts.passwordFrom)
	}
	return err
}

// missing names all flags that are needed where there is no terminal to ask on.
func (s *draft) missing(opts initOptions) error {
	password := opts.passwordStdin || opts.passwordFrom != ""
	var flags []string
	for _, f := range []struct {
		flag   string
		absent bool
	}{
		{"--smtp-host NAME", s.first.Host == ""},
		{"--smtp-username NAME", s.first.Username == "" && password},
		{
			"--smtp-password-from env:NAME, file:PATH or command:PROGRAM (or --smtp-password-stdin)",
			s.first.Username != "" && !password,
		},
		{"--from ADDR", s.first.From == ""},
		{"--to ADDR", s.first.To == ""},
	} {
		if f.absent {
			flags = append(flags, f.flag)
		}
	}
	if len(flags) == 0 {
		return nil
	}
	return usage(fmt.Errorf("there is no terminal to ask on, and these flags are missing: %s",
		strings.Join(flags, "; ")))
}

// started is what is known, with something valid for the rest.
func (s *draft) started() config.First {
	f := portOf(s.first)
	f.Host, f.From, f.To = cmp.Or(f.Host, "localhost"), cmp.Or(f.From, "a@a.example"), cmp.Or(f.To, "a@a.example")
	switch {
	case f.Username == noLogin:
		f.Username = ""
	case f.Password != "":
		f.Username = cmp.Or(f.Username, "a")
	case f.Username != "":
		f.Password = "a"
	}
	return f
}

// faults are the errors of a configuration, by the names of the flags.
func (s *draft) faults(ctx context.Context, f config.First) error {
	return s.faultsAs(ctx, f, func(e config.Error) string { return cmp.Or(initFlags[e.Key], e.Key) + ": " + e.Problem })
}

// wrongAnswer is faults after a question: all else is valid.
func (s *draft) wrongAnswer(ctx context.Context) error {
	return s.faultsAs(ctx, s.started(), func(e config.Error) string { return e.Problem })
}

// faultsAs are the errors of a configuration, one line each. The environment does not count: the
// file has to be valid without it.
func (s *draft) faultsAs(ctx context.Context, f config.First, line func(config.Error) string) error {
	_, err := f.Load(s.resolve(ctx), s.path, func(string) (string, bool) { return "", false })
	var all *config.Errors
	if !errors.As(err, &all) {
		return err
	}
	var lines []string
	for _, e := range all.All {
		if _, _, err := net.SplitHostPort(f.Host); e.Key == "smtp.host" && err == nil && f.Port != 0 {
			e.Problem = "the port is given twice; leave it out here, or leave out --smtp-port"
		}
		if e.Key == "smtp.security" && f.Security == "none" {
			e.Problem = "none would send the password unencrypted; use tls or starttls, or leave out the login " +
				"(--smtp-username none) and add username, password and allow_plaintext: true to the file later"
		}
		lines = append(lines, line(e))
	}
	return usage(errors.New(strings.Join(lines, "\n")))
}

// ask asks until the answer is valid, unless there is one already. The key's rules decide.
func (s *draft) ask(ctx context.Context, question, key, proposal string, value *string) error {
	for *value == "" {
		answer, err := terminal.Ask(s.in, s.err, question, proposal)
		if errors.Is(err, terminal.ErrNoAnswer) {
			return usage(fmt.Errorf("%s was not given; nothing was written", initFlags[key]))
		}
		if err != nil {
			return err
		}
		if *value = answer; answer == "" {
			continue
		}
		if err := s.wrongAnswer(ctx); err != nil {
			_, _ = fmt.Fprintln(s.err, err)
			*value = ""
		}
	}
	return nil
}

// askServer asks who sends, by which relay, and with which login.
func (s *draft) askServer(ctx context.Context, without bool) error {
	if err := s.ask(ctx, "Sender of forwarded mail (an address)", "forward.from", "", &s.first.From); err != nil {
		return err
	}
	_, from, err := address.ParseNamed(s.first.From)
	if err != nil {
		return usage(err)
	}
	if err := s.askHost(ctx, from); err != nil || without || s.first.Username != "" {
		return err
	}
	username := "Username at the relay, or " + noLogin
	if err := s.ask(ctx, username, "smtp.username", from.Text, &s.first.Username); err != nil {
		return err
	}
	if s.first.Username == noLogin {
		s.first.Username = ""
	}
	return nil
}

// askHost proposes the relay of the sender's provider, and takes its port and security with it.
func (s *draft) askHost(ctx context.Context, from address.Address) error {
	if s.first.Host != "" {
		return nil
	}
	dns := &config.Config{DNS: config.DNS{Server: config.NameServer(s.env)}}
	found, err := account.Finder{DNS: resolver(dns)}.Provider(ctx, from.Domain())
	if err != nil {
		return s.ask(ctx, whichRelay, "smtp.host", "", &s.first.Host)
	}
	relay := found.Preset.SMTP
	s.tell("The relay of %s seems to be %s (%s).\n%s", from.Text, relay, found.Source, providerFacts(found.Preset))
	logins := found.Preset.Logins
	if !slices.Contains(logins, account.Password) && !slices.Contains(logins, account.AppPassword) {
		s.tell("init cannot set up OAuth2: see docs/providers.md.\n")
	}
	switch agreed, err := terminal.Confirm(s.in, s.err, "Use this relay?", true); {
	case err != nil:
		return err
	case !agreed:
		return s.ask(ctx, whichRelay, "smtp.host", "", &s.first.Host)
	}
	s.first.Host = relay.Host
	if s.first.Port == 0 && s.first.Security == "" {
		s.first.Port, s.first.Security = relay.Port, relay.Security
	}
	return nil
}

// portOf takes the port from HOST:PORT, as guides of providers write it. Port 465 is for TLS from
// the first octet (RFC 8314 3.3).
func portOf(f config.First) config.First {
	if host, text, err := net.SplitHostPort(f.Host); err == nil && f.Port == 0 {
		if port, err := strconv.Atoi(text); err == nil && port > 0 {
			f.Host, f.Port = host, port
		}
	}
	if f.Port == 465 {
		f.Security = cmp.Or(f.Security, "tls")
	}
	return f
}

// takePassword reads the password of the relay, or its place.
func (s *draft) takePassword(ctx context.Context, stdin bool) error {
	if s.first.Username == "" || s.first.Password != "" {
		return nil
	}
	if s.terminal() == nil && !stdin {
		return nil // missing has said so
	}
	for s.first.Password == "" {
		if err := s.readRelayPassword(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *draft) readRelayPassword(ctx context.Context) error {
	tty := s.terminal()
	if tty == nil {
		password, err := s.readPassword("")
		if err == nil && password == "" {
			err = usage(errors.New("--smtp-password-stdin: the password is empty; nothing was written"))
		}
		if err != nil {
			return err
		}
		return s.store(password)
	}
	question := fmt.Sprintf("Password of %s (or env:NAME, file:PATH, command:PROGRAM): ", s.first.Username)
	password, err := terminal.Password(tty, s.err, question)
	switch {
	case errors.Is(err, terminal.ErrNoAnswer):
		return usage(errors.New("no password was given; nothing was written"))
	case err != nil || password == "":
		return err
	case !secret.IsRef(password):
		return s.store(password)
	}
	if s.first.Password, err = reference("--smtp-password-from", password); err == nil {
		err = s.wrongAnswer(ctx)
	}
	if err != nil {
		_, _ = fmt.Fprintln(s.err, err)
		s.first.Password = ""
	}
	return nil
}

// store has the password stored in the file beside the configuration. An init that was killed may
// have left that file: with the same password it is used.
func (s *draft) store(password string) error {
	s.first.Password, s.password = "file:"+relayPasswordFile, password
	if _, err := os.Lstat(s.passwordFile()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	there, err := secret.Resolve("file:" + s.passwordFile())
	if s.stored = err == nil && there == password; s.stored {
		return nil
	}
	return usage(fmt.Errorf("%s exists already with something else in it, and init never replaces a file; "+
		"use it with --smtp-password-from file:%[1]s, or remove it", s.passwordFile()))
}
