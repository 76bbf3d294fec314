package contacts

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/encoding/unicode"
	"gorm.io/gorm"

	"postrider/internal/db"
	"postrider/internal/message"
	"postrider/internal/route"
	"postrider/internal/testserver"
)

func TestMain(m *testing.M) { testserver.Main(m) }

// onEach runs a test on every engine.
func onEach(t *testing.T, test func(t *testing.T, ctx context.Context, s *Store)) {
	t.Helper()
	for name, cfg := range map[string]func(t *testing.T) db.Config{
		"sqlite": func(t *testing.T) db.Config {
			return db.Config{Driver: db.SQLite, Path: filepath.Join(t.TempDir(), "p.db")}
		},
		"mariadb": func(t *testing.T) db.Config {
			return db.Config{Driver: db.MySQL, DSN: testserver.MariaDB(t).NewDatabase(t)}
		},
		"mysql": func(t *testing.T) db.Config {
			return db.Config{Driver: db.MySQL, DSN: testserver.MySQL(t).NewDatabase(t)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := cfg(t) // its server may have to start first
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			d, err := db.OpenAnySchema(ctx, cfg)
			check(t, err)
			defer func() { _ = d.Close() }()
			_, err = d.Migrate(ctx)
			check(t, err)
			test(t, ctx, New(d))
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// all prints the directory, one contact a line.
func all(ctx context.Context, t *testing.T, s *Store) string {
	t.Helper()
	list, err := s.List(ctx)
	check(t, err)
	var lines []string
	for _, c := range list {
		lines = append(lines, Change{New: c}.String())
	}
	return strings.Join(lines, "\n")
}

func read(t *testing.T, text string) []Entry {
	t.Helper()
	entries, err := ReadCSV("people.csv", strings.NewReader(text))
	check(t, err)
	return entries
}

// TestImport imports several files, one after the other.
func TestImport(t *testing.T) {
	steps := []struct{ name, file, changes, after string }{
		{
			"new",
			"name,email,keywords,active\nAnn Müller,ann@firm.example,\"file 4711; client 7\",yes\n" +
				"王小明,,,\n𝄞 Bo,bo@firm.example,,no\n",
			"+ Ann Müller <ann@firm.example>: file 4711; client 7\n+ 王小明\n+ 𝄞 Bo <bo@firm.example> (not active)",
			"+ Ann Müller <ann@firm.example>: file 4711; client 7\n+ 王小明\n+ 𝄞 Bo <bo@firm.example> (not active)",
		},
		{
			"a new one with the name of another", "name,email\nAnn Müller,ann2@firm.example\n",
			"+ Ann Müller <ann2@firm.example>", "",
		},
		{
			"by address, other case; columns that are missing stay", "email;name\nANN@firm.example;Ann Meier\n",
			"~ Ann Müller <ann@firm.example>: name \"Ann Müller\" becomes \"Ann Meier\", " +
				"email \"ann@firm.example\" becomes \"ANN@firm.example\"", "",
		},
		{
			"an address becomes known", "name,email\n王小明,wang@firm.example",
			`~ 王小明: email "" becomes "wang@firm.example"`, "",
		},
		{
			"only by name", "name,active,keywords\n王小明,no,Wang\n𝄞 Bo,yes,",
			"~ 王小明 <wang@firm.example>: keywords \"\" becomes \"Wang\", is no longer active\n" +
				"~ 𝄞 Bo <bo@firm.example>: is active again", "",
		},
		{
			"an empty address and active stay as they are",
			"name,email,keywords,active\n王小明,,\"Wang, Xiaoming\", \n𝄞 Bo, ,,\n",
			`~ 王小明 <wang@firm.example>: keywords "Wang" becomes "Wang; Xiaoming"`, "",
		},
		{
			"nothing changes", "name,email,keywords,active\nAnn Meier,ANN@firm.example,\"file 4711,client 7\",1\n", "",
			"+ Ann Meier <ANN@firm.example>: file 4711; client 7\n" +
				"+ 王小明 <wang@firm.example>: Wang; Xiaoming (not active)\n" +
				"+ 𝄞 Bo <bo@firm.example>\n+ Ann Müller <ann2@firm.example>",
		},
	}
	onEach(t, func(t *testing.T, ctx context.Context, s *Store) {
		for _, step := range steps {
			before := all(ctx, t, s)
			plan, err := s.Plan(ctx, read(t, step.file))
			check(t, err)
			if got := all(ctx, t, s); got != before {
				t.Errorf("%s: after Plan the directory is\n%s\nwant no change from\n%s", step.name, got, before)
			}
			done, err := s.Put(ctx, read(t, step.file))
			check(t, err)
			for what, list := range map[string][]Change{"planned": plan, "done": done} {
				var lines []string
				for _, c := range list {
					if c.String() != "" {
						lines = append(lines, c.String())
					}
				}
				if got := strings.Join(lines, "\n"); got != step.changes {
					t.Errorf("%s: %s\n%s\nwant\n%s", step.name, what, got, step.changes)
				}
			}
			if got := all(ctx, t, s); step.after != "" && got != step.after {
				t.Errorf("%s: the directory is\n%s\nwant\n%s", step.name, got, step.after)
			}
		}
	})
}

// TestImportAgain checks that importing a file again changes nothing, even when another system
// spells it differently.
func TestImportAgain(t *testing.T) {
	onEach(t, func(t *testing.T, ctx context.Context, s *Store) {
		for i, file := range []string{
			"name,email\nAnn,\nAnn,ann@firm.example\nZoë,\nBo,bo@exämple.example\n",
			"name,email\nAnn,\nAnn,ann@firm.example\nZoe\u0308,\nBo,bo@xn--exmple-cua.example\n",
		} {
			changes, err := s.Put(ctx, read(t, file))
			check(t, err)
			for _, c := range changes {
				if added := c.Old == nil; added != (i == 0) {
					t.Errorf("file %d: %s is added: %v, want it added by the first file only", i+1, c.New, added)
				}
			}
		}
	})
}

// TestAllOrNothing checks that a fault in one line prevents the import of all.
func TestAllOrNothing(t *testing.T) {
	onEach(t, func(t *testing.T, ctx context.Context, s *Store) {
		_, err := s.Put(ctx, read(t, "name\nAnn\nBert\nX\n"))
		var invalid *InvalidError
		if !errors.As(err, &invalid) || all(ctx, t, s) != "" {
			t.Errorf("Put added %q with the error %v, want nothing and an InvalidError", all(ctx, t, s), err)
		}
	})
}

// TestBrokenByHand checks that an invalid row in the database does not affect other contacts.
func TestBrokenByHand(t *testing.T) {
	onEach(t, func(t *testing.T, ctx context.Context, s *Store) {
		check(t, s.db.Tx(ctx, func(tx *gorm.DB) error {
			const rows = `INSERT INTO contacts (name, email, keywords, is_active) VALUES
				('Ann', 'ann@firm.example', 'x', 1), ('', '', '', 1), ('Bert', 'nowhere', '', 1), ('', '', '', 0)`
			return tx.Exec(rows).Error
		}))
		list, err := s.List(ctx)
		check(t, err)
		directory, faults := Directory(list)
		table, err := route.Compile([]route.Rule{{Name: "p", ToContacts: &route.ToContacts{In: []string{"subject"}}}})
		check(t, err)
		mail := route.Mail{Message: parsed(t, "Subject: Ann, Bert, x\n\n")}
		if got := table.With(directory).Decide(t.Context(), mail).To; !slices.Equal(got, []string{"ann@firm.example"}) {
			t.Errorf("a message that names all of them goes to %v, want ann@firm.example only", got)
		}
		var got []string
		for _, f := range faults {
			got = append(got, strings.SplitN(f.Error(), ";", 2)[0])
		}
		want := []string{
			`contact 1 (Ann): the keyword "x" is too short to search for: it would be found everywhere`,
			`contact 2 (): the name is missing`,
			`contact 3 (Bert): email: "nowhere" is not an address`,
		}
		if !slices.Equal(got, want) {
			t.Errorf("faults\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

func parsed(t *testing.T, text string) *message.Message {
	t.Helper()
	spool := (&message.Spooler{Limit: 1 << 20, Budget: 1 << 20}).New()
	_, err := spool.Write([]byte(text))
	check(t, err)
	m, err := message.Parse(spool)
	check(t, err)
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func TestReadCSV(t *testing.T) {
	utf16 := func(e unicode.Endianness) func(string) string {
		return func(s string) string {
			out, _ := unicode.UTF16(e, unicode.UseBOM).NewEncoder().String(s)
			return out
		}
	}
	const plain = "name,email\nMüller,m@x.example\n"
	tests := []struct{ name, file, want string }{
		{"UTF-8", plain, "+ Müller <m@x.example>"},
		{"byte order mark", "\ufeff" + plain, "+ Müller <m@x.example>"},
		{"UTF-16, little end", utf16(unicode.LittleEndian)(plain), "+ Müller <m@x.example>"},
		{"UTF-16, big end", utf16(unicode.BigEndian)(plain), "+ Müller <m@x.example>"},
		{"CR LF", strings.ReplaceAll(plain, "\n", "\r\n"), "+ Müller <m@x.example>"},
		{"semicolons", "name;email;keywords\nMüller;m@x.example;\"ab;cd\"\n", "+ Müller <m@x.example>: ab; cd"},
		{"tabs", "name\temail\tkeywords\nMüller\t\tab, cd\n", "+ Müller: ab; cd"},
		{"any order, any case, spaces", "Email , NAME\nm@x.example , Müller \n", "+ Müller <m@x.example>"},
		{"quoted line ends", "name,keywords\n\"Müller,\nHans\",\"ab\ncd\"\n", "+ Müller, Hans: ab; cd"},
		{
			"keywords of Chinese and Japanese keyboards",
			"name,keywords\n王小明,小明、老王；王总\n", "+ 王小明: 小明; 老王; 王总",
		},
		{"empty lines and fields", "name,email\n\n,\nMüller,\n", "+ Müller"},
		{"empty lines at the top", "\r\n\nname;email\nMüller;m@x.example\n", "+ Müller <m@x.example>"},
		{"no contacts", "name\n", ""},
		{
			"a line for Excel", "sep=;\r\nname;email;keywords\r\nMüller;m@x.example;ab, cd\r\n",
			"+ Müller <m@x.example>: ab; cd",
		},
		{"a line for Excel, which names the comma", "\"sep=,\"\n" + plain, "+ Müller <m@x.example>"},
		{
			"a line for Excel, which names the tab",
			utf16(unicode.LittleEndian)("SEP=\t\r\nname\temail\r\nMüller\tm@x.example\r\n"), "+ Müller <m@x.example>",
		},
		{"only CR", strings.ReplaceAll(plain, "\n", "\r"), "+ Müller <m@x.example>"},
		{
			"empty columns at the end", "name;email;;\nMüller;m@x.example;;\nMeier;;; \nMaier;;\n;;;\n",
			"+ Müller <m@x.example>\n+ Meier\n+ Maier",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			changes, err := plan(nil, read(t, tt.file))
			check(t, err)
			var lines []string
			for _, c := range changes {
				lines = append(lines, c.String())
			}
			if got := strings.Join(lines, "\n"); got != tt.want {
				t.Errorf("read\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestReadCSVFaults(t *testing.T) {
	twoAnns := []Contact{{ID: 1, Name: "Ann", Email: "a@x.example"}, {ID: 2, Name: "Ann", Email: "b@x.example"}}
	tests := []struct {
		name, file string
		want       []string // the beginning of each line of the error
	}{
		{"empty", "", []string{"p.csv:1: the first line must name the columns, out of name,email"}},
		{
			"unknown column", "name,mail\n",
			[]string{`p.csv:1: there is no column "mail"; the first line must name the columns, out of name,email`},
		},
		{
			"no header", "Ann,ann@x.example\n",
			[]string{"p.csv:1: the first line must name the columns, out of name,email"},
		},
		{"column twice", "name,name\n", []string{"p.csv:1: the column name appears twice"}},
		{
			"an unknown separator", "sep=|\nname|email\n",
			[]string{"p.csv:1: the first line must name the columns, out of name,email"},
		},
		{"unknown column below a line for Excel", "sep=;\nname;mail\n", []string{`p.csv:2: there is no column "mail"`}},
		{"nothing below a line for Excel", "sep=;\n", []string{"p.csv:1: the first line must name the columns"}},
		{"a column without a name", "name,,email\n", []string{`p.csv:1: there is no column ""`}},
		{"no columns at all", ",,\n", []string{"p.csv:1: the first line must name the columns, out of name,email"}},
		{
			"more than the columns", "sep=,\nname,email,\nBert,b@x.example,yes\n",
			[]string{`p.csv:3: the number of fields is 3, but the first line has 2; ` +
				`put text that holds a separator "in quotes"`},
		},
		{"a quote", "name\na \"b\n", []string{`p.csv:2: is not valid CSV: bare " in non-quoted-field; put text`}},
		{"no names", "email\n", []string{"p.csv:1: the column name is missing"}},
		{
			"Latin-1", "name\nAnn\nM\xfcller\n",
			[]string{"p.csv:3: is not UTF-8 (perhaps Latin-1); save it as CSV UTF-8"},
		},
		{"UTF-16 without a mark", "n\x00a\x00m\x00e\x00", []string{"p.csv:1: has zero octets"}},
		{"workbook", "PK\x03\x04...", []string{"p.csv: is a workbook, not a CSV file"}},
		{
			"all of a line at once",
			"name,email,active\nAnn,a@x.example,yes\nCyd,nowhere,perhaps\nAnn,a@x.example,perhaps\n",
			[]string{
				`p.csv:3: active is "perhaps"; write yes or no`,
				`p.csv:3: email: "nowhere" is not an address; write it like name@domain.example`,
				`p.csv:4: active is "perhaps"; write yes or no`,
				"p.csv:4: Ann <a@x.example> appears before, in p.csv:2; remove one of the two",
			},
		},
		{
			"all at once, after a field of two lines",
			"name,email,keywords,active\n\"Bert\nB.\",,,\n,,ok,\nCyd,nowhere,x,\n" +
				"Dan,,,perhaps\nEve\nAnn,,,\nFay,f@x.example,,\nFay,F@X.example,,\n\"Gil\n",
			[]string{
				"p.csv:4: the name is missing",
				`p.csv:5: email: "nowhere" is not an address; write it like name@domain.example`,
				`p.csv:5: the keyword "x" is too short to search for`,
				`p.csv:6: active is "perhaps"; write yes or no`,
				"p.csv:7: the number of fields is 1, but the first line has 4; " +
					"if the empty ones at the end are left out, write their separators",
				`p.csv:8: 2 contacts have the name "Ann"; add the email address of the one that you mean`,
				"p.csv:10: Fay <F@X.example> appears before, in p.csv:9; remove one of the two",
				"p.csv:11: is not valid CSV:",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			entries, err := ReadCSV("p.csv", strings.NewReader(tt.file))
			if err == nil {
				_, err = plan(twoAnns, entries)
			}
			var invalid *InvalidError
			if !errors.As(err, &invalid) {
				t.Fatalf("the error is %v, want an InvalidError", err)
			}
			got := strings.Split(err.Error(), "\n")
			ok := len(got) == len(tt.want)
			for i := range min(len(got), len(tt.want)) {
				ok = ok && strings.HasPrefix(got[i], tt.want[i])
			}
			if !ok {
				t.Errorf("faults\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}
