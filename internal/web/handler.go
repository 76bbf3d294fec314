package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"postrider/internal/inbox"
	"postrider/internal/tasks"
	"postrider/internal/text"
)

// patience is how long a request waits for the database.
const patience = 15 * time.Second

// maxForm is the size of a form, in octets.
const maxForm = 16 << 10

// handler answers a request of a user. What it returns becomes a page, or JSON for programs.
type handler func(w http.ResponseWriter, r *http.Request, u user) error

// failure is an answer that is not what was asked for, in one or two sentences.
type failure struct {
	code int
	says string
}

func (f *failure) Error() string { return f.says }

// advise says when to try again: after too many logins, not before they are forgotten.
func (f *failure) advise(w http.ResponseWriter) {
	if f.code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", strconv.Itoa(int(attemptTime/time.Second)))
	}
}

var errNoPage = &failure{http.StatusNotFound, "There is no such page."}

// notServed is for requests that no pattern but "/" serves. A page may be there for other methods
// (RFC 9110 15.5.6).
func notServed(w http.ResponseWriter, r *http.Request, mux *http.ServeMux) error {
	var methods []string
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := mux.Handler(other); pattern != "/" {
			methods = append(methods, method)
		}
	}
	if !slices.Contains(methods, http.MethodGet) {
		return errNoPage
	}
	allowed := strings.Join(methods, ", ")
	w.Header().Set("Allow", allowed)
	return &failure{
		http.StatusMethodNotAllowed, "This page takes " + allowed + ", and not " + text.Line(r.Method) + ".",
	}
}

// allow lets those who may look, or change something, come to a handler.
func (s *Server) allow(change bool, h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		r = r.WithContext(ctx)
		u, err := s.Access.identify(r)
		if err == nil && change && !u.Operator {
			err = &failure{
				http.StatusForbidden, "You can only look. " +
					"The key web.operators in the configuration names the users who can change something.",
			}
		}
		if errors.Is(err, errLogin) && !forPrograms(r) && r.Method == http.MethodGet {
			http.Redirect(w, r, "/login?"+url.Values{"next": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
			return
		}
		if err == nil {
			r.Body = http.MaxBytesReader(w, r.Body, maxForm)
			err = h(w, r, u)
		}
		if err != nil {
			s.fail(w, r, u, err)
		}
	})
}

// fail answers with an error. What only an operator should read goes to the log.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, u user, err error) {
	f := s.failureOf(r, err)
	f.advise(w)
	if f.code == http.StatusUnauthorized && forPrograms(r) {
		w.Header().Set("WWW-Authenticate", `Basic realm="postrider", charset="UTF-8"`)
	}
	if forPrograms(r) || r.URL.Path == "/healthz" || r.URL.Path == "/readyz" {
		writeJSON(w, f.code, map[string]string{"error": f.says})
		return
	}
	s.show(w, f.code, "error", page{Title: http.StatusText(f.code), User: u, Body: f.says})
}

func (s *Server) failureOf(r *http.Request, err error) *failure {
	var known *failure
	var noInbox *inbox.NotFoundError
	var noAddress *inbox.InvalidError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &noInbox):
		return &failure{http.StatusNotFound, noInbox.Error()}
	case errors.As(err, &noAddress):
		return &failure{http.StatusNotFound, noAddress.Error()}
	case errors.Is(err, tasks.ErrNotFound):
		return &failure{
			http.StatusNotFound, "There is no such message. It may have been purged, or removed with its inbox.",
		}
	case errors.As(err, new(*http.MaxBytesError)):
		return &failure{http.StatusRequestEntityTooLarge, "The form is too long."}
	case r.Context().Err() == nil:
		s.Log.Error("a page could not be shown", "path", text.Line(r.URL.Path), "error", text.Error(err))
	}
	return &failure{
		http.StatusServiceUnavailable, "The database does not answer, or something else went wrong. " +
			"Try again; the log of postrider says more.",
	}
}

// The headers of each answer. Nothing but our own style and script is loaded, no other site may
// show a page in itself or learn its address, and no cache keeps one. With Referrer-Policy
// no-referrer browsers would not say that a form is ours: they send "Origin: null".
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; " +
		"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
	"Referrer-Policy":              "same-origin",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Permissions-Policy":           "camera=(), geolocation=(), microphone=()",
	"Cache-Control":                "no-store",
}

// guarded sets the headers, and refuses requests by a foreign name.
func (s *Server) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		if !s.Access.knownHost(r) {
			s.fail(w, r, user{}, &failure{
				http.StatusMisdirectedRequest, "Without a login this page is only at localhost and 127.0.0.1. " +
					"To reach it by another name, set web.users or web.proxy.",
			})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// loginForm shows the form.
func (s *Server) loginForm(w http.ResponseWriter, r *http.Request) {
	if s.Access.users == nil {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	s.show(w, http.StatusOK, "login", page{Title: "Log in", Body: loginBody{Next: local(r.FormValue("next"))}})
}

// loginBody is what the login's template shows.
type loginBody struct{ Next, Name, Problem string }

// login begins a session.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	if s.Access.users == nil {
		s.fail(w, r, user{}, errNoPage)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	name, next := r.PostFormValue("name"), local(r.PostFormValue("next"))
	if err := s.Access.logIn(r, name, r.PostFormValue("password")); err != nil {
		f := s.failureOf(r, err)
		f.advise(w)
		s.show(w, f.code, "login", page{Title: "Log in", Body: loginBody{next, text.Cut(name, 100), f.says}})
		return
	}
	hash, err := s.Access.users.hash(name)
	if err != nil || hash == nil {
		s.fail(w, r, user{}, errWrongLogin)
		return
	}
	s.Access.begin(w, name, hash)
	http.Redirect(w, r, next, http.StatusSeeOther)
}

func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	s.Access.end(w)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// local is a path on this server, and never another site: / if it is not.
func local(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(next, "/") ||
		strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n\t") {
		return "/"
	}
	return next
}
