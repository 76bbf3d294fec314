package dmarc

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestStrangersNamesAreNotAsked: the author of a message must not choose which server we ask.
func TestStrangersNamesAreNotAsked(t *testing.T) {
	a := newAuthor(t)
	raw := plain
	for i := range 5 {
		raw = a.sign(t, raw, fmt.Sprintf("s._domainkey.client.example.n%d.evil.example", i))
	}
	z := &zone{texts: map[string]string{"_dmarc.mail.client.example": "v=DMARC1; p=reject"}}
	judged(t, z, "mail.client.example", raw)
	if got := strings.Join(z.asked, " "); got != "_dmarc.mail.client.example." {
		t.Errorf("asked for %s, want the policy alone", got)
	}
}

// TestAskedOnce: each name is asked for once, whatever the answer, also by many at once.
func TestAskedOnce(t *testing.T) {
	a := newAuthor(t)
	z := rejecting(a.record)
	j := NewJudge(z)
	raw := a.sign(t, plain, "client.example")
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			v, err := j.Redirectable(t.Context(), "mail.client.example", strings.NewReader(raw))
			if err != nil || !v.Redirect {
				t.Errorf("Redirectable = %+v, %v, want a redirect", v, err)
			}
		})
	}
	all.Wait()
	// The domain's policy, which is not there, the organisation's, and the key.
	if len(z.asked) != 3 {
		t.Errorf("asked for %q, want each name once", z.asked)
	}
}

// TestSilentDNS: one message waits for Patience at most, and when the DNS stays silent it is not
// asked any more.
func TestSilentDNS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{texts: map[string]string{"*": "?"}}
		j, a := NewJudge(z), newAuthor(t)
		start := time.Now()
		for i := range 100 {
			before := time.Now()
			domain := fmt.Sprintf("d%d.example", i)
			v, err := j.Redirectable(t.Context(), domain, strings.NewReader(a.sign(t, plain, domain)))
			if err != nil || v.Redirect || !strings.Contains(v.Why, "is not known (") {
				t.Fatalf("Redirectable = %+v, %v, want no redirect, since the policy is not known", v, err)
			}
			if d := time.Since(before); d > Patience {
				t.Fatalf("message %d waited for %v, want at most %v", i, d, Patience)
			}
		}
		if d := time.Since(start); d > maxSilent*Patience {
			t.Errorf("100 messages of different domains waited for %v, want at most %v", d, maxSilent*Patience)
		}
	})
}

// TestSilentDomain: a domain whose servers are silent is not waited for again, and does not keep
// others from being asked.
func TestSilentDomain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{texts: map[string]string{
			"_dmarc.a.example": "?", "_dmarc.b.example": "?", "_dmarc.c.example": "v=DMARC1; p=none",
		}}
		j := NewJudge(z)
		start := time.Now()
		for range 10 {
			for domain, want := range map[string]bool{"a.example": false, "b.example": false, "c.example": true} {
				v, err := j.Redirectable(t.Context(), domain, strings.NewReader(plain))
				if err != nil || v.Redirect != want {
					t.Fatalf("%s: Redirectable = %+v, %v, want %v", domain, v, err, want)
				}
			}
		}
		if d := time.Since(start); d > 2*Patience {
			t.Errorf("waited for %v, want at most once for each silent domain", d)
		}
	})
}

// TestSilentKeys: one message with many keys that nobody answers for does not keep others from
// being judged.
func TestSilentKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthor(t)
		const reject = "v=DMARC1; p=reject"
		z := &zone{texts: map[string]string{
			"_dmarc.evil.example":       reject,
			"_dmarc.good.example":       reject,
			"s._domainkey.good.example": a.record,
		}}
		raw := plain
		for i := range 2 * maxSilent {
			signer := fmt.Sprintf("n%d.evil.example", i)
			z.texts["s._domainkey."+signer] = "?"
			raw = a.sign(t, raw, signer)
		}
		j := NewJudge(z)
		v, err := j.Redirectable(t.Context(), "evil.example", strings.NewReader(raw))
		if err != nil || v.Redirect {
			t.Fatalf("Redirectable = %+v, %v, want no redirect", v, err)
		}
		good := a.sign(t, plain, "good.example")
		v, err = j.Redirectable(t.Context(), "good.example", strings.NewReader(good))
		if err != nil || !v.Redirect {
			t.Errorf("after it another one: Redirectable = %+v, %v, want a redirect", v, err)
		}
	})
}

// TestOutage: a pass may be long. When the DNS is there again it is asked again, also for names
// that failed.
func TestOutage(t *testing.T) {
	for how, answer := range map[string]string{"silent": "?", "failing": "!"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				z := &zone{texts: map[string]string{"*": answer}}
				j := NewJudge(z)
				redirects := func(want bool) {
					t.Helper()
					for i := range 2 * maxSilent {
						domain := fmt.Sprintf("d%d.example", i)
						v, err := j.Redirectable(t.Context(), domain, strings.NewReader(plain))
						if err != nil || v.Redirect != want {
							t.Errorf("domain %d: Redirectable = %+v, %v, want %v", i, v, err, want)
						}
					}
				}
				redirects(false)
				z.texts["*"] = "v=DMARC1; p=none"
				redirects(false)
				time.Sleep(pause)
				redirects(true)
			})
		})
	}
}

// TestInAHurry: a question that was not put, since the message's time was over, is put for the next
// one.
func TestInAHurry(t *testing.T) {
	z := &zone{texts: map[string]string{"_dmarc.client.example": "v=DMARC1; p=none"}}
	j := NewJudge(z)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if v, err := j.Redirectable(over, "client.example", strings.NewReader(plain)); err != nil || v.Redirect {
		t.Errorf("Redirectable = %+v, %v, want no redirect and no error", v, err)
	}
	if v, err := j.Redirectable(t.Context(), "client.example", strings.NewReader(plain)); err != nil || !v.Redirect {
		t.Errorf("Redirectable = %+v, %v, want a redirect", v, err)
	}
}

// TestCutShort: a question goes on when the message that asked it first has no more time.
func TestCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{texts: map[string]string{"_dmarc.client.example": "v=DMARC1; p=none"}, after: patience / 2}
		j := NewJudge(z)
		short, cancel := context.WithTimeout(t.Context(), patience/4)
		defer cancel()
		for _, tt := range []struct {
			ctx  context.Context
			want bool
		}{{short, false}, {t.Context(), true}, {t.Context(), true}} {
			v, err := j.Redirectable(tt.ctx, "client.example", strings.NewReader(plain))
			if err != nil || v.Redirect != tt.want {
				t.Errorf("Redirectable = %+v, %v, want a redirect: %v", v, err, tt.want)
			}
		}
		if len(z.asked) != 1 {
			t.Errorf("asked for %q, want the name once", z.asked)
		}
	})
}

// TestCacheIsBounded: who writes to us must not decide how much memory a pass takes.
func TestCacheIsBounded(t *testing.T) {
	z := &zone{texts: map[string]string{"*": strings.Repeat("x", 15_000)}}
	c := newCache(z)
	for i := range 800 {
		if _, err := c.lookup(t.Context(), fmt.Sprintf("n%d.example", i), true); err != nil {
			t.Fatal(err)
		}
	}
	if c.size > maxCached || len(c.answers) > maxCached/15_000 {
		t.Errorf("%d answers of %d octets are kept, want at most %d octets", len(c.answers), c.size, maxCached)
	}
}
