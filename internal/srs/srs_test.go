package srs

import (
	"strings"
	"testing"
	"time"

	"postrider/internal/testserver/effort"
)

var newYear = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// on makes a Rewriter for a domain and a moment, with a maximum age of three weeks.
func on(t testing.TB, now time.Time, domain string, secrets ...string) *Rewriter {
	t.Helper()
	r, err := New(Config{Domain: domain, Secrets: secrets, MaxAge: 21 * day, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// vectors were made with Mail::SRS 0.31 for the new year's day of 2020 and the secret tops3cr3t.
var vectors = []struct{ name, domain, address, made, back string }{
	{
		"an address", "example.com", "test@otherdomain.com",
		"SRS0=vmyz=2W=otherdomain.com=test@example.com", "test@otherdomain.com",
	},
	{
		"case is kept", "example.com", "Test.User@OtherDomain.COM",
		"SRS0=wUGm=2W=OtherDomain.COM=Test.User@example.com", "Test.User@OtherDomain.COM",
	},
	{
		"separators in the name", "example.com", "a=b+c-d@x-y.example",
		"SRS0=7sv3=2W=x-y.example=a=b+c-d@example.com", "a=b+c-d@x-y.example",
	},
	{
		"SRS0 of another", "fwd2.example", "SRS0=vmyz=2W=otherdomain.com=test@example.com",
		"SRS1=JO9m=example.com==vmyz=2W=otherdomain.com=test@fwd2.example",
		"SRS0=vmyz=2W=otherdomain.com=test@example.com",
	},
	{
		"SRS0 of another, with a plus", "fwd2.example", "srs0+VMYZ=2w=otherdomain.com=test@example.com",
		"SRS1=VLN/=example.com=+VMYZ=2w=otherdomain.com=test@fwd2.example",
		"SRS0+VMYZ=2w=otherdomain.com=test@example.com",
	},
	{
		"SRS0 of another, with a dash", "fwd2.example", "SRS0-vmyz=2W=otherdomain.com=test@example.com",
		"SRS1=orZS=example.com=-vmyz=2W=otherdomain.com=test@fwd2.example",
		"SRS0-vmyz=2W=otherdomain.com=test@example.com",
	},
	{
		"SRS1 of another", "fwd3.example", "SRS1=tSwt=example.com==vmyz=2W=otherdomain.com=test@fwd2.example",
		"SRS1=JO9m=example.com==vmyz=2W=otherdomain.com=test@fwd3.example",
		"SRS0=vmyz=2W=otherdomain.com=test@example.com",
	},
	{
		"SRS1 of another, with a dash", "fwd3.example",
		"SRS1-xxxx=example.com=+vmyz=2W=otherdomain.com=test@fwd2.example",
		"SRS1=VLN/=example.com=+vmyz=2W=otherdomain.com=test@fwd3.example",
		"SRS0+vmyz=2W=otherdomain.com=test@example.com",
	},
}

func TestVectors(t *testing.T) {
	for _, tt := range vectors {
		t.Run(tt.name, func(t *testing.T) {
			r := on(t, newYear, tt.domain, "tops3cr3t")
			made, err := r.Forward(tt.address)
			if err != nil || made != tt.made {
				t.Fatalf("Forward(%s) = %s, %v, want %s", tt.address, made, err, tt.made)
			}
			// servers on the way may change upper and lower case
			for _, s := range []string{made, strings.ToLower(made), strings.ToUpper(made)} {
				d, err := r.Decode(s)
				if err != nil || d.Secret != 1 || d.Expired || !strings.EqualFold(d.Address, tt.back) {
					t.Errorf("Decode(%s) = %+v, %v, want %s, in time and signed by secret 1", s, d, err, tt.back)
				}
			}
		})
	}
}

func TestForwardTheSame(t *testing.T) {
	r := on(t, newYear, "example.com", "tops3cr3t")
	for _, own := range []string{
		"alice@example.com", "alice@EXAMPLE.com",
		"SRS0=vmyz=2W=otherdomain.com=test@example.com", "SRS1=aaaa=x.example==vmyz=2W=y.example=test@Example.com",
	} {
		if got, err := r.Forward(own); got != own || err != nil {
			t.Errorf("Forward(%s) = %s, %v, want it unchanged: it is of the own domain", own, got, err)
		}
	}
}

// TestForwardAndBack are addresses that nobody else's vectors have.
func TestForwardAndBack(t *testing.T) {
	tests := []struct{ name, address, local string }{
		{"a space", `"a b"@x.example`, `"SRS0=....=2W=x.example=a b"@`},
		{"quotes without need", `"a.b"@x.example`, `SRS0=....=2W=x.example=a.b@`},
		{"a dot at the end", `"a."@x.example`, `"SRS0=....=2W=x.example=a."@`},
		{"a dot in front needs no quotes any more", `".a"@x.example`, `SRS0=....=2W=x.example=.a@`},
		{"an at sign, a quote and a backslash", `"a@\"\\"@x.example`, `"SRS0=....=2W=x.example=a@\"\\"@`},
		{"an address literal", "a@[IPv6:2001:db8::1]", `"SRS0=....=2W=[IPv6:2001:db8::1]=a"@`},
		{"SRS0 in the name alone", "SRS0=of=mine@x.example", "SRS0=....=2W=x.example=SRS0=of=mine@"},
		{"SRS1 in the name alone", "SRS1=of=mine=x@x.example", "SRS0=....=2W=x.example=SRS1=of=mine=x@"},
		{"named like us", "srs0@x.example", "SRS0=....=2W=x.example=srs0@"},
		{
			"quoted SRS0 of another",
			`"SRS0=abcd=2W=x.example=a b"@fwd.example`, `"SRS1=....=fwd.example==abcd=2W=x.example=a b"@`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := on(t, newYear, "f.example", "tops3cr3t")
			made, err := r.Forward(tt.address)
			if err != nil {
				t.Fatal(err)
			}
			i := strings.Index(tt.local, "....")
			if len(made) < i+4 || made[:i]+"...."+made[i+4:] != tt.local+"f.example" {
				t.Errorf("Forward(%s) = %s, want %sf.example", tt.address, made, tt.local)
			}
			d, err := r.Decode(made)
			wantLocal, wantDomain, _ := split(tt.address)
			local, domain, _ := split(d.Address)
			if err != nil || d.Secret != 1 || local != wantLocal || domain != wantDomain {
				t.Errorf("Decode(%s) = %+v, %v, want %s back", made, d, err, tt.address)
			}
		})
	}
}

func TestForwardRefuses(t *testing.T) {
	r := on(t, newYear, "example.com", "tops3cr3t")
	long := func(n int) string { return strings.Repeat("x", n-len("SRS0=....=2W=y.example=")) + "@y.example" }
	if made, err := r.Forward(long(64)); err != nil || strings.IndexByte(made, '@') != 64 {
		t.Errorf("Forward to a local part of 64 octets = %s, %v, want it allowed", made, err)
	}
	for address, says := range map[string]string{
		long(65):                             "a local part of 65 octets",
		"jörg@x.example":                     "SMTPUTF8",
		"a@bücher.example":                   "SMTPUTF8",
		"":                                   "not an address",
		"a":                                  "not an address",
		"@x.example":                         "not an address",
		"a@":                                 "not an address",
		`""@x.example`:                       "not an address",
		`"` + long(62)[:39] + ` "@y.example`: "a local part of 65 octets", // the quotes count
	} {
		if made, err := r.Forward(address); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("Forward(%s) = %s, %v, want an error with %q", address, made, err, says)
		}
	}
}

func TestDecode(t *testing.T) {
	const made = "SRS0=vmyz=2W=otherdomain.com=test@example.com"
	changed := func(old, with string) string { return strings.Replace(made, old, with, 1) }
	own := []string{"tops3cr3t"}
	tests := []struct {
		name, address string
		now           time.Time
		secrets       []string
		secret        int
		expired       bool
		day           time.Time
	}{
		{"the same day", made, newYear.Add(day - 1), own, 1, false, newYear},
		{"the last day", made, newYear.Add(22*day - 1), own, 1, false, newYear},
		{"a day too late", made, newYear.Add(22 * day), own, 1, true, newYear},
		{"by a clock that is behind", made, newYear.Add(-1), own, 1, false, newYear},
		{
			"from the day after tomorrow: of the last cycle",
			made, newYear.Add(-day - 1), own, 1, true, newYear.Add(-1024 * day),
		},
		{"the stamp comes again", made, newYear.Add(1024 * day), own, 1, false, newYear.Add(1024 * day)},
		{"an old secret", made, newYear, []string{"new", "newer", "tops3cr3t"}, 3, false, newYear},
		{"a secret that is gone", made, newYear, []string{"new"}, 0, false, newYear},
		{
			"another domain, the same secret",
			changed("@example.com", "@other.example"), newYear, own, 1, false, newYear,
		},
		{"another name", changed("test@", "tess@"), newYear, own, 0, false, newYear},
		{"another day", changed("2W", "2X"), newYear, own, 0, false, newYear.Add(day)},
		{"a longer hash", changed("vmyz", "vmyz7Bwa"), newYear, own, 1, false, newYear},
		{"a longer hash that is wrong", changed("vmyz", "vmyzAAAAAA"), newYear, own, 0, false, newYear},
		{"a shorter hash", changed("vmyz", "vmy"), newYear, own, 0, false, newYear},
		{"far too long a hash", changed("vmyz", strings.Repeat("v", 100)), newYear, own, 0, false, newYear},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, err := on(t, tt.now, "example.com", tt.secrets...).Decode(tt.address)
			if err != nil || d.Secret != tt.secret || d.Expired != tt.expired ||
				!d.Made.Equal(tt.day) || !d.Until.Equal(tt.day.Add(21*day)) {
				t.Errorf("Decode(%s) = %+v, %v, want secret %d, expired %v, made %v, good for three weeks",
					tt.address, d, err, tt.secret, tt.expired, tt.day)
			}
		})
	}
}

func TestDecodeSRS1(t *testing.T) {
	r := on(t, newYear, "fwd2.example", "tops3cr3t")
	d, err := r.Decode("SRS1=JO9m=example.com==vmyz=2W=otherdomain.com=test@fwd2.example")
	want := Decoded{
		Address: "SRS0=vmyz=2W=otherdomain.com=test@example.com", Original: "test@otherdomain.com", Secret: 1,
	}
	if err != nil || d != want {
		t.Errorf("Decode = %+v, %v, want %+v", d, err, want)
	}
	d, err = r.Decode("SRS1=aaaa=example.com=+of=its=own@fwd2.example")
	want = Decoded{Address: "SRS0+of=its=own@example.com"}
	if err != nil || d != want {
		t.Errorf("Decode = %+v, %v, want %+v: its first forwarder has a form of its own, and nobody signed it",
			d, err, want)
	}
}

func TestDecodeRefuses(t *testing.T) {
	r := on(t, newYear, "example.com", "tops3cr3t")
	for _, s := range []string{
		"", "a", "a@example.com", "SRS0@example.com", "SRS0=@example.com",
		"SRS0=a=2W=b@example.com", "SRS0=a=2W==b@example.com", "SRS0=a=2W=b=@example.com",
		"SRS0=a=2=b=c@example.com", "SRS0=a=2W2=b=c@example.com", "SRS0=a=01=b=c@example.com",
		"SRS0*a=2W=b=c@example.com", "SRS2=a=2W=b=c@example.com",
		"SRS1=a=b@example.com", "SRS1=a=b=@example.com", "SRS1=a=b==@example.com",
		"SRS1=a=b=c=d@example.com", "SRS1=a===d@example.com",
	} {
		if d, err := r.Decode(s); err == nil || !strings.Contains(err.Error(), "is not an") {
			t.Errorf("Decode(%s) = %+v, %v, want that it is no SRS address", s, d, err)
		}
	}
}

func TestRotation(t *testing.T) {
	before, after := on(t, newYear, "example.com", "old"), on(t, newYear, "example.com", "new", "old")
	was, err := before.Forward("a@x.example")
	if err != nil {
		t.Fatal(err)
	}
	is, err := after.Forward("a@x.example")
	if err != nil || is == was {
		t.Fatalf("Forward with a new secret on top = %s, %v, want another hash than %s", is, err, was)
	}
	for address, secret := range map[string]int{was: 2, is: 1} {
		if d, err := after.Decode(address); err != nil || d.Secret != secret {
			t.Errorf("Decode(%s) = %+v, %v, want secret %d", address, d, err, secret)
		}
	}
}

func TestNew(t *testing.T) {
	if _, err := New(Config{Secrets: []string{"s"}}); err == nil || !strings.Contains(err.Error(), "srs.domain") {
		t.Errorf("New without a domain = %v, want srs.domain named", err)
	}
	if _, err := New(Config{Domain: "x.example"}); err == nil || !strings.Contains(err.Error(), "srs.secret") {
		t.Errorf("New without a secret = %v, want srs.secret named", err)
	}
}

// FuzzSRS: what can be rewritten leads back, and nothing panics.
func FuzzSRS(f *testing.F) {
	for _, v := range vectors {
		f.Add(v.address)
		f.Add(v.made)
	}
	f.Add(`"a b"@x.example`)
	f.Add(`"\`)
	f.Fuzz(func(t *testing.T, address string) {
		r := on(t, newYear, "f.example", "tops3cr3t")
		var made string
		var err error
		effort.Within(t, len(address), func() {
			_, _ = r.Decode(address)
			made, err = r.Forward(address)
		})
		if err != nil || made == address {
			return
		}
		local, domain, _ := split(address)
		outside := func(c rune) bool { return c < ' ' || c > '~' }
		if strings.ContainsFunc(address, outside) || strings.ContainsAny(domain, "@=\"\\ ") {
			return // no address: the caller's affair
		}
		want := join(local, domain)
		if _, host, rest, ok := cutSRS1(local); ok {
			want = join("SRS0"+rest, host)
		}
		if d, err := r.Decode(made); err != nil || d.Secret != 1 || d.Expired || !strings.EqualFold(d.Address, want) {
			t.Fatalf("Decode(%s) = %+v, %v, want what Forward made of %s to be good and to lead to %s",
				made, d, err, address, want)
		}
	})
}
