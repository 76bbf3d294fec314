package inbox

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"
)

func TestAddFillsInDefaults(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		in := b.add("Desk@Firm.Example")
		if in.Address != "desk@firm.example" || in.Username != "Desk@Firm.Example" {
			t.Errorf("address %q, username %q; want the address in lower case and the username as it was typed",
				in.Address, in.Username)
		}
		if in.Port != 993 || in.Security != TLS || in.Auth != "auto" || in.Start != StartLatest || !in.Active {
			t.Errorf("defaults are %+v; want port 993, tls, auto, latest, active", in)
		}
		if got := folderState(in); !slices.Equal(got, []string{"INBOX true"}) {
			t.Errorf("folders are %q, want INBOX only", got)
		}
		if in.LastScannedAt != nil || in.Folders[0].InitializedAt != nil ||
			time.Since(in.CreatedAt).Abs() > time.Minute {
			t.Errorf("the inbox is %+v, want it created now and never scanned", in)
		}
	})
}

func TestAddRefuses(t *testing.T) {
	b := sqliteBench(t)
	for _, tt := range []struct {
		name string
		in   Inbox
		want []string
	}{
		{"not an address", Inbox{Host: "h"}, []string{"an address is missing"}},
		{"address with a name", Inbox{Address: "Me <me@x.org>", Host: "h"}, []string{"write only me@x.org"}},
		{"address without a domain", Inbox{Address: "me", Host: "h"}, []string{"not an address; write it like"}},
		{
			"address that fits no column",
			Inbox{Address: strings.Repeat("a", 320) + "@x.org", Host: "h"},
			[]string{"longer than mail allows"},
		},
		{"no host", Inbox{Address: "a@x.org"}, []string{"host"}},
		{
			"host with letters that are not ASCII, and a port",
			Inbox{Address: "a@x.org", Host: "bücher.example:993"},
			[]string{"without a port"},
		},
		{"host with a port", Inbox{Address: "a@x.org", Host: "h:993"}, []string{"without a port"}},
		{"host as a URL", Inbox{Address: "a@x.org", Host: "imaps://h"}, []string{"host"}},
		{"port too high", Inbox{Address: "a@x.org", Host: "h", Port: 65536}, []string{"65536"}},
		{"port below 1", Inbox{Address: "a@x.org", Host: "h", Port: -1}, []string{"-1"}},
		{
			"security unknown",
			Inbox{Address: "a@x.org", Host: "h", Security: "ssl"},
			[]string{`"ssl"`, "tls, starttls or none"},
		},
		{
			"unencrypted",
			Inbox{Address: "a@x.org", Host: "mail.x.org", Security: None},
			[]string{"mail.x.org", "unencrypted"},
		},
		{"auth unknown", Inbox{Address: "a@x.org", Host: "h", Auth: "ntlm"}, []string{"ntlm"}},
		{
			"start unknown",
			Inbox{Address: "a@x.org", Host: "h", Start: "yesterday"},
			[]string{"yesterday", "since:YYYY-MM-DD"},
		},
		{
			"start on no day",
			Inbox{Address: "a@x.org", Host: "h", Start: "since:2026-02-30"},
			[]string{"since:2026-02-30"},
		},
		{
			"folder without a name",
			Inbox{Address: "a@x.org", Host: "h", Folders: []Folder{{Name: ""}}},
			[]string{"folder name"},
		},
		{
			"folder with a line break",
			Inbox{Address: "a@x.org", Host: "h", Folders: []Folder{{Name: "a\r\nb"}}},
			[]string{"line break"},
		},
		{"username with a line break", Inbox{Address: "a@x.org", Host: "h", Username: "a\nb"}, []string{"username"}},
		{
			"text that is not UTF-8", Inbox{
				Address: "a@x.org", Host: "h", Username: "u\xff", Description: "B\xfcro",
				Folders: []Folder{{Name: "Entw\xfcrfe"}},
			}, []string{
				`the username "u\xff" is not UTF-8`, `the description "B\xfcro" is not UTF-8`,
				`folder name "Entw\xfcrfe" is not UTF-8`,
			},
		},
		{
			"everything at once",
			Inbox{Address: "a", Host: "", Port: 70000, Start: "x"},
			[]string{"not an address", "host", "70000", "start"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := b.Add(b.ctx, tt.in, "x")
			wantError(t, err, tt.want...)
		})
	}
	_, err := b.Add(b.ctx, Inbox{Address: "a@x.org", Host: "h"}, "")
	wantError(t, err, "password is empty")
	if all, err := b.List(b.ctx); err != nil || len(all) != 0 {
		t.Errorf("the store holds %v (%v), want no refused inbox", all, err)
	}
}

// TestInvalidHost: nothing is to be allowed for a host that is invalid.
func TestInvalidHost(t *testing.T) {
	for _, host := range []string{"127.0.0.1:143", "h:143", ""} {
		_, err := sqliteBench(t).Add(t.Context(), Inbox{Address: "a@x.org", Host: host, Security: None}, "x")
		if err == nil || !strings.Contains(err.Error(), "host is ") || strings.Contains(err.Error(), "plaintext") {
			t.Errorf("host %q: got %v, want that the host is invalid, and no more", host, err)
		}
	}
}

func TestAddAccepts(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		for i, in := range []Inbox{
			{Host: "127.0.0.1", Security: None},
			{Host: "localhost", Security: None},
			{Host: "[::1]", Security: None},
			{Host: "imap.example.com", Security: None, AllowPlaintext: true},
			{Host: "2001:db8::1", Security: STARTTLS},
			{
				Host: "h", Start: "since:2026-02-28", Description: "Büro 東京",
				Username: `DOM\user`, Auth: "login", Port: 1,
			},
		} {
			in.Address = fmt.Sprintf("a%d@x.org", i)
			got, err := b.Add(b.ctx, in, "hunter2")
			if err != nil {
				t.Errorf("host %s: %v", in.Host, err)
				continue
			}
			if want := cmp.Or(in.Port, got.Security.DefaultPort()); got.Port != want {
				t.Errorf("%s: port is %d, want %d", in.Security, got.Port, want)
			}
			if got.Description != in.Description || got.AllowPlaintext != in.AllowPlaintext ||
				got.Host != strings.Trim(in.Host, "[]") {
				t.Errorf("stored %+v, want %+v", got, in)
			}
		}
	})
}

// TestHostInUnicode checks that a name has the form that DNS has.
func TestHostInUnicode(t *testing.T) {
	b := sqliteBench(t)
	in, err := b.Add(b.ctx, Inbox{Address: "a@x.org", Host: "imap.Bücher.example"}, "hunter2")
	if want := "imap.xn--bcher-kva.example"; err != nil || in.Host != want {
		t.Errorf("the host is %q (%v), want %s", in.Host, err, want)
	}
}

// TestAddTakesWhatCanBeSentTo checks that Add accepts every address that package address accepts.
func TestAddTakesWhatCanBeSentTo(t *testing.T) {
	b := sqliteBench(t)
	for _, address := range []string{`"the desk"@firm.example`, "desk@[192.0.2.1]", "büro@firm.example"} {
		if b.add(address); b.get(address).Address != address {
			t.Errorf("%s is stored as %s, want it unchanged", address, b.get(address).Address)
		}
	}
}

func TestAddTwice(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		b.add("desk@firm.example")
		_, err := b.Add(b.ctx, Inbox{Address: "DESK@firm.example", Host: "h"}, "other")
		var exists *ExistsError
		if !errors.As(err, &exists) {
			t.Fatalf("got %v, want an *ExistsError", err)
		}
		wantError(t, err, "desk@firm.example exists already", "inbox set")
		if in := b.get("desk@firm.example"); in.Host != "imap.example.com" {
			t.Error("the second Add changed the inbox, want it unchanged")
		}
	})
}

// When the answer to a commit is lost, Add runs again and finds its own row.
func TestAddAgainAfterALostAnswer(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		in := b.add("desk@firm.example")
		err := b.db.Tx(b.ctx, func(tx *gorm.DB) error { return insertInbox(tx, in) })
		if err != nil {
			t.Errorf("insertInbox of the same inbox again: %v, want no error", err)
		}
	})
}
