package web

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"postrider/internal/tasks"
	"postrider/internal/text"
)

//go:embed templates/*.html assets/*
var files embed.FS

// pages are the templates, by the name of the page.
type pages map[string]*template.Template

// page is what every template gets.
type page struct {
	Title string
	Nav   string // which entry of the navigation it is
	User  user
	Query string // of the search box
	Body  any
}

func parsePages(zone *time.Location) pages {
	base := template.New("").Funcs(functions(zone))
	base = template.Must(base.ParseFS(files, "templates/layout.html", "templates/parts.html"))
	out := pages{}
	for _, name := range []string{"overview", "messages", "message", "inboxes", "inbox", "audit", "login", "error"} {
		out[name] = template.Must(template.Must(base.Clone()).ParseFS(files, "templates/"+name+".html"))
	}
	return out
}

// show answers with a page. It is made before the first octet goes out, so that an error in it is
// not half a page.
func (s *Server) show(w http.ResponseWriter, code int, name string, p page) {
	var b bytes.Buffer
	if err := s.pages[name].ExecuteTemplate(&b, "layout", p); err != nil {
		s.Log.Error("a page could not be made", "page", name, "error", text.Error(err))
		http.Error(w, "The page could not be made; the log of postrider says more.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes())
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		code, b = http.StatusInternalServerError, *bytes.NewBufferString("{}\n")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes())
}

// assets are the style and the script. Browsers ask each time, and get nothing new for the same.
func assets() http.Handler {
	dir, _ := fs.Sub(files, "assets")
	serve := http.StripPrefix("/assets/", http.FileServerFS(dir))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/") {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Cache-Control", "max-age=300")
		serve.ServeHTTP(w, r)
	})
}

// functions are those of the templates.
func functions(zone *time.Location) template.FuncMap {
	return template.FuncMap{
		"line": text.Line,
		"cut":  func(n int, s string) string { return text.Cut(text.Line(s), n) },
		"when": func(t any) template.HTML { return timeElement(t, zone) },
		"ago":  func(now time.Time, t *time.Time) string { return ago(now, t) },
		"words": func(s any) string {
			return strings.ReplaceAll(fmt.Sprint(s), "_", " ")
		},
		"tone": tone, "count": text.Count, "thousands": thousands,
		"inboxpath": inboxPath, "reply": replyOf,
		"recipient": func(d tasks.Delivery, task tasks.Status) recipient { return recipient{d, task} },
	}
}

// timeElement is a time for people and for the script, which shows it in the reader's zone.
func timeElement(v any, zone *time.Location) template.HTML {
	var t time.Time
	switch v := v.(type) {
	case time.Time:
		t = v
	case *time.Time:
		if v == nil {
			return "never"
		}
		t = *v
	}
	if t.IsZero() {
		return "unknown"
	}
	shown := t.In(zone).Format("2006-01-02 15:04 MST")
	return template.HTML(fmt.Sprintf(`<time datetime="%s">%s</time>`, t.UTC().Format(time.RFC3339), shown))
}

// ago is how long something is past, or ahead; empty for what never was.
func ago(now time.Time, t *time.Time) string {
	if t == nil {
		return ""
	}
	return text.Ago(now.Sub(*t))
}

// tone is the class that gives a state its colour. The state is always there in words, too.
func tone(state any) string {
	switch fmt.Sprint(state) {
	case string(tasks.Forwarded), string(tasks.Delivered), string(tasks.Relayed), string(tasks.Confirmed):
		return "good"
	case string(tasks.Dead), string(tasks.Uncertain), string(tasks.Failed), string(tasks.Sending),
		string(tasks.Bounced):
		return "bad"
	case string(tasks.Error), string(tasks.Delayed), string(tasks.Complained):
		return "warn"
	case string(tasks.Received), string(tasks.InProgress), string(tasks.Pending):
		return "wait"
	}
	return "calm"
}

// recipient is a delivery, with the state of its task.
type recipient struct {
	tasks.Delivery
	task tasks.Status
}

// missed reports whether the recipient lacks the message, and nothing sends it any more.
func (r recipient) missed() bool { return r.Status == tasks.Pending && r.task.Ended() }

// Tone is that of what became of the delivery, when that is known.
func (r recipient) Tone() string {
	switch {
	case r.Arrival != nil:
		return tone(r.Arrival.Status)
	case r.missed():
		return tone(r.task)
	}
	return tone(r.Status)
}

// Words say how far the recipient got.
func (r recipient) Words() string {
	switch {
	case r.missed():
		return "not delivered"
	case r.Waits():
		return fmt.Sprintf("waits for message %d, which has the same content", r.DuplicateOf)
	case r.Status == tasks.Duplicated && r.DuplicateOf != 0:
		return fmt.Sprintf("left to message %d, which has the same content", r.DuplicateOf)
	}
	return map[tasks.DeliveryStatus]string{
		tasks.Delivered: "accepted by the relay", tasks.Pending: "not sent yet", tasks.Failed: "not delivered",
		tasks.Sending:    "sent, but the relay's answer is not known",
		tasks.Duplicated: "left to another message with the same content",
	}[r.Status]
}

// thousands is a number that can be read.
func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}
