package watch

import (
	"errors"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/pass"
)

// pauses are how long a keeper waits before it visits its inbox again. They double, and no two
// keepers wait equally long.
type pauses struct {
	failures, losses, visits int
	until                    time.Time // the end of the last one
}

// worked is called after a visit that worked, and reset when the inbox has worked for a while.
func (p *pauses) worked() { p.failures, p.until = 0, time.Time{} }

func (p *pauses) reset() { *p = pauses{} }

// growth is the first pause, and the longest.
type growth struct{ first, longest time.Duration }

func (g growth) nth(n int) time.Duration { return min(g.first<<min(n, 20), g.longest) }

// How pauses grow.
var (
	whenBusy  = growth{time.Second, 30 * time.Second}
	whenLost  = growth{3 * time.Second, 30 * time.Second}
	byDefault = growth{10 * time.Second, 5 * time.Minute}
	// An operator has to do something, or the server asks for less and does not say how much less.
	// A changed inbox is visited at once, and a server may lock an account after wrong passwords.
	whenRefused = growth{time.Minute, 15 * time.Minute}
)

// askPaused is how often it is asked whether a server still wants no connections: what was stored
// while the clock of the database was ahead is corrected later.
const askPaused = 5 * time.Minute

var byKind = map[imapsrc.Kind]growth{
	imapsrc.KindAuth: whenRefused, imapsrc.KindExpired: whenRefused, imapsrc.KindTLS: whenRefused,
	imapsrc.KindPlaintext: whenRefused, imapsrc.KindNoFolder: whenRefused, imapsrc.KindNoCursor: whenRefused,
	imapsrc.KindLimit: whenRefused,
}

// busy is the pause after a visit that found another run at work, or that failed because of the
// database.
func (p *pauses) busy(random func() float64) time.Duration {
	p.visits++
	return around(whenBusy.nth(p.visits-1), random)
}

// lost is the pause after a connection that had worked was lost. All connections to a server may be
// lost at once, so the pause may be short or long.
func (p *pauses) lost(err error, random func() float64) time.Duration {
	p.losses++
	pause := time.Duration(random() * float64(whenLost.nth(p.losses-1)))
	if g, ok := byKind[imapsrc.KindOf(err)]; ok {
		pause = around(g.first, random)
	}
	return max(pause, hint(err, random))
}

// failed is the pause after a visit that failed. While a server wants no connections, a visit opens
// none, and asks the database again whether that is over.
func (p *pauses) failed(err error, random func() float64) time.Duration {
	if paused := new(pass.PausedError); errors.As(err, &paused) {
		left := min(time.Until(paused.Until), askPaused) // the clock of the database may be another one
		return max(around(byDefault.first, random), later(left, random))
	}
	p.failures++
	g, ok := byKind[imapsrc.KindOf(err)]
	if !ok {
		g = byDefault
	}
	return max(around(g.nth(p.failures-1), random), hint(err, random))
}

// hint is what the server asked for, and a little more.
func hint(err error, random func() float64) time.Duration {
	if asked := imapsrc.BackOffOf(err); asked > 0 {
		return later(asked, random)
	}
	return 0
}

// later is d, and a little more.
func later(d time.Duration, random func() float64) time.Duration {
	return d + time.Duration(random()*float64(10*time.Second))
}

// around is a time from half to one and a half of d.
func around(d time.Duration, random func() float64) time.Duration {
	return time.Duration((0.5 + random()) * float64(d))
}

// RelayAgain is how long nothing is handed to a relay after its nth fault in a row.
func RelayAgain(n int) time.Duration { return byDefault.nth(n - 1) }
