package bench

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// chart is a plot with logarithmic axes.
type chart struct {
	title  string
	curves []curve
	xText  func(x float64) string
	limit  float64 // GB/s; a line across, 0: none
}

// curve is a line of a chart.
type curve struct {
	name   string
	class  string // its colour, see page.html
	points []dot
}

// dot is a value with its interval, in GB/s.
type dot struct{ x, y, low, high float64 }

// The plot's measures, in its own units; the page scales it.
const (
	chartWidth, chartHeight = 640.0, 360.0
	left, right, top, below = 52.0, 12.0, 12.0, 34.0
)

// scale puts logarithms onto a length.
type scale struct{ from, to, at, length float64 }

func (s scale) of(v float64) float64 {
	return s.at + s.length*(math.Log(v)-math.Log(s.from))/(math.Log(s.to)-math.Log(s.from))
}

// svg draws the chart.
func (c *chart) svg() string {
	xs, ys, ticks := c.scales()
	var b strings.Builder
	draw := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	draw(`<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, chartWidth, chartHeight,
		html.EscapeString(c.title+": GB/s"))
	for _, v := range decades(ys.from, ys.to) {
		y := ys.of(v)
		draw(`<line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/>`, left, chartWidth-right, y, y)
		draw(`<text class="y" x="%g" y="%.1f">%g</text>`, left-6, y+4, v)
	}
	draw(`<text x="4" y="%g">GB/s</text>`, top)
	step := (len(ticks) + 7) / 8 // no more labels than fit
	for i, v := range ticks {
		x := xs.of(v)
		draw(`<line class="grid" x1="%.1f" x2="%.1f" y1="%g" y2="%g"/>`, x, x, top, chartHeight-below)
		if i%step == 0 {
			draw(`<text class="x" x="%.1f" y="%g">%s</text>`, x, chartHeight-below+18, html.EscapeString(c.xText(v)))
		}
	}
	if c.limit > 0 {
		y := ys.of(c.limit)
		draw(`<line class="limit" x1="%g" x2="%g" y1="%.1f" y2="%.1f"><title>limit: %.1f GB/s</title></line>`, left,
			chartWidth-right, y, y, c.limit)
	}
	for _, curve := range c.curves {
		draw(`<g class="%s">`, curve.class)
		var line []string
		for _, p := range curve.points {
			line = append(line, fmt.Sprintf("%.1f,%.1f", xs.of(p.x), ys.of(p.y)))
		}
		draw(`<polyline points="%s"/>`, strings.Join(line, " "))
		for _, p := range curve.points {
			x := xs.of(p.x)
			draw(`<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, x, x, ys.of(p.low), ys.of(p.high))
			draw(`<circle cx="%.1f" cy="%.1f" r="3.5"><title>%s, %s: %s GB/s</title></circle>`, x, ys.of(p.y),
				html.EscapeString(curve.name), html.EscapeString(c.xText(p.x)), number(p.y))
		}
		draw(`</g>`)
	}
	draw(`</svg>`)
	return b.String()
}

// scales fit all values; ticks are the values of x.
func (c *chart) scales() (x, y scale, ticks []float64) {
	low, high := math.Inf(1), math.Inf(-1)
	if c.limit > 0 {
		low, high = c.limit, c.limit
	}
	seen := map[float64]bool{}
	for _, curve := range c.curves {
		for _, p := range curve.points {
			low, high = min(low, p.low), max(high, p.high)
			if !seen[p.x] {
				seen[p.x] = true
				ticks = append(ticks, p.x)
			}
		}
	}
	slices.Sort(ticks)
	first, last := ticks[0], ticks[len(ticks)-1]
	x = scale{first, last, left + 10, chartWidth - left - right - 20}
	y = scale{low / 1.2, high * 1.2, chartHeight - below, -(chartHeight - top - below)}
	return x, y, ticks
}

// decades are the round values between two; steps of 1, 2 and 5 where there are few powers of ten.
func decades(from, to float64) (list []float64) {
	steps := []float64{1}
	if to/from < 1000 {
		steps = []float64{1, 2, 5}
	}
	for e := math.Floor(math.Log10(from)); e <= math.Ceil(math.Log10(to)); e++ {
		for _, s := range steps {
			v := s * math.Pow(10, e)
			if v >= from && v <= to {
				// Powers of ten are not exact; what is printed should be.
				list = append(list, math.Round(v*1e9)/1e9)
			}
		}
	}
	return list
}
