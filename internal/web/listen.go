package web

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"postrider/internal/secret"
	"postrider/internal/text"
)

// certificate is one from files. It is read again when the file changes; one that cannot be used
// does not replace the one in use, and the log has an error.
type certificate struct {
	certFile, keyFile string
	now               func() time.Time
	log               *slog.Logger

	mu     sync.Mutex
	time   time.Time
	pair   *tls.Certificate
	logged string // the error of the changed file
}

func openCertificate(s Settings) (*certificate, error) {
	c := &certificate{certFile: s.CertFile, keyFile: s.KeyFile, now: s.Now, log: s.Log}
	return c, c.read()
}

func (c *certificate) read() error {
	var changed time.Time // the certificate
	for _, file := range []string{c.keyFile, c.certFile} {
		found, err := os.Stat(file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("there is no file %s; correct its name, or put the file there", file)
		case err != nil:
			return fmt.Errorf("read the certificate: %w", err)
		}
		if file == c.certFile {
			changed = found.ModTime()
		}
		if others := secret.CheckWriters(file, found, "replace it"); others != nil {
			return fmt.Errorf("%s is not used: %w", file, others)
		}
	}
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("%s and %s are not a certificate and its key: %w", c.certFile, c.keyFile, err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	switch {
	case err != nil:
		return fmt.Errorf("read %s: %w", c.certFile, err)
	case c.now().After(leaf.NotAfter):
		return fmt.Errorf("the certificate in %s expired on %s; renew it",
			c.certFile, leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	c.pair, c.time, c.logged = &pair, changed, ""
	return nil
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if info, err := os.Stat(c.certFile); err == nil && info.ModTime().Equal(c.time) {
		return c.pair, nil
	}
	if err := c.read(); err != nil && err.Error() != c.logged {
		c.logged = err.Error()
		c.log.Error("the changed certificate of the status page cannot be used, so the previous one stays in use",
			"error", text.Error(err), "previous_expires", c.pair.Leaf.NotAfter.UTC())
	}
	return c.pair, nil
}

// Bind begins to listen.
func (a *Access) Bind(ctx context.Context) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", a.Listen)
	if err != nil {
		fix := "choose another address (--listen)"
		if errors.Is(err, syscall.EADDRINUSE) {
			fix = "end what listens there, or " + fix
		}
		return nil, fmt.Errorf("cannot listen on %s: %w; %s", a.Listen, err, fix)
	}
	if config := a.TLS(); config != nil {
		return tls.NewListener(l, config), nil
	}
	return l, nil
}

// drainTime is how long requests may take when the page is stopped.
const drainTime = 5 * time.Second

// Serve answers with the handler of a Server until the context ends, and then lets the requests
// under way end.
func Serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	srv := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug), // what strangers send
	}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
		defer cancel()
		err := srv.Shutdown(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			err = srv.Close()
		}
		stopped <- err
	})
	err := srv.Serve(l)
	if stop() || !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}
