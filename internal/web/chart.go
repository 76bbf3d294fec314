package web

import (
	"fmt"
	"time"

	"postrider/internal/tasks"
	"postrider/internal/text"
)

// chart is bars over time, in numbers for an SVG of 100 by chartHeight units for each bar.
type chart struct {
	Title string
	ID    string
	Bars  []bar
	Top   int // the largest sum of a bar
	Sum   counts
	Width int
}

// bar is one hour or one day.
type bar struct {
	Label  string // such as "14:00" or "Mon 2 Nov"
	Show   bool   // the label below the chart
	Counts counts
	X      int
	Parts  []part
}

// counts are how many messages ended how.
type counts struct{ Forwarded, Skipped, Failed int }

func (c counts) sum() int { return c.Forwarded + c.Skipped + c.Failed }

// part is one rectangle of a bar.
type part struct {
	Class     string
	Y, Height float64
}

// Units of the SVG.
const (
	barWidth    = 20
	chartHeight = 100
)

// charts are the last 24 hours and the last 30 days.
func charts(hours []tasks.Ended, now time.Time, zone *time.Location) []chart {
	now = now.In(zone)
	day := chart{Title: "Last 24 hours", ID: "day"}
	for h := 23; h >= 0; h-- {
		from := now.Truncate(time.Hour).Add(-time.Duration(h) * time.Hour)
		day.add(bar{Label: from.Format("15:04"), Show: h%6 == 5}, hours, from, from.Add(time.Hour))
	}
	month := chart{Title: "Last 30 days", ID: "month"}
	y, m, d := now.Date()
	for i := 29; i >= 0; i-- {
		on := time.Date(y, m, d-i, 0, 0, 0, 0, time.UTC)
		from, to := text.Midnight(on, zone), text.Midnight(on.AddDate(0, 0, 1), zone)
		month.add(bar{Label: from.Format("Mon 2 Jan"), Show: i%7 == 1}, hours, from, to)
	}
	return []chart{day.drawn(), month.drawn()}
}

func (c *chart) add(b bar, hours []tasks.Ended, from, to time.Time) {
	for _, h := range hours {
		if h.Hour.Before(from) || !h.Hour.Before(to) {
			continue
		}
		switch h.Status {
		case tasks.Forwarded:
			b.Counts.Forwarded += h.N
		case tasks.Dead, tasks.Uncertain:
			b.Counts.Failed += h.N
		default:
			b.Counts.Skipped += h.N
		}
	}
	c.Bars = append(c.Bars, b)
	c.Sum.Forwarded += b.Counts.Forwarded
	c.Sum.Skipped += b.Counts.Skipped
	c.Sum.Failed += b.Counts.Failed
	c.Top = max(c.Top, b.Counts.sum())
}

// drawn computes the rectangles. What failed stands at the bottom, so that one among thousands is
// seen: it is never lower than three units.
func (c chart) drawn() chart {
	c.Width = len(c.Bars) * barWidth
	for i := range c.Bars {
		b := &c.Bars[i]
		b.X = i * barWidth
		y := float64(chartHeight)
		for _, p := range []struct {
			class string
			n     int
		}{{"failed", b.Counts.Failed}, {"skipped", b.Counts.Skipped}, {"forwarded", b.Counts.Forwarded}} {
			if p.n == 0 {
				continue
			}
			height := max(3, float64(p.n)/float64(c.Top)*(chartHeight-9))
			y -= height
			b.Parts = append(b.Parts, part{p.class, y, height})
		}
	}
	return c
}

// Tip is what a bar says.
func (b bar) Tip() string {
	n := b.Counts
	return fmt.Sprintf("%s: %d forwarded, %d skipped, %d failed", b.Label, n.Forwarded, n.Skipped, n.Failed)
}

// Says is the chart in a sentence, for those who do not see it.
func (c chart) Says() string {
	n := c.Sum
	return fmt.Sprintf("%s: %d forwarded, %d skipped, %d failed.", c.Title, n.Forwarded, n.Skipped, n.Failed)
}
