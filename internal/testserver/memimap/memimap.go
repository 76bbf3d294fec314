// Package memimap is an IMAP server inside the process, on loopback, for the demo and for fast
// tests. Mail lives in memory.
//
// Its UIDVALIDITY can be set; a folder that is deleted and made again gets a new one by itself. Two
// things differ from real servers: while a client reads a FETCH, no one else can change that
// folder, and IDLE reports what is expunged only with the next message that is appended.
package memimap

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"sync"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapserver"
	"github.com/emersion/go-imap/v2/imapserver/imapmemserver"
)

// Options is how the server behaves.
type Options struct {
	TLS         *tls.Config // when set, STARTTLS is offered and required before a login
	ImplicitTLS bool        // TLS from the first octet instead
	Without     []imap.Cap  // of what it offers otherwise
}

// Server is a running server.
type Server struct {
	imap    *imapserver.Server
	ln      net.Listener
	running sync.WaitGroup

	mu          sync.Mutex
	users       map[string]*account
	connections int
}

// account is one user: its mail, and the UIDVALIDITY of the folders where it was set.
type account struct {
	*imapmemserver.User

	mu       sync.Mutex
	validity map[string]uint32
	idling   map[chan<- struct{}]bool // one of each session in IDLE, told when a message was appended
}

// Start listens on a free port of 127.0.0.1.
func Start(opts Options) (*Server, error) {
	if opts.ImplicitTLS && opts.TLS == nil {
		return nil, errors.New("start an IMAP server: ImplicitTLS needs TLS")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start an IMAP server: %w", err)
	}
	s := &Server{ln: ln, users: map[string]*account{}}
	caps := imap.CapSet{
		imap.CapIMAP4rev1: {}, imap.CapUIDPlus: {}, imap.CapNamespace: {}, imap.CapESearch: {}, imap.CapMove: {},
	}
	for _, c := range opts.Without {
		delete(caps, c)
	}
	s.imap = imapserver.New(&imapserver.Options{
		NewSession:   s.newSession,
		TLSConfig:    opts.TLS,
		InsecureAuth: opts.TLS == nil,
		Caps:         caps,
		Logger:       log.New(io.Discard, "", 0), // it logs clients that hang up
	})
	if opts.ImplicitTLS {
		ln = tls.NewListener(ln, opts.TLS)
	}
	s.running.Go(func() { _ = s.imap.Serve(ln) })
	return s, nil
}

// Addr is where the server listens, "127.0.0.1:port".
func (s *Server) Addr() string {
	return s.ln.Addr().String()
}

// Port is the port of Addr.
func (s *Server) Port() int {
	return s.ln.Addr().(*net.TCPAddr).Port
}

// Connections is how many connections there were.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connections
}

// Close ends all connections and stops the server.
func (s *Server) Close() {
	_ = s.ln.Close()
	s.running.Wait() // imap.Close races with the start of imap.Serve
	_ = s.imap.Close()
}

// AddUser makes an account with an empty INBOX.
func (s *Server) AddUser(user, password string) error {
	u := &account{
		User: imapmemserver.NewUser(user, password), validity: map[string]uint32{}, idling: map[chan<- struct{}]bool{},
	}
	if err := u.Create("INBOX", nil); err != nil {
		return fmt.Errorf("add the user %s: %w", user, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users[user] = u
	return nil
}

func (s *Server) user(name string) (*account, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u := s.users[name]; u != nil {
		return u, nil
	}
	return nil, fmt.Errorf("find the user %s: no such user; AddUser comes first", name)
}

// CreateFolder makes a folder.
func (s *Server) CreateFolder(user, folder string) error {
	u, err := s.user(user)
	if err != nil {
		return err
	}
	if err := u.Create(folder, nil); err != nil {
		return fmt.Errorf("create the folder %s of %s: %w", folder, user, err)
	}
	return nil
}

// DeleteFolder deletes a folder with all that is in it, and its UIDVALIDITY.
func (s *Server) DeleteFolder(user, folder string) error {
	u, err := s.user(user)
	if err != nil {
		return err
	}
	if err := u.Delete(folder); err != nil {
		return fmt.Errorf("delete the folder %s of %s: %w", folder, user, err)
	}
	return nil
}

// Append puts messages into an existing folder and returns their UIDs in the same order.
func (s *Server) Append(user, folder string, msgs ...[]byte) ([]uint32, error) {
	u, err := s.user(user)
	if err != nil {
		return nil, err
	}
	var uids []uint32
	for _, msg := range msgs {
		data, err := u.Append(folder, literal{bytes.NewReader(msg)}, &imap.AppendOptions{})
		if err != nil {
			return uids, fmt.Errorf("append to the folder %s of %s: %w", folder, user, err)
		}
		uids = append(uids, uint32(data.UID))
	}
	return uids, nil
}

// literal is a message as an IMAP literal.
type literal struct{ *bytes.Reader }

// Size is the length of the literal.
func (l literal) Size() int64 { return l.Reader.Size() }

// Expunge removes the messages with these UIDs.
func (s *Server) Expunge(user, folder string, uids ...uint32) error {
	u, err := s.user(user)
	if err != nil {
		return err
	}
	var set imap.UIDSet
	for _, uid := range uids {
		set.AddNum(imap.UID(uid))
	}
	sess := imapmemserver.NewUserSession(u.User)
	if _, err := sess.Select(folder, &imap.SelectOptions{}); err != nil {
		return fmt.Errorf("expunge messages of the folder %s of %s: %w", folder, user, err)
	}
	defer func() { _ = sess.Close() }()
	deleted := &imap.StoreFlags{Op: imap.StoreFlagsAdd, Silent: true, Flags: []imap.Flag{imap.FlagDeleted}}
	if err := errors.Join(sess.Store(nil, set, deleted, nil), sess.Expunge(nil, &set)); err != nil {
		return fmt.Errorf("expunge messages of the folder %s of %s: %w", folder, user, err)
	}
	return nil
}

// SetUIDValidity gives a folder another UIDVALIDITY, 0 included, for whoever selects it from now
// on. Its UIDs stay.
func (s *Server) SetUIDValidity(user, folder string, validity uint32) error {
	u, err := s.user(user)
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.validity[folder] = validity
	return nil
}
