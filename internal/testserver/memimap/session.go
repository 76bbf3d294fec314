package memimap

import (
	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapserver"
	"github.com/emersion/go-imap/v2/imapserver/imapmemserver"
)

// session is one connection. It is the library's but for UIDVALIDITY and IDLE.
type session struct {
	*imapmemserver.UserSession // nil before the login

	s *Server
	u *account
}

func (s *Server) newSession(*imapserver.Conn) (imapserver.Session, *imapserver.GreetingData, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connections++
	return &session{s: s}, nil, nil
}

// Login implements imapserver.Session.
func (c *session) Login(user, password string) error {
	u, err := c.s.user(user)
	if err != nil {
		return imapserver.ErrAuthFailed
	}
	if err := u.Login(user, password); err != nil {
		return err
	}
	c.u, c.UserSession = u, imapmemserver.NewUserSession(u.User)
	return nil
}

// Select implements imapserver.Session.
func (c *session) Select(name string, options *imap.SelectOptions) (*imap.SelectData, error) {
	data, err := c.UserSession.Select(name, options)
	if err == nil {
		c.u.override(name, &data.UIDValidity)
	}
	return data, err
}

// Status implements imapserver.Session.
func (c *session) Status(name string, options *imap.StatusOptions) (*imap.StatusData, error) {
	data, err := c.UserSession.Status(name, options)
	if err == nil && options.UIDValidity {
		c.u.override(name, &data.UIDValidity)
	}
	return data, err
}

// Append implements imapserver.Session.
func (c *session) Append(name string, r imap.LiteralReader, options *imap.AppendOptions) (*imap.AppendData, error) {
	data, err := c.u.Append(name, r, options)
	if err == nil {
		c.u.override(name, &data.UIDValidity)
	}
	return data, err
}

// Idle implements imapserver.Session. The library's would not report what was appended after the
// command before.
func (c *session) Idle(w *imapserver.UpdateWriter, stop <-chan struct{}) error {
	appended := make(chan struct{}, 1)
	c.u.mu.Lock()
	c.u.idling[appended] = true
	c.u.mu.Unlock()
	defer func() {
		c.u.mu.Lock()
		defer c.u.mu.Unlock()
		delete(c.u.idling, appended)
	}()
	for {
		if err := c.Poll(w, true); err != nil {
			return err
		}
		select {
		case <-appended:
		case <-stop:
			return nil
		}
	}
}

// Append tells the sessions that are in IDLE.
func (u *account) Append(folder string, r imap.LiteralReader, options *imap.AppendOptions) (*imap.AppendData, error) {
	data, err := u.User.Append(folder, r, options)
	u.mu.Lock()
	defer u.mu.Unlock()
	for appended := range u.idling {
		select {
		case appended <- struct{}{}:
		default:
		}
	}
	return data, err
}

// Delete implements imapserver.Session.
func (c *session) Delete(name string) error {
	return c.u.Delete(name)
}

// Delete forgets the UIDVALIDITY that was set, too.
func (u *account) Delete(name string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.validity, name)
	return u.User.Delete(name)
}

func (u *account) override(folder string, validity *uint32) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if set, ok := u.validity[folder]; ok {
		*validity = set
	}
}
