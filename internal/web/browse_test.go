package web_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"postrider/internal/route"
	"postrider/internal/tasks"
)

// TestBrowser drives the pages as people do, in one browser.
func TestBrowser(t *testing.T) {
	s := newSite(t, withUsers, func(s *site) {
		s.options.Explain = func(context.Context, tasks.Task) ([]route.Step, error) {
			return []route.Step{{Route: "court-notices", Outcome: route.Matched}}, nil
		}
	})
	s.firm()
	b := visitor{browser(t), t, s}
	b.logsIn()
	b.searches()
	b.decides()
	b.decidesOtherwise()
	b.switches()
	b.audits()
	b.isAttacked()
	b.readsHostileMail()
	b.usesTheKeyboard()
	b.hasNoScript()
	b.finds(`form[action="/logout"] button`)
	b.clicks(`form[action="/logout"] button`)
	b.sees("Log in")
}

// TestBrowserBehindProxy: forms work at a name without TLS, too, where browsers do not say which
// site a form comes from (Sec-Fetch-Site).
func TestBrowserBehindProxy(t *testing.T) {
	s := newSite(t, func(s *site) {
		s.settings.Listen, s.settings.ProxyHeader, s.settings.Operators = ":0", "X-Remote-User", []string{"*"}
		s.settings.ProxyFrom = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	})
	s.add("office@firm.example")
	s.URL = strings.Replace(s.URL, "127.0.0.1", "mail.firm.example", 1)
	b := visitor{browser(t), t, s}
	does(b.ctx, t, func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		headers := network.SetExtraHTTPHeadersParams{Headers: network.Headers{"X-Remote-User": "anna"}}
		_, err := cdp.Call(ctx, t, network.SetExtraHTTPHeaders, headers)
		return chromedp.Void{}, err
	})
	b.goes("/inboxes/office@firm.example")
	b.types("#why", "a test")
	b.clicks("section.decide button")
	b.sees("The inbox is disabled", "anna (status page)")
}

// visitor is a person with a browser.
type visitor struct {
	ctx  context.Context
	t    *testing.T
	site *site
}

// goes opens a page.
func (b visitor) goes(path string) {
	b.t.Helper()
	does(b.ctx, b.t, chromedp.Navigate(b.site.URL+path), chromedp.WaitReady("main"))
}

// clicks and waits for the next page.
func (b visitor) clicks(selector string) {
	b.t.Helper()
	does(b.ctx, b.t, chromedp.Evaluate[chromedp.Void](`void (window.before = true)`))
	does(b.ctx, b.t, chromedp.Click(chromedp.CSS(selector)))
	b.waits()
}

// waits for a page other than the one that is marked. While pages change, a question may fail.
func (b visitor) waits() {
	b.t.Helper()
	b.until(`!window.before && document.readyState === "complete"`)
}

// until waits until an expression holds.
func (b visitor) until(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
	defer cancel()
	for tick := time.NewTicker(10 * time.Millisecond); ; {
		if holds, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression)); err == nil && holds {
			tick.Stop()
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			b.t.Fatalf("in the browser %s has not come true", expression)
		}
	}
}

func (b visitor) types(selector, text string) {
	b.t.Helper()
	empty := fmt.Sprintf(`void (document.querySelector(%q).value = "")`, selector)
	does(b.ctx, b.t, chromedp.Evaluate[chromedp.Void](empty), chromedp.SendKeys(chromedp.CSS(selector), text))
}

// sees checks what a person reads on the page.
func (b visitor) sees(texts ...string) {
	b.t.Helper()
	page := says(b.ctx, b.t, chromedp.Evaluate[string](`document.body.innerText`))
	for _, text := range texts {
		if !strings.Contains(page, text) {
			b.t.Fatalf("the page does not show %q:\n%s", text, page)
		}
	}
}

// finds checks that there is an element.
func (b visitor) finds(selector string) {
	b.t.Helper()
	if !b.is(fmt.Sprintf("!!document.querySelector(%q)", selector)) {
		b.t.Fatalf("the page has no %s", selector)
	}
}

// is reports what an expression says.
func (b visitor) is(expression string) bool {
	b.t.Helper()
	return says(b.ctx, b.t, chromedp.Evaluate[bool](expression))
}

// logsIn tries a wrong password first.
func (b visitor) logsIn() {
	b.goes("/messages?q=anna")
	b.sees("Log in")
	b.types("#name", "anna")
	b.types("#password", "wrong")
	b.clicks("main button")
	b.sees("The name or the password is wrong.")
	if !b.is(`document.querySelector("#name").value === "anna" && document.querySelector("#password").value === ""`) {
		b.t.Error("after a wrong password the form has not the name, or has the password")
	}
	b.types("#password", "anna1")
	b.clicks("main button")
	b.sees("Messages", "anna.berg@firm.example", "accepted by the relay")
}

func (b visitor) searches() {
	b.goes("/")
	b.types("#q", "li.wei")
	b.clicks(".search button")
	b.sees("Hearing on 14 April: change of room", "li.wei@firm.example", "250 2.0.0 Ok: queued as 4XkQ7z1Jp2")
	b.clicks(".messages a")
	b.sees("Timeline", "Registered", "Accepted by the relay for li.wei@firm.example")
}

// decides about the dead message. Without a reason the browser does not send the form.
func (b visitor) decides() {
	dead := b.site.number(`SELECT id FROM monitored_emails_tasks WHERE status = 'dead'`)
	b.goes("/messages?state=dead")
	b.clicks(".messages a")
	does(b.ctx, b.t, chromedp.Click(chromedp.CSS(`button[formaction$="/retry"]`)))
	if !b.is(`document.activeElement.id === "why" && !document.querySelector("#why").validity.valid`) {
		b.t.Error("without a reason the browser does not lead to its field")
	}
	b.types("#why", "the address is right now")
	b.clicks(`button[formaction$="/retry"]`)
	b.sees("The message is tried again with the next pass.", "received",
		"Requeued by an operator: anna (status page)", "the address is right now")
	if task, err := b.site.queue.Get(b.t.Context(), dead); err != nil || task.Status != tasks.Received {
		b.t.Errorf("the task is %s (%v), want received", task.Status, err)
	}
}

// decidesOtherwise does what else can be done with a message.
func (b visitor) decidesOtherwise() {
	for _, tt := range []struct {
		status       tasks.Status
		action, says string
	}{
		{tasks.Error, "skip", "The message is skipped"},
		{tasks.Uncertain, "delivered", "The message counts as delivered"},
		{tasks.Uncertain, "not-delivered", "The message is sent again"},
	} {
		id := b.site.put(msg{
			inbox: "office@firm.example", subject: tt.action, status: tt.status,
			to: []tasks.Delivery{{Recipient: "desk@firm.example", Status: tasks.Sending}},
		})
		b.goes("/messages/" + itoa(id))
		b.clicks(`form[action$="/explain"] button`)
		b.sees("court-notices", "matched")
		b.types("#why", "a test")
		b.clicks(`button[formaction$="/` + tt.action + `"]`)
		b.sees(tt.says, "by an operator: ", "a test")
	}
}

func (b visitor) switches() {
	b.goes("/inboxes")
	b.clicks(`a[href="/inboxes/office@firm.example"]`)
	for _, action := range []string{"disable", "enable"} {
		b.types("#why", "a test of "+action)
		b.clicks(`section.decide button`)
		b.sees("The inbox is "+action+"d", "by an operator: ", "a test of "+action)
	}
}

// audits an inbox, and loads its page again until the result is there.
func (b visitor) audits() {
	run := newBlocked(b.site)
	b.goes("/audit")
	b.sees("2 not accounted for", "never audited")
	b.clicks(`a[href^="/inboxes/intake@firm.example"]`)
	b.sees("UID 4702: missing")
	b.types("#why-audit", "registered now")
	b.clicks(`form[action$="/audit"] button`)
	b.sees("The audit was started.", "running since", "Audit started by an operator: ", "registered now")
	close(run.may)
	if err := <-run.stopped; err != nil {
		b.t.Errorf("the context of the audit ended with %v before the audit did", err)
	}
	for b.is(`document.body.innerText.includes("running since")`) {
		b.clicks(`#audit + p a`)
	}
	b.sees("all accounted for", "anna (status page)")
	b.goes("/")
	b.sees("Needs a person")
	if b.is(`document.body.innerText.includes("of intake@firm.example are not accounted for")`) {
		b.t.Error("the overview names an inbox whose last audit accounts for everything")
	}
}

// isAttacked: a page of another site sends forms and asks for data with this browser's session.
func (b visitor) isAttacked() {
	uncertain := b.site.number(`SELECT id FROM monitored_emails_tasks WHERE status = 'uncertain'`)
	page := fmt.Sprintf(`<!doctype html><form method="post" action="%s/messages/%d/skip">`+
		`<input name="why" value="x"><button>win</button></form>
		<iframe src="%[1]s/"></iframe><script>fetch("%[1]s/api/v1/status", {credentials: "include"})`+
		`.then(r => r.text()).then(() => document.title = "read", () => document.title = "refused")</script>`,
		b.site.URL, uncertain)
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(page))
	}))
	b.t.Cleanup(evil.Close)
	does(b.ctx, b.t, chromedp.Navigate(strings.Replace(evil.URL, "127.0.0.1", "localhost", 1)))
	b.until(`document.title !== ""`)
	if got := says(b.ctx, b.t, chromedp.Title()); got != "refused" {
		b.t.Errorf("another site has %s our data", got)
	}
	b.clicks("button")
	b.sees("This request came from another site, so nothing was done.")
	if task, err := b.site.queue.Get(b.t.Context(), uncertain); err != nil || task.Status != tasks.Uncertain {
		b.t.Errorf("the task is %s (%v), want uncertain as before", task.Status, err)
	}
}

// readsHostileMail: nothing in it runs, and nothing makes the page wider than the screen.
func (b visitor) readsHostileMail() {
	for _, subject := range []string{
		`<script>window.evil = 1</script><img src=x onerror="window.evil=2"><style>body{display:none}</style>`,
		strings.Repeat("x", 10_000), "\u202egnp.exe\u2066", strings.Repeat("\u0301", 300), "a\x00\x1b[2J\r\nb",
	} {
		b.site.put(msg{
			inbox: "office@firm.example", from: subject, subject: subject, status: tasks.Dead, reason: subject,
			to: []tasks.Delivery{{Recipient: "desk@firm.example", Status: tasks.Failed, Reply: subject}},
		})
	}
	last := b.site.number(`SELECT MAX(id) FROM monitored_emails_tasks`)
	does(b.ctx, b.t, chromedp.EmulateViewport(390, 844))
	for _, path := range []string{"/messages", "/messages/" + itoa(last-4), "/messages/" + itoa(last-3)} {
		b.goes(path)
		if !b.is(`window.evil === undefined && getComputedStyle(document.body).display !== "none" && ` +
			`document.images.length === 0`) {
			b.t.Errorf("on %s a subject has run, or has changed the page", path)
		}
		if !b.is(`document.documentElement.scrollWidth <= document.documentElement.clientWidth`) {
			b.t.Errorf("%s has to be scrolled sideways", path)
		}
	}
	does(b.ctx, b.t, chromedp.EmulateViewport(1100, 900))
}

// usesTheKeyboard: a slash goes to the search, and each control has a name and can be reached.
func (b visitor) usesTheKeyboard() {
	uncertain := b.site.number(`SELECT id FROM monitored_emails_tasks WHERE status = 'uncertain'`)
	const nameless = `[...document.querySelectorAll("input:not([type=hidden]), select, button, a, svg")]
			.filter(e => !(e.labels && e.labels.length) && !e.textContent.trim() && !e.ariaLabel)` +
		`.map(e => e.outerHTML).join("\n")`
	for _, path := range []string{
		"/", "/messages?from=x", "/messages/" + itoa(uncertain), "/inboxes", "/inboxes/billing@firm.example", "/audit",
	} {
		b.goes(path)
		if all := says(b.ctx, b.t, chromedp.Evaluate[string](nameless)); all != "" {
			b.t.Errorf("%s: these have no name for a screen reader: %s", path, all)
		}
		if !b.is(`document.querySelectorAll("h1").length === 1 && document.querySelectorAll("main").length === 1 && ` +
			`document.documentElement.lang === "en" && ` +
			`document.querySelectorAll("[tabindex]:not([tabindex='-1'])").length === 0`) {
			b.t.Errorf("%s has not one main heading and one main part, or has another order of the keyboard", path)
		}
		if !b.is(`new Set([...document.querySelectorAll("[id]")].map(e => e.id)).size === ` +
			`document.querySelectorAll("[id]").length`) {
			b.t.Errorf("%s gives an id twice", path)
		}
	}
	b.goes("/messages/" + itoa(uncertain))
	const onSubmit = `void document.addEventListener("submit", (e) => { e.preventDefault(); window.chose = true })`
	does(b.ctx, b.t, chromedp.Evaluate[chromedp.Void](onSubmit))
	b.types("#why", "a test\r")
	if !b.is(`!window.chose && document.querySelector("#why").value === "a test"`) {
		b.t.Error("the Enter key in the field of the reason presses one of the buttons, want none")
	}
	b.goes("/audit")
	does(b.ctx, b.t, chromedp.KeyEvent("/"))
	if !b.is(`document.activeElement.id === "q"`) {
		b.t.Error("a slash does not lead to the search box")
	}
	does(b.ctx, b.t, chromedp.Evaluate[chromedp.Void](`void (window.before = true)`))
	b.types("#q", "hearing\r")
	b.waits()
	b.sees("Hearing on 14 April")
}

// hasNoScript: everything works without.
func (b visitor) hasNoScript() {
	set := func(off bool) chromedp.Action[chromedp.Void] {
		params := emulation.SetScriptExecutionDisabledParams{Value: off}
		return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
			_, err := cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled, params)
			return chromedp.Void{}, err
		}
	}
	does(b.ctx, b.t, set(true))
	b.goes("/messages?state=uncertain")
	if got := says(b.ctx, b.t, chromedp.Text(chromedp.CSS(".messages time"))); got != "2026-03-31 12:01 UTC" {
		b.t.Errorf("without a script a time is %q, want it with its zone", got)
	}
	does(b.ctx, b.t, chromedp.Click(chromedp.CSS(".messages a")), chromedp.WaitReady(chromedp.CSS("#why")),
		chromedp.SendKeys(chromedp.CSS("#why"), "he has it"),
		chromedp.Click(chromedp.CSS(`button[formaction$="/delivered"]`)),
		chromedp.WaitReady(chromedp.CSS(".note.good")))
	b.sees("The message counts as delivered.")
	does(b.ctx, b.t, set(false))
	b.goes("/")
}
