package bounce

import (
	"bytes"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"postrider/internal/message"
	"postrider/internal/testserver/effort"
	"postrider/internal/text"
)

// FuzzRead: no report makes Read fail, take long or much memory, or say of somebody what the report
// does not name.
func FuzzRead(f *testing.F) {
	for _, s := range samples {
		f.Add(sample(f, s.name))
	}
	f.Fuzz(checkRead)
}

// TestMutated does the same with a few changes of each sample.
func TestMutated(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, s := range samples {
		whole := []byte(sample(t, s.name))
		for range 30 {
			raw := bytes.Clone(whole)
			for range 1 + rnd.IntN(8) {
				from, to := rnd.IntN(len(raw)), rnd.IntN(len(raw))
				switch rnd.IntN(4) {
				case 0:
					raw[from] = byte(rnd.IntN(256))
				case 1:
					raw = append(raw[:from:from], raw[min(from+rnd.IntN(80), len(raw)-1):]...)
				case 2: // a piece again, elsewhere
					raw = slices.Insert(raw, to, bytes.Clone(raw[from:min(from+rnd.IntN(200), len(raw))])...)
				default:
					raw = slices.Insert(raw, from, []byte("\r\n\x00\x1b\xff\n")[rnd.IntN(6)])
				}
			}
			if checkRead(t, string(raw)); t.Failed() {
				t.Fatalf("the report, changed from %s:\n%q", s.name, raw)
			}
		}
	}
}

func checkRead(t *testing.T, raw string) {
	t.Helper()
	m := parsed(t, raw)
	var r Report
	var err error
	effort.Within(t, len(raw), func() { r, err = Read(t.Context(), m) })
	if err != nil {
		t.Fatalf("Read = %v, want no error for any content", err)
	}
	checkReport(t, r)
	named := namedIn(t, m)
	for _, f := range r.Fates {
		for _, a := range []string{f.Recipient, f.Original} {
			if !strings.Contains(named, a) {
				t.Errorf("the report is said to be about %q, which is not in it", a)
			}
		}
	}
}

// checkReport checks the bounds, and that each text is one line.
func checkReport(t *testing.T, r Report) {
	t.Helper()
	tells := r.Kind == Delivery || r.Kind == Complaint
	if len(r.Fates) > maxFates || len(r.Addresses) > maxAddresses || tells != (len(r.Fates) > 0) {
		t.Errorf("%d fates and %d addresses of kind %d, want at most 1,000 and 100, and fates of a report alone",
			len(r.Fates), len(r.Addresses), r.Kind)
	}
	texts := append([]string{r.EnvelopeID, r.MessageID}, r.Addresses...)
	for _, f := range r.Fates {
		texts = append(texts, f.Recipient, f.Original, f.Status, f.Reply, f.Remote)
		if f.Action < Failed || f.Action > Complained || f.Recipient == "" && f.Action != Complained ||
			f.Code != 0 && (f.Code < 200 || f.Code > 599) {
			t.Errorf("the fate %+v, want an action, a recipient and a code of SMTP", f)
		}
	}
	for _, s := range texts {
		if !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) || utf8.RuneCountInString(s) > maxReply {
			t.Errorf("%q, want one line of UTF-8 without control characters, and not longer than 500", s)
		}
	}
}

// namedIn is all that a message says, as it stands and decoded.
func namedIn(t *testing.T, m *message.Message) string {
	t.Helper()
	parts, err := m.Parts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	xtext := func(s string) string {
		return hexPair.ReplaceAllStringFunc(s, func(pair string) string {
			b, _ := hex.DecodeString(pair[1:])
			return string(b)
		})
	}
	var b strings.Builder
	for _, p := range parts {
		plain := text.Line(p.Text)
		for _, s := range []string{plain, ununitext(plain)} {
			b.WriteString(s + "\n" + xtext(s) + "\n")
		}
	}
	return b.String()
}

// FuzzToken: no address is read as one of ours but those that we made.
func FuzzToken(f *testing.F) {
	maker := on(f, newYear, tokenPlace, "a secret")
	for _, task := range []int64{1, 300, math.MaxInt64} {
		f.Add(maker.ReversePath(task, newYear, "ann@x.example"))
	}
	f.Add("bounces+@firm.example")
	f.Fuzz(func(t *testing.T, addr string) {
		var ref Ref
		var err error
		effort.Within(t, len(addr), func() { ref, err = maker.Read(addr) })
		if err == nil && spelled(maker.ReversePath(ref.Task, newYear, "ann@x.example")) != spelled(addr) {
			t.Errorf("Read(%s) = %+v, want it to be refused", addr, ref)
		}
	})
}
