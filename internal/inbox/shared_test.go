package inbox

import (
	"slices"
	"testing"
)

func TestShared(t *testing.T) {
	in := Inbox{Address: "a@x.example", Host: "h.example", Username: "ann", Active: true, Folders: []Folder{{Name: "INBOX", Active: true}, {Name: "Junk", Active: true}}}
	other := func(change func(*Inbox)) Inbox {
		o := in
		o.Address, o.Folders = "b@x.example", slices.Clone(in.Folders)
		change(&o)
		return o
	}
	for name, tt := range map[string]struct {
		other Inbox
		want  []string
	}{
		"itself":           {in, nil},
		"both folders":     {other(func(*Inbox) {}), []string{`inbox b@x.example reads "INBOX", "Junk" of ann at h.example, too: each of the two forwards what arrives there`}},
		"one folder":       {other(func(o *Inbox) { o.Folders[0].Name = "Sent" }), []string{`inbox b@x.example reads "Junk" of ann at h.example, too: each of the two forwards what arrives there`}},
		"another case":     {other(func(o *Inbox) { o.Host = "H.Example" }), []string{`inbox b@x.example reads "INBOX", "Junk" of ann at h.example, too: each of the two forwards what arrives there`}},
		"other folders":    {other(func(o *Inbox) { o.Folders[0].Name, o.Folders[1].Active = "Sent", false }), nil},
		"another host":     {other(func(o *Inbox) { o.Host = "i.example" }), nil},
		"another port":     {other(func(o *Inbox) { o.Port = 1143 }), nil},
		"another username": {other(func(o *Inbox) { o.Username = "bob" }), nil},
		"not active":       {other(func(o *Inbox) { o.Active = false }), nil},
	} {
		if want := tt.want; want != nil {
			if got := in.Shared([]Inbox{tt.other, tt.other, tt.other}); !slices.Equal(got, []string{want[0] + " (and 2 more)"}) {
				t.Errorf("%s, three times: got %q, want one note", name, got)
			}
		}
		if got := in.Shared([]Inbox{tt.other}); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}
