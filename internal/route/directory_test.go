package route

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"postrider/internal/testserver/timing"
)

func TestWholeWords(t *testing.T) {
	tests := []struct {
		name, term, text string
		want             bool
	}{
		{"alone", "Ann", "Ann", true},
		{"other case", "ann", "To ANN.", true},
		{"within a word", "Ann", "Annual", false},
		{"end of a word", "Ann", "Johann", false},
		{"possessive", "Ann", "Ann's file", true},
		{"possessive, typographic", "Ann's", "Ann’s file", true},
		{"first within a word, then alone", "Ann", "Annual letter to Ann", true},
		{"part of a double name", "Müller", "Frau Müller-Lüdenscheidt", true},
		{"double name", "Müller-Lüdenscheidt", "Frau MÜLLER‐LÜDENSCHEIDT", true},
		{"double name is not the single one", "Müller-Lüdenscheidt", "Müller", false},
		{"over a line end", "Ann Miller", "Dear Ann\r\n Miller", true},
		{"composed, decomposed", "Müller", "Mu\u0308ller", true},
		{"a mark more is another letter", "Jose", "Jose\u0301", false},
		{"a mark that nothing composes with", "Jose", "Jose\u0331", false},
		{"sharp s", "Strauß", "STRAUSS", true},
		{"full width", "Ann", "Ａｎｎ", true},
		{"soft hyphen", "Lüdenscheidt", "Lüden\u00adscheidt", true},
		{"file name", "Miller", "contract_Miller_2.pdf", true},
		{"number", "4711", "file 4711-26", true},
		{"within a number", "4711", "file 47110", false},
		{"letter and number are one word", "Miller", "Miller2", false},
		{"ends with a sign", "Go++", "in Go++ or Go", true},
		{"Cyrillic within a word", "Иван", "Иванов", false},
		{"Cyrillic", "Иван", "пишет ИВАН.", true},
		{"Greek, final sigma", "ΓΙΏΡΓΟΣ", "ο Γιώργος", true},
		{"Arabic within a word", "علي", "عليا", false},
		{"Hebrew", "דוד כהן", "מר דוד כהן, שלום", true},
		{"Korean with a particle", "김민수", "김민수는", true},
		{"Korean within a name", "민수", "김민수", false},
		{"Chinese anywhere", "王小明", "请转交王小明律师", true},
		{"Japanese with an honorific", "王小明", "王小明さん", true},
		{"Latin beside kana", "Tanaka", "Tanakaさん", true},
		{"Latin within Latin, kana behind", "Tanaka", "XTanakaさん", false},
		{"Katakana, half width", "ミュラー", "ﾐｭﾗｰ様", true},
		{"Katakana, sound mark", "ミュラ", "ミュラー", true},
		{"Japanese, space between the names", "山田太郎", "山田　太郎様", true},
		{"Japanese, space in the directory", "山田 太郎", "山田太郎様", true},
		{"Chinese, broken line", "王小明", "转交王小\r\n明", true},
		{"space between Han and Latin counts", "王Lee", "王 Lee", false},
		{"variation selector", "葛城", "葛\U000E0100城市", true},
		{"Thai anywhere", "สมชาย", "เรียนคุณสมชายครับ", true},
		{"Thai, vowel sign belongs to the letter", "มาน", "มานี", false},
		{"number beside Han", "4711", "第4711号", true},
		{"two letters", "Li", "Li Wei", true},
		{"one letter is never looked for", "L", "L", false},
		{"one character is never looked for", "王", "王", false},
		{"not UTF-8", "Ann", "\xff Ann \xfe", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := NewDirectory([]Contact{{Name: "Nobody at all"}, {Name: tt.term}})
			if _, got := d.find(newText(tt.text).folded)[1]; got != tt.want {
				t.Errorf("%q is found in %q: %v, want %v", tt.term, tt.text, got, tt.want)
			}
		})
	}
}

// TestFindAll compares the one pass with looking for each term on its own, over terms that overlap
// in every way.
func TestFindAll(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	alphabets := [][]rune{
		[]rune("abä 王明さ-'"), []rune("ab"), []rune("王明"), []rune("สมมานี ก"), []rune("김민수는 a"),
		[]rune("ae\u0301\u0331\u0327 \u00ad"), []rune("ミュラーﾐｭﾗｰﾞ 1"), []rune("İıiI\u0307ßsſﬁfi "),
		[]rune("עליا\u05b7\u0650ـ 1"), []rune("\u1100\u1161\u11a8가각 x"), []rune("𝄞😀\u200d\ufe0f a9_"),
	}
	letters := alphabets[0]
	word := func(most int) string {
		s := make([]rune, 2+rng.IntN(most))
		for i := range s {
			s[i] = letters[rng.IntN(len(letters))]
		}
		return string(s)
	}
	for round := range 3000 {
		letters = alphabets[round%len(alphabets)]
		contacts := make([]Contact, 1+rng.IntN(30))
		for i := range contacts {
			contacts[i] = Contact{Name: word(3), Keywords: []string{word(5)}}
		}
		text := newText(word(60)).folded
		found := NewDirectory(contacts).find(text)
		for i, c := range contacts {
			want := slices.ContainsFunc([]string{c.Name, c.Keywords[0]}, func(s string) bool {
				return CheckTerm(s) == nil && occurs(plain(text), s)
			})
			if _, got := found[i]; got != want {
				t.Fatalf("%q is found in %q: %v, want %v", c, text, got, want)
			}
		}
	}
}

// occurs looks at every place on its own.
func occurs(text, term string) bool {
	term = strings.TrimSpace(plain(squeeze(fold(term))))
	for at := range text {
		if strings.HasPrefix(text[at:], term) && wholeAt(text, at, at+len(term)) {
			return true
		}
	}
	return false
}

// people are n contacts; benchMail names the last one.
func people(n int) []Contact {
	list := make([]Contact, n)
	for i := range list {
		list[i] = Contact{
			Name: fmt.Sprintf("Anna%d Müller-%d", i*7919%10007, i), Email: fmt.Sprintf("c%d@firm.example", i),
			Keywords: []string{
				fmt.Sprintf("client %d", 20_000+i),
				string([]rune{'王', rune(0x4e00 + i%5000), rune(0x5e00 + i/3)}),
			},
		}
	}
	list[n-1].Keywords = append(list[n-1].Keywords, "file number 4711")
	return list
}

func decideFor(tb testing.TB, contacts int) func() {
	table := compile(tb, Rule{Name: "people", ToContacts: &ToContacts{In: []string{"subject", "body", "attachment"}}})
	table = table.With(NewDirectory(people(contacts)))
	m := mailOf(tb, benchMail())
	want := fmt.Sprintf("c%d@firm.example", contacts-1)
	if got := table.Decide(context.Background(), m).To; !slices.Equal(got, []string{want}) {
		tb.Fatalf("goes to %v, want %s", got, want)
	}
	return func() { table.Decide(context.Background(), m) }
}

// TestManyContacts: ten thousand contacts cost what a hundred do.
func TestManyContacts(t *testing.T) {
	timing.AtMost(t, 3, decideFor(t, 100), decideFor(t, 10_000))
}

// TestDirectoryIsSmall: what is looked for takes no more memory than the contacts themselves take
// in the end.
func TestDirectoryIsSmall(t *testing.T) {
	const n = 20_000
	list := people(n)
	used := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := used()
	d := NewDirectory(list)
	d.find("nobody")
	if each := (used() - before) / n; each > 500 {
		t.Errorf("a contact with a name and two keywords takes %d octets more, want at most 500", each)
	}
	runtime.KeepAlive(d)
	runtime.KeepAlive(list)
}

// TestDirectoryOrder: of several terms of a contact the first one in the text is reported. Of
// several contacts with the same term each is reported.
func TestDirectoryOrder(t *testing.T) {
	d := NewDirectory([]Contact{
		{Name: "Ann Miller", Keywords: []string{"file 1", "Li"}},
		{Name: "Bob", Keywords: []string{"Li", "file"}},
		{Name: "Li"},
	})
	var got []string
	found := d.find("to li, ann miller, file 1")
	for i := range 3 {
		got = append(got, found[i].By)
	}
	if want := "Li, Li, Li"; strings.Join(got, ", ") != want || len(found) != 3 {
		t.Errorf("found by %q, want %s", got, want)
	}
}

// BenchmarkContacts fails above 5 ms a message.
func BenchmarkContacts(b *testing.B) {
	decide := decideFor(b, 10_000)
	for b.Loop() {
		decide()
	}
	if each := b.Elapsed() / time.Duration(b.N); each > 5*time.Millisecond {
		b.Errorf("10,000 contacts over 50 KiB took %v a message, want at most 5ms", each)
	}
}
