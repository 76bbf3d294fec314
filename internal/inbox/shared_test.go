package inbox

import (
	"slices"
	"testing"
)

func TestShared(t *testing.T) {
	in := Inbox{
		Address: "a@x.example", Host: "h.example", Username: "ann", Active: true,
		Folders: []Folder{{Name: "INBOX", Active: true}, {Name: "Junk", Active: true}},
	}
	other := func(change func(*Inbox)) Inbox {
		o := in
		o.Address, o.Folders = "b@x.example", slices.Clone(in.Folders)
		change(&o)
		return o
	}
	const (
		rest = " of ann at h.example, too: each of the two forwards what arrives there"
		both = `inbox b@x.example reads "INBOX", "Junk"` + rest
		junk = `inbox b@x.example reads "Junk"` + rest
	)
	for name, tt := range map[string]struct {
		other Inbox
		want  string // none: no note
	}{
		"itself":           {in, ""},
		"both folders":     {other(func(*Inbox) {}), both},
		"one folder":       {other(func(o *Inbox) { o.Folders[0].Name = "Sent" }), junk},
		"another case":     {other(func(o *Inbox) { o.Host = "H.Example" }), both},
		"other folders":    {other(func(o *Inbox) { o.Folders[0].Name, o.Folders[1].Active = "Sent", false }), ""},
		"another host":     {other(func(o *Inbox) { o.Host = "i.example" }), ""},
		"another port":     {other(func(o *Inbox) { o.Port = 1143 }), ""},
		"another username": {other(func(o *Inbox) { o.Username = "bob" }), ""},
		"not active":       {other(func(o *Inbox) { o.Active = false }), ""},
	} {
		var one, three []string
		if tt.want != "" {
			one, three = []string{tt.want}, []string{tt.want + " (and 2 more)"}
		}
		if got := in.Shared([]Inbox{tt.other, tt.other, tt.other}); !slices.Equal(got, three) {
			t.Errorf("%s, three times: got %q, want one note", name, got)
		}
		if got := in.Shared([]Inbox{tt.other}); !slices.Equal(got, one) {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}
