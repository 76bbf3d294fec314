package cmd

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"postrider/internal/config"
	"postrider/internal/web"
)

// livePage is the status page of a process that stays up. It shows what the configuration in force
// leads to. Who may use it is as it was at the start.
type livePage struct {
	config   config.Web
	access   *web.Access
	listener net.Listener

	mu      sync.Mutex
	current *shownPage
	broken  bool // the configuration cannot be used
}

// shownPage is the page of one configuration.
type shownPage struct {
	http.Handler
	requests sync.WaitGroup // under way
}

// openLivePage checks who may use the page, and begins to listen.
func (a *app) openLivePage(ctx context.Context, listen string) (*livePage, error) {
	cfg, err := a.loadConfig(ctx)
	if err != nil {
		return nil, err
	}
	access, l, err := a.openPage(ctx, cfg, listen)
	if err != nil {
		return nil, err
	}
	return &livePage{config: cfg.Web, access: access, listener: l}, nil
}

// show has requests answered by a page from now on. Done has new ones refused, unless another page
// is shown, and waits for those under way.
func (p *livePage) show(page *web.Server) (done func()) {
	now := &shownPage{Handler: page.Handler()}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current = now
	return func() { p.hide(now) }
}

func (p *livePage) hide(page *shownPage) {
	p.mu.Lock()
	if p.current == page {
		p.current = &shownPage{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "postrider is stopping", http.StatusServiceUnavailable)
		})}
	}
	p.mu.Unlock()
	page.requests.Wait()
}

// ServeHTTP implements http.Handler.
func (p *livePage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	page := p.current
	page.requests.Add(1)
	p.mu.Unlock()
	defer page.requests.Done()
	page.ServeHTTP(w, r)
}

// read notes what came of reading the configuration.
func (p *livePage) read(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = err != nil
}

func (p *livePage) isBroken() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.broken
}

// serve answers until ctx ends. It needs a page to show. Wait returns when no request is under way.
func (p *livePage) serve(ctx context.Context, log *slog.Logger) (wait func()) {
	log.Info("the status page is up", "address", pageURL(p.access, p.listener))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := web.Serve(ctx, p.listener, p, log); err != nil {
			log.Error("the status page ended; mail goes on", "error", err)
		}
	}()
	return func() { <-done }
}

func (p *livePage) close() { _ = p.listener.Close() }
