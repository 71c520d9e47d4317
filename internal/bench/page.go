package bench

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"

	"ropeway/internal/ui"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// pageData is what page.html shows.
type pageData struct {
	Title, Machine, Summary string
	Limit                   string
	Charts                  []pageChart
	Head                    []string
	Rows                    [][]string
}

type pageChart struct {
	Title  string
	SVG    template.HTML
	Curves []pageCurve
}

type pageCurve struct{ Name, Class string }

// WriteHTML writes one page that needs nothing else: plots and all numbers.
func (r *Result) WriteHTML(w io.Writer) error {
	d := pageData{
		Title: fmt.Sprintf("ropeway bench: %s on %s", r.Product, r.Driver),
		Machine: fmt.Sprintf("%s, %d CPUs, Linux %s, %s, ropeway %s, %s", r.Machine.CPU, r.Machine.CPUs,
			r.Machine.Kernel, r.Machine.Go, r.Ropeway, r.Started.Format("2006-01-02 15:04 MST")),
		Summary: fmt.Sprintf("%d cases, %s, medians with 95%% confidence intervals; every copy was verified, %s in "+
			"all. memcpy is %s.", len(r.Points), roundsText(r.Rounds), ui.Bytes(uint64(r.Verified)), r.Memcpy),
		Limit: fmt.Sprintf("%.1f GB/s", r.Limit/1e9),
		Head:  []string{"Copy", "Size", "One copy", "GB/s", "±", "to memcpy", "to all CPUs", "of limit"},
	}
	for _, c := range r.charts() {
		p := pageChart{Title: c.title, SVG: template.HTML(c.svg())}
		for _, curve := range c.curves {
			p.Curves = append(p.Curves, pageCurve{curve.name, curve.class})
		}
		d.Charts = append(d.Charts, p)
	}
	for i := range r.Points {
		p := &r.Points[i]
		row := []string{p.Series(), ui.Bytes(uint64(p.Size))}
		if p.Skipped != "" {
			row = append(row, p.Skipped, "", "", "", "", "")
		} else {
			s := p.Speed()
			row = append(row, shortTime(p.CopyTime()), number(s.Median/1e9), fmt.Sprintf("%.0f%%", s.spread()*100),
				times(p.Ratio(p.Memcpy)),
				times(p.Ratio(p.MemcpyAll)), fmt.Sprintf("%.0f%%", 100*s.Median/r.Limit))
		}
		d.Rows = append(d.Rows, row)
	}
	return pageTemplate.Execute(w, d)
}

// charts are the plots of a result: for each direction over sizes, then over segments, streams and devices.
func (r *Result) charts() (list []*chart) {
	bytes := func(x float64) string { return ui.Bytes(uint64(x)) }
	count := func(x float64) string { return fmt.Sprintf("%g", x) }
	add := func(title string, text func(float64) string, curves []curve) {
		if len(curves) == 0 {
			return
		}
		for i := range curves {
			if curves[i].class == "" {
				curves[i].class = fmt.Sprintf("c%d", i%6)
			}
		}
		list = append(list, &chart{title, curves, text, r.Limit / 1e9})
	}
	for _, direction := range Directions {
		key := func(c Case) string {
			if c.Direction != direction {
				return ""
			}
			return c.Series()
		}
		curves := r.curves(func(c Case) int { return c.Size }, key)
		if len(curves) > 0 {
			curves = append(curves, r.memcpyCurves(curves[0].name)...)
		}
		add(directionNames[direction], bytes, curves)
	}
	add("Batches, by size of a segment", bytes, r.curves(func(c Case) int { return c.Segment }, func(c Case) string {
		if c.Segment == 0 {
			return ""
		}
		c.Segment = 0
		return c.Series()
	}))
	add("By number of streams", count, r.curves(func(c Case) int { return c.Streams }, func(c Case) string {
		c.Streams = 1
		return c.String()
	}))
	add("By number of devices", count, r.curves(func(c Case) int { return c.Devices }, func(c Case) string {
		c.Devices = 1
		return c.String()
	}))
	return list
}

var directionNames = map[string]string{
	HostToDevice: "Host to device, by size", DeviceToHost: "Device to host, by size",
	InDevice: "Within a device, by size", PeerToPeer: "Device to device, by size",
}

// curves groups points by key, "" leaves one out, and puts those with different x into a curve.
func (r *Result) curves(x func(Case) int, key func(Case) string) (list []curve) {
	for i := range r.Points {
		p := &r.Points[i]
		name := key(p.Case)
		if name == "" || p.Skipped != "" {
			continue
		}
		at := slices.IndexFunc(list, func(c curve) bool { return c.name == name })
		if at < 0 {
			at = len(list)
			list = append(list, curve{name: name})
		}
		s := p.Speed()
		list[at].points = append(list[at].points, dot{float64(x(p.Case)), s.Median / 1e9, s.Low / 1e9, s.High / 1e9})
	}
	for i := range list {
		slices.SortFunc(list[i].points, func(a, b dot) int { return cmp.Compare(a.x, b.x) })
	}
	return slices.DeleteFunc(list, func(c curve) bool { return c.points[0].x == c.points[len(c.points)-1].x })
}

// memcpyCurves are what memcpy reached beside the cases of a series.
func (r *Result) memcpyCurves(series string) []curve {
	one, all := curve{name: "memcpy, one CPU", class: "m0"}, curve{name: "memcpy, all CPUs", class: "m1"}
	for i := range r.Points {
		p := &r.Points[i]
		if p.Skipped != "" || p.Series() != series {
			continue
		}
		for _, m := range []struct {
			c       *curve
			seconds []float64
		}{{&one, p.Memcpy}, {&all, p.MemcpyAll}} {
			q := Point{Case: p.Case, Seconds: m.seconds}
			s := q.Speed()
			m.c.points = append(m.c.points, dot{float64(p.Size), s.Median / 1e9, s.Low / 1e9, s.High / 1e9})
		}
	}
	for _, c := range []curve{one, all} {
		slices.SortFunc(c.points, func(a, b dot) int { return cmp.Compare(a.x, b.x) })
	}
	return []curve{one, all}
}
