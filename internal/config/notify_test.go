package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"postrider/internal/notify"
)

func TestNotify(t *testing.T) {
	all := []notify.Kind{"dead", "uncertain", "bounced", "inbox_unreachable", "needs_login", "recipient_bounces"}
	c := load(t, minimal)
	if c.Notify.To != nil || c.Hook != nil || !slices.Equal(c.Notify.On, all) || c.Notify.AtMost != time.Hour {
		t.Errorf("without keys it is %+v and %q, want nobody, of all, every hour at most", c.Notify, c.Hook)
	}
	c = load(t, minimal+"notify: {to: ops@firm.example, on: uncertain}\n", "POSTRIDER_NOTIFY_AT_MOST", "1d")
	if !slices.Equal(c.Notify.To, []string{"ops@firm.example"}) ||
		!slices.Equal(c.Notify.On, []notify.Kind{notify.Uncertain}) || c.Notify.AtMost != 24*time.Hour {
		t.Errorf("it is %+v, want one address, one kind, and the environment's day", c.Notify)
	}
}

func TestHook(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"absolute", "[" + abs("page") + ", --team, a b]", abs("page") + "|--team|a b"},
		{"a program without arguments", abs("page"), abs("page")},
		{"beside the file", "./page", "DIR/page"},
		{"in a folder beside it", "[bin/page, x/y]", "DIR/bin/page|x/y"},
		{"in PATH", "page", "page"},
		{"a path with a space that is there", "./my page", "DIR/my page"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := write(t, minimal+"hook: "+tt.text+"\n")
			dir := filepath.Dir(path)
			if err := os.WriteFile(filepath.Join(dir, "my page"), nil, 0o700); err != nil {
				t.Fatal(err)
			}
			c, err := loadFile(path, variables())
			if err != nil {
				t.Fatal(err)
			}
			got := strings.ReplaceAll(strings.Join(c.Hook, "|"), dir, "DIR")
			if filepath.ToSlash(got) != filepath.ToSlash(tt.want) {
				t.Errorf("hook: %s is %q, want %q", tt.text, got, tt.want)
			}
		})
	}
}

func TestNotifyErrors(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"no address", "notify: {to: [ops@firm.example, ops]}", `:5:33: notify.to[1]: "ops" is not an address`},
		{
			"twice", "notify: {to: [a@x.example, a@x.example]}",
			":5:28: notify.to[1]: a@x.example stands here twice; remove one of them",
		},
		{
			"in two spellings", "notify: {to: [Ops@bücher.example, b@x.example, ops@XN--bcher-kva.example]}",
			":5:48: notify.to[2]: ops@XN--bcher-kva.example is the same address as Ops@bücher.example; " +
				"remove one of them",
		},
		{
			"unknown kind", "notify: {to: a@x.example, on: [dead, death]}",
			`:5:38: notify.on[1]: "death" is not one of dead, uncertain, bounced, inbox_unreachable, needs_login`,
		},
		{
			"no kind", "notify: {to: a@x.example, on: []}",
			":5:27: notify.on: is empty; name one or more of dead, uncertain, bounced, inbox_unreachable, needs_login",
		},
		{
			"too long", "notify: {to: a@x.example, at_most: 31d}",
			":5:27: notify.at_most: 31d is out of range; it goes from 0s to 30d",
		},
		{
			"nobody", "notify: {at_most: 2h}",
			":5:1: notify: has no recipient; give notify.to, an address, or hook, a program",
		},
		{"no hook", "hook: []", ":5:1: hook: is empty; name a program"},
		{
			"a shell's line", "hook: /usr/bin/page --team mail",
			`:5:1: hook: "/usr/bin/page --team mail" is the name of one program, because no shell reads it; ` +
				"write arguments as a list: hook: [/usr/bin/page, --team, mail]",
		},
		{"elsewhere", "notify: {hook: page}", ":5:10: notify.hook: unknown key; known here are to, on, at_most"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := loadErrors(t, write(t, strings.TrimPrefix(minimal, "\n")+"\n"+tt.text+"\n"), variables())
			if !strings.Contains(got, tt.want) || strings.Count(got, "\n") > 1 {
				t.Errorf("the errors are\n%s\nwant one line with\n%s", got, tt.want)
			}
		})
	}
	const text = "smtp: {host: h}\n" +
		"forward: {envelope_from: a@x.example}\n" +
		"routes: [{name: all, match: {}, to: a@x.example}]\n" +
		"notify: {to: a@x.example}\n"
	const want = "postrider.yaml:4:10: notify.to: needs a sender address; set forward.from"
	if got := loadErrors(t, write(t, text), variables()); !strings.Contains(got, want) {
		t.Errorf("the errors are\n%s\nwant\n%s", got, want)
	}
}
