package inbox

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/testserver"
)

func TestParseLabels(t *testing.T) {
	const name, value = "use 1 to 63 of a-z, 0-9, _, . and -", "use 1 to 63 printable ASCII characters without spaces"
	longest := strings.Repeat("n", 63) + "=" + strings.Repeat("v", 63)
	for _, tt := range []struct {
		texts []string
		want  string // the labels
		wrong string // or a part of the error
	}{
		{[]string{"tenant=acme", "region.eu_1-a=="}, "region.eu_1-a== tenant=acme", ""},
		{[]string{"tenant="}, "tenant=", ""},
		{[]string{longest}, longest, ""},
		{[]string{"tenant"}, "", `the label "tenant" has no value; write it like tenant=acme`},
		{[]string{"Tenant=acme"}, "", name},
		{[]string{"=acme"}, "", name},
		{[]string{"ten ant="}, "", name},
		{[]string{strings.Repeat("n", 64) + "=v"}, "", name},
		{[]string{"tenant=two words"}, "", value},
		{[]string{"tenant=Zürich"}, "", value},
		{[]string{"tenant=" + strings.Repeat("v", 64)}, "", value},
		{[]string{"a=1", "a=2"}, "", "the label a is given twice"},
		{[]string{"a", "B=1"}, "", "has no value; write it like tenant=acme; the label \"B=1\" has a wrong name"},
	} {
		got, err := ParseLabels(tt.texts)
		if tt.wrong != "" {
			wantError(t, err, tt.wrong)
			if !errors.As(err, new(*InvalidError)) {
				t.Errorf("%q: the error is a %T, want an *InvalidError", tt.texts, err)
			}
			continue
		}
		if text := strings.Join(got.Texts(), " "); err != nil || text != tt.want {
			t.Errorf("%q are the labels %s (%v), want %s", tt.texts, text, err, tt.want)
		}
	}
}

func TestLabels(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		desk := Inbox{Address: "desk@firm.example", Host: "h", Labels: Labels{"tenant": "acme", "a": "1"}}
		in, err := b.Add(b.ctx, desk, "x")
		if err != nil {
			t.Fatal(err)
		}
		b.add("other@firm.example")
		wantLabels(t, in, "a=1 tenant=acme")
		set := func(labels Labels) Inbox {
			t.Helper()
			if in, err = b.Set(b.ctx, in.Address, Changes{Labels: labels}); err != nil {
				t.Fatal(err)
			}
			return in
		}
		wantLabels(t, set(Labels{"tenant": "Acme", "b": "2"}), "a=1 b=2 tenant=Acme")
		wantLabels(t, set(Labels{"a": "", "unknown": ""}), "b=2 tenant=Acme")
		if in, err = b.Set(b.ctx, in.Address, Changes{Description: ptr("x")}); err != nil {
			t.Fatal(err)
		}
		wantLabels(t, in, "b=2 tenant=Acme")
		all, err := b.Active(b.ctx)
		if err != nil {
			t.Fatal(err)
		}
		wantLabels(t, all[0], "b=2 tenant=Acme")
		wantLabels(t, all[1], "")
		lease, _, err := b.AcquireScan(b.ctx, in.ID, "a:1", 1)
		if err != nil || lease.Inbox.Labels != nil {
			t.Errorf("a lease has the labels %v (%v), want none", lease.Inbox.Labels, err)
		}
		_, err = b.Set(b.ctx, in.Address, Changes{Labels: Labels{"c": "two words"}})
		wantError(t, err, `the label "c=two words" has a wrong value`)
		many := Labels{}
		for i := range 15 {
			many[fmt.Sprint("n", i)] = "v"
		}
		_, err = b.Set(b.ctx, in.Address, Changes{Labels: many})
		wantError(t, err, "there are 17 labels; an inbox may have 16")
		wantLabels(t, b.get(in.Address), "b=2 tenant=Acme")
		b.remove(in.Address)
		var left int64
		err = b.db.View(b.ctx, func(tx *gorm.DB) error {
			return tx.Raw(`SELECT COUNT(*) FROM monitored_labels`).Scan(&left).Error
		})
		if err != nil || left != 0 {
			t.Errorf("%d labels of a removed inbox are left (%v), want 0", left, err)
		}
	})
}

func wantLabels(t *testing.T, in Inbox, want string) {
	t.Helper()
	if got := strings.Join(in.Labels.Texts(), " "); got != want {
		t.Errorf("inbox %s has the labels %q, want %q", in.Address, got, want)
	}
}

// TestManyLabels: the labels of 1,000 inboxes are one statement more, and so is a choice among
// them.
func TestManyLabels(t *testing.T) {
	for name, cfg := range map[string]func(*testing.T) db.Config{
		"sqlite": func(t *testing.T) db.Config {
			return db.Config{Driver: db.SQLite, Path: filepath.Join(t.TempDir(), "p.db")}
		},
		"mariadb": func(t *testing.T) db.Config {
			return db.Config{Driver: db.MySQL, DSN: testserver.MariaDB(t).NewDatabase(t)}
		},
	} {
		t.Run(name, func(t *testing.T) { testManyLabels(t, cfg(t)) })
	}
}

func testManyLabels(t *testing.T, cfg db.Config) {
	b := newBench(t, cfg)
	in := b.add("desk0@firm.example")
	err := b.db.Tx(b.ctx, func(tx *gorm.DB) error {
		for i := 1; i < 1000; i++ {
			in.Address = fmt.Sprintf("desk%d@firm.example", i)
			in.Labels = Labels{"tenant": fmt.Sprint("t", i%10), "number": fmt.Sprint(i)}
			if err := insertInbox(tx, in); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var statements testserver.Statements
	counted, err := db.Open(b.ctx, cfg, db.WithPool(statements.Pool))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = counted.Close() })
	statements.Taken()
	chosen := Selection{Inboxes: []string{"desk*"}, Labels: []string{"tenant=t7", "number"}}
	boxes, err := New(counted, OpenSealer("")).ActiveOf(b.ctx, chosen)
	if err != nil || len(boxes) != 100 {
		t.Fatalf("%d inboxes are chosen (%v), want 100", len(boxes), err)
	}
	if texts, _ := statements.Taken(); len(texts) != 3 {
		t.Errorf("it takes %d statements, want 3 (inboxes, labels, folders):\n%s",
			len(texts), strings.Join(texts, "\n"))
	}
}

func TestSelection(t *testing.T) {
	box := func(id int64, address string, labels ...string) Inbox {
		l, err := ParseLabels(labels)
		if err != nil {
			t.Fatal(err)
		}
		return Inbox{ID: id, Address: address, Labels: l}
	}
	boxes := []Inbox{
		box(1, "a@acme.example", "tenant=acme", "vip=yes"), box(2, "b@acme.example", "tenant=acme"),
		box(3, "c@umbrella.example", "tenant=umbrella"), box(4, "d@umbrella.example"), box(5, "a?b@x.example"),
	}
	for _, tt := range []struct {
		name  string
		sel   Selection
		want  []int64
		wrong string
		none  bool // the boxes have no labels
	}{
		{name: "all", want: []int64{1, 2, 3, 4, 5}},
		{
			name: "addresses",
			sel:  Selection{Inboxes: []string{"D@umbrella.example", "a@acme.example", " a@acme.example"}},
			want: []int64{1, 4},
		},
		{name: "glob", sel: Selection{Inboxes: []string{"*@ACME.example"}}, want: []int64{1, 2}},
		{name: "one character", sel: Selection{Inboxes: []string{"?@*"}}, want: []int64{1, 2, 3, 4}},
		{name: "an address with a star", sel: Selection{Inboxes: []string{"a?b@x.example"}}, want: []int64{5}},
		{
			name: "glob is no expression", sel: Selection{Inboxes: []string{"a@acme.exampl?", "[abc]@acme.example"}},
			wrong: `"[abc]@acme.example" is not an address`,
		},
		{name: "label", sel: Selection{Labels: []string{"tenant=acme"}}, want: []int64{1, 2}},
		{name: "any value", sel: Selection{Labels: []string{"tenant"}}, want: []int64{1, 2, 3}},
		{name: "all labels", sel: Selection{Labels: []string{"tenant=acme", "vip"}}, want: []int64{1}},
		{
			name: "both", sel: Selection{Inboxes: []string{"b@*", "c@*"}, Labels: []string{"tenant=acme"}},
			want: []int64{2},
		},
		{
			name: "unknown address", sel: Selection{Inboxes: []string{"e@acme.example"}},
			wrong: "there is no inbox e@acme.example; did you mean a@acme.example?",
		},
		{name: "no address", sel: Selection{Inboxes: []string{""}}, wrong: "an address is missing"},
		{
			name: "no match", sel: Selection{Inboxes: []string{"*@acne.example"}},
			wrong: "no inbox matches *@acne.example; did you mean *@acme.example?",
		},
		{
			name: "no match at all", sel: Selection{Inboxes: []string{"zzz*"}},
			wrong: "no inbox matches zzz*; `postrider inbox list` shows all inboxes",
		},
		{
			name: "misspelt label", sel: Selection{Labels: []string{"tenant=amce"}},
			wrong: `no inbox has the label "tenant=amce"; did you mean tenant=acme?`,
		},
		{name: "misspelt name", sel: Selection{Labels: []string{"tennant"}}, wrong: `did you mean tenant?`},
		{
			name: "unknown label", sel: Selection{Labels: []string{"zone=1"}},
			wrong: `no inbox has the label "zone=1"; labels in use: tenant=acme, tenant=umbrella, vip=yes`,
		},
		{name: "case counts", sel: Selection{Labels: []string{"tenant=Acme"}}, wrong: `did you mean tenant=acme?`},
		{name: "empty value", sel: Selection{Labels: []string{"tenant="}}, wrong: `no inbox has the label "tenant="`},
		{name: "empty", sel: Selection{Labels: []string{""}}, wrong: `no inbox has the label ""`},
		{
			name: "not together", sel: Selection{Labels: []string{"tenant=umbrella", "vip"}},
			wrong: "no inbox has all of the labels tenant=umbrella, vip together",
		},
		{
			name: "not there", sel: Selection{Inboxes: []string{"b@*"}, Labels: []string{"vip=yes"}},
			wrong: `none of the inboxes b@* has the label "vip=yes"; labels in use: tenant=acme`,
		},
		{
			name: "no labels", none: true, sel: Selection{Labels: []string{"vip"}},
			wrong: "no inbox has a label; set one with `postrider inbox set ADDR --label tenant=acme`",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all := boxes
			if tt.none {
				all = boxes[3:]
			}
			got, err := tt.sel.Choose(all)
			if tt.wrong != "" {
				wantError(t, err, tt.wrong)
				return
			}
			if ids := IDs(got); err != nil || !slices.Equal(ids, tt.want) {
				t.Errorf("the inboxes %v are chosen (%v), want %v", ids, err, tt.want)
			}
		})
	}
}

func TestActiveOf(t *testing.T) {
	b := sqliteBench(t)
	for i, address := range []string{"a@x.org", "b@x.org"} {
		b.add(address)
		if _, err := b.Set(b.ctx, address, Changes{Labels: Labels{"n": fmt.Sprint(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	b.exec(`UPDATE monitored_emails SET is_active = 0 WHERE email_address = 'b@x.org'`)
	for _, tt := range []struct {
		sel   Selection
		want  int
		wrong string
	}{
		{Selection{}, 1, ""},
		{Selection{Inboxes: []string{"*@x.org"}}, 1, ""},
		{Selection{Labels: []string{"n=1"}}, 0, ""},
		{Selection{Inboxes: []string{"B@x.org"}}, 0, "inbox b@x.org is disabled; enable it with"},
	} {
		got, err := b.ActiveOf(b.ctx, tt.sel)
		if tt.wrong != "" {
			wantError(t, err, tt.wrong)
		} else if err != nil || len(got) != tt.want {
			t.Errorf("%+v chooses %d active inboxes (%v), want %d", tt.sel, len(got), err, tt.want)
		}
	}
}
