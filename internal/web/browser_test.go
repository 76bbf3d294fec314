package web_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"postrider/internal/testserver"
)

// update makes the pictures of the documentation again.
var update = flag.Bool("update", false, "write docs/images again")

// browser is a Chromium with an empty profile. It ends with the test.
func browser(t *testing.T) context.Context {
	t.Helper()
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(testserver.Chromium(t)), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("disable-quic", true), chromedp.Flag("lang", "en-GB"),
		chromedp.Env("TZ=UTC", "LANG=en_GB.UTF-8", "TMPDIR="+testserver.TempDir()),
		chromedp.Flag("host-resolver-rules", "MAP mail.firm.example 127.0.0.1"),
	)
	ctx, stop := chromedp.NewExecAllocator(t.Context(), opts...)
	t.Cleanup(stop)
	ctx, stop = chromedp.NewContext(ctx)
	t.Cleanup(func() { _ = chromedp.Cancel(ctx); stop() })
	return ctx
}

// does runs actions in the browser.
func does(ctx context.Context, t *testing.T, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(ctx, actions...); err != nil {
		t.Fatalf("in the browser: %v", err)
	}
}

// says runs an action that has an answer.
func says[T any](ctx context.Context, t *testing.T, action chromedp.Action[T]) T {
	t.Helper()
	answer, err := chromedp.Run(ctx, action)
	if err != nil {
		t.Fatalf("in the browser: %v", err)
	}
	return answer
}

// scheme is light or dark.
func scheme(name string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
		})
		return chromedp.Void{}, err
	}
}

// inDocs are the pictures of docs/page.md.
var inDocs = map[string]bool{
	"overview": true, "overview-dark": true, "messages": true, "messages-telephone": true, "message": true,
	"inboxes": true, "inbox": true, "audit": true, "login": true,
}

// TestScreenshots: every page is wide enough for what is on it, on a screen and on a telephone, in
// light and dark. With -update it makes the pictures of the documentation.
func TestScreenshots(t *testing.T) {
	s := newSite(t)
	s.firm()
	dead := s.number(`SELECT id FROM monitored_emails_tasks WHERE status = 'dead'`)
	pages := []struct{ name, url string }{
		{"overview", s.URL + "/"},
		{"messages", s.URL + "/messages?q=anna"},
		{"message", s.URL + "/messages/" + itoa(dead)},
		{"inboxes", s.URL + "/inboxes"},
		{"inbox", s.URL + "/inboxes/billing@firm.example"},
		{"audit", s.URL + "/audit"},
		{"login", newSite(t, withUsers).URL + "/"},
	}
	looks := []struct {
		suffix, scheme string
		width, height  int64
	}{{"", "light", 1100, 900}, {"-dark", "dark", 1100, 900}, {"-telephone", "light", 390, 844}}
	const tooWide = `document.documentElement.scrollWidth > document.documentElement.clientWidth`
	ctx := browser(t)
	for _, look := range looks {
		for _, p := range pages {
			does(ctx, t, chromedp.EmulateViewport(look.width, look.height), scheme(look.scheme),
				chromedp.Navigate(p.url), chromedp.WaitReady("main"))
			if says(ctx, t, chromedp.Evaluate[bool](tooWide)) {
				t.Errorf("%s%s has to be scrolled sideways", p.name, look.suffix)
			}
			if name := p.name + look.suffix; *update && inDocs[name] {
				file := filepath.Join("../../docs/images", "page-"+name+".png")
				if err := os.WriteFile(file, says(ctx, t, chromedp.CaptureScreenshot()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
