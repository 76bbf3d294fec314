package bounce

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"postrider/internal/address"
)

const tokenPlace = "bounces+{token}@firm.example"

var newYear = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// on makes a Signer for an address and a moment, with a maximum age of three weeks.
func on(t testing.TB, now time.Time, address string, secrets ...string) *Signer {
	t.Helper()
	clock := func() time.Time { return now }
	s, err := NewSigner(Config{Address: address, Secrets: secrets, MaxAge: 21 * day, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestToken(t *testing.T) {
	for _, place := range []string{
		tokenPlace, "{token}@firm.example", "b.{token}-x@firm.example",
		`"b x{token}"@firm.example`, `"b{token}"@firm.example`,
		"Bounces+{token}@Bücher.Example", "box{token}x@[192.0.2.1]",
	} {
		for _, task := range []int64{1, 127, 128, 1 << 31, math.MaxInt64} {
			s := on(t, newYear.Add(day-1), place, "a secret")
			made := s.ReversePath(task, newYear, "Ann@Firm.example")
			if err := address.Check(made); err != nil {
				t.Fatalf("ReversePath with %s = %s, want an address: %v", place, made, err)
			}
			for _, read := range []string{made, strings.ToUpper(made), strings.ToLower(made)} {
				ref, err := s.Read(read)
				if err != nil || ref.Task != task || !ref.Made.Equal(newYear) ||
					!ref.Is("ann@firm.example") || ref.Is("bob@firm.example") {
					t.Errorf("Read(%s) = %+v, %v, want task %d, made on New Year's day for ann", read, ref, err, task)
				}
			}
			ref, err := s.ReadToken(s.Token(task, newYear, "a@x.example"))
			if err != nil || ref.Task != task || !ref.Is("a@x.example") {
				t.Errorf("ReadToken = %+v, %v, want task %d of a@x.example", ref, err, task)
			}
		}
	}
}

func TestTokenHidesTheRecipient(t *testing.T) {
	made := on(t, newYear, tokenPlace, "a secret").ReversePath(1, newYear, "ann@x.example")
	if strings.Contains(made, "ann") || made != strings.ToLower(made) {
		t.Errorf("ReversePath = %s, want lower case, and nothing to read the recipient from", made)
	}
	if (Ref{}).Is("") {
		t.Error("a Ref that nothing was read into is of a recipient, want of none")
	}
}

// TestTokenSpelling: servers write an address in another way, and it is still the same recipient.
func TestTokenSpelling(t *testing.T) {
	tests := []struct {
		made  string
		same  []string
		other []string
	}{
		{"Ann@X.example", []string{"ann@x.EXAMPLE", `"ann"@x.example`}, []string{"ann@y.example", "an@nx.example", ""}},
		{`"a b"@x.example`, []string{`"A B"@x.example`, `"a\ b"@x.example`}, []string{"ab@x.example"}},
		{
			"jörg@bücher.example",
			[]string{"JÖRG@xn--bcher-kva.example", "jörg@BÜCHER.example"},
			[]string{"jorg@bücher.example"},
		},
		{"not an address", []string{"NOT an address"}, []string{"not an"}},
	}
	s := on(t, newYear, tokenPlace, "a secret")
	for _, tt := range tests {
		ref, err := s.Read(s.ReversePath(7, newYear, tt.made))
		if err != nil {
			t.Fatal(err)
		}
		for _, same := range append(tt.same, tt.made) {
			if !ref.Is(same) {
				t.Errorf("the token of %s is not that of %s, want it to be", tt.made, same)
			}
		}
		for _, other := range tt.other {
			if ref.Is(other) {
				t.Errorf("the token of %s is that of %s, want it not to be", tt.made, other)
			}
		}
	}
}

func TestTokenRefused(t *testing.T) {
	made := on(t, newYear, tokenPlace, "a secret").ReversePath(300, newYear, "ann@x.example")
	token := strings.TrimSuffix(strings.TrimPrefix(made, "bounces+"), "@firm.example")
	own := []string{"a secret"}
	tests := []struct {
		name, address string
		now           time.Time
		secrets       []string
		want          error
	}{
		{"the last day", made, newYear.Add(22*day - 1), own, nil},
		{"a day too late", made, newYear.Add(22 * day), own, ErrExpired},
		{"years later", made, newYear.Add(3000 * day), own, ErrExpired},
		{"by a clock that is behind", made, newYear.Add(-day), own, nil},
		{"the second secret", made, newYear, []string{"new", "a secret"}, nil},
		{"another secret", made, newYear, []string{"new", "newer"}, ErrForged},
		{"another domain", strings.Replace(made, "firm", "film", 1), newYear, own, ErrNotOurs},
		{"another name", strings.Replace(made, "bounces", "bounce", 1), newYear, own, ErrNotOurs},
		{"no token", "bounces+@firm.example", newYear, own, ErrNotOurs},
		{"no plus", "bounces@firm.example", newYear, own, ErrNotOurs},
		{"not an address", token, newYear, own, ErrNotOurs},
		{"nothing", "", newYear, own, ErrNotOurs},
		{"a word", "bounces+hello@firm.example", newYear, own, ErrForged},
		{"letters of no token", "bounces+018!@firm.example", newYear, own, ErrForged},
		{"cut off", strings.Replace(made, token, token[:len(token)-8], 1), newYear, own, ErrForged},
		{"twice", strings.Replace(made, token, token+token, 1), newYear, own, ErrForged},
		{"only zeros", "bounces+" + strings.Repeat("a", len(token)) + "@firm.example", newYear, own, ErrForged},
		{"a number without an end", "bounces+" + strings.Repeat("7", 42) + "@firm.example", newYear, own, ErrForged},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ref, err := on(t, tt.now, tokenPlace, tt.secrets...).Read(tt.address)
			if !errors.Is(err, tt.want) || err != nil && tt.want == nil {
				t.Errorf("Read(%s) = %+v, %v, want the error %v", tt.address, ref, err, tt.want)
			}
			known := tt.want == nil || errors.Is(tt.want, ErrExpired)
			if known != (ref.Task == 300) || known != ref.Is("ann@x.example") {
				t.Errorf("Read(%s) = %+v, want task 300 for ann and only if it is signed", tt.address, ref)
			}
		})
	}
}

// TestTokenMutated changes each letter of a token to each other letter.
func TestTokenMutated(t *testing.T) {
	for _, task := range []int64{5, 300, math.MaxInt64} {
		s := on(t, newYear, tokenPlace, "a secret")
		token := s.Token(task, newYear, "ann@x.example")
		for i := range token {
			for _, c := range "abcdefghijklmnopqrstuvwxyz234567" {
				changed := token[:i] + string(c) + token[i+1:]
				if ref, err := s.ReadToken(changed); changed != token && !errors.Is(err, ErrForged) {
					t.Fatalf("ReadToken(%s) = %+v, %v, want it to be refused: it was %s", changed, ref, err, token)
				}
			}
		}
	}
}

func TestTokenOfAnotherPurpose(t *testing.T) {
	k := &key{[]byte("a secret")}
	if string(k.sign([]byte("x"))[:recipientOctets]) == string(k.recipient("x")) {
		t.Error("the hash of a recipient is the signature of the same octets, want another")
	}
}

func TestNewSigner(t *testing.T) {
	for place, says := range map[string]string{
		"":                                          "bounces.address",
		"bounces@firm.example":                      "has no {token}",
		"bounces@{token}.example":                   "before its @",
		"bounces+{token}":                           "before its @",
		"bounces {token}@firm.example":              "not an address",
		"{token}+{token}@firm.example":              "one token",
		"bounces+{token}@":                          "not an address",
		"zurückläufer{token}@x.example":             "SMTPUTF8",
		"exactly-21-octets-xx+{token}@firm.example": "may have 20 octets",
	} {
		_, err := NewSigner(Config{Address: place, Secrets: []string{"s"}})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("NewSigner for %s = %v, want an error with %q", place, err, says)
		}
	}
	_, err := NewSigner(Config{Address: tokenPlace})
	if err == nil || !strings.Contains(err.Error(), "bounces.secret") {
		t.Errorf("NewSigner without a secret = %v, want bounces.secret named", err)
	}
	const longest = "exactly-20-octets-x+{token}@firm.example"
	made := on(t, newYear, longest, "s").ReversePath(math.MaxInt64, newYear, "a@x.example")
	if at := strings.IndexByte(made, '@'); at != maxLocal {
		t.Errorf("the longest token makes a local part of %d octets, want 64", at)
	}
}
