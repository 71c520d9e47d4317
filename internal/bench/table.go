package bench

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"

	"ropeway/internal/ui"
)

var tableColumns = ui.Columns{27, -8, -9, -8, -5, -9, -8, -6}

// WriteTable writes the result for people.
func (r *Result) WriteTable(o *ui.Output) {
	o.Line("%s (%s) on %s, %s, medians", r.Product, r.Chip, r.Driver, roundsText(r.Rounds))
	o.Line("%s, %d CPUs", r.Machine.CPU, r.Machine.CPUs)
	o.Line("limit %.1f GB/s, the most that all CPUs copied in this run", r.Limit/1e9)
	o.Line("every copy verified, %s in all", ui.Bytes(uint64(r.Verified)))
	o.Line("")
	o.Line("%s", o.Bold(tableColumns.Row("COPY", "SIZE", "A COPY", "GB/s", "+-", "MEMCPY", "ALL", "LIMIT")))
	last := ""
	for i := range r.Points {
		p := &r.Points[i]
		name := p.Series()
		if name == last {
			name = ""
		} else {
			last = name
		}
		if len(name) >= tableColumns[0] {
			o.Line("%s", name)
			name = ""
		}
		size := ui.Bytes(uint64(p.Size))
		if p.Skipped != "" {
			o.Line("%s", tableColumns.Row(name, size, "-")+"  "+o.Dim(p.Skipped))
			continue
		}
		s := p.Speed()
		o.Line("%s", tableColumns.Row(name, size, shortTime(p.CopyTime()), number(s.Median/1e9), fmt.Sprintf("%.0f%%",
			s.spread()*100),
			times(p.Ratio(p.Memcpy)), times(p.Ratio(p.MemcpyAll)), fmt.Sprintf("%.0f%%", 100*s.Median/r.Limit)))
	}
	o.Line("")
	for _, line := range []string{
		"A COPY: time per copy when many are queued before one wait.",
		"MEMCPY, ALL: times as fast as memcpy of the same bytes on one CPU, on all CPUs.",
		"LIMIT: part of the limit; what stays in a cache may be above it.",
	} {
		o.Line("%s", o.Dim(line))
	}
}

func roundsText(n int) string {
	if n == 1 {
		return "1 round"
	}
	return fmt.Sprintf("%d rounds", n)
}

// spread is half the confidence interval, as a part of the median.
func (s Speed) spread() float64 { return (s.High - s.Low) / 2 / s.Median }

// CopyTime is the time of one copy or batch.
func (p *Point) CopyTime() time.Duration {
	return time.Duration(float64(p.Size*1e9) / p.Speed().Median)
}

// Speed is bytes a second, over the rounds.
type Speed struct{ Median, Low, High float64 } // with a 95% confidence interval

// Speed returns the speed of copying through ropeway.
func (p *Point) Speed() Speed {
	values := make([]float64, len(p.Seconds))
	for i, s := range p.Seconds {
		values[i] = float64(p.Bytes()) / s
	}
	s := summary(values)
	low, high := s.Lo, s.Hi
	if math.IsInf(low, 0) || math.IsInf(high, 0) { // too few rounds
		low, high = slices.Min(values), slices.Max(values)
	}
	return Speed{s.Center, low, high}
}

// Ratio returns the median, over the rounds, of how many times faster ropeway was than what is given.
func (p *Point) Ratio(to []float64) float64 {
	values := make([]float64, len(to))
	for i := range to {
		values[i] = to[i] / p.Seconds[i]
	}
	return summary(values).Center
}

func summary(values []float64) benchmath.Summary {
	return benchmath.AssumeNothing.Summary(benchmath.NewSample(values, &benchmath.DefaultThresholds), 0.95)
}

// number has three digits that count, at most.
func number(v float64) string {
	switch {
	case v >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case v >= 9.995:
		return fmt.Sprintf("%.1f", v)
	case v >= 0.0995:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

func times(v float64) string { return number(v) + "x" }

func shortTime(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{time.Second, "s"}, {time.Millisecond, "ms"}, {time.Microsecond, "us"}} {
		if d >= u.unit {
			return number(float64(d)/float64(u.unit)) + " " + u.name
		}
	}
	return fmt.Sprintf("%d ns", d.Nanoseconds())
}

// WriteGo writes every round in the format of Go's benchmarks, which benchstat compares.
func (r *Result) WriteGo(w io.Writer) error {
	out := benchfmt.NewWriter(w)
	err := out.Write(&benchfmt.UnitMetadata{UnitMetadataKey: benchfmt.UnitMetadataKey{Unit: toMemcpy, Key: "better"},
		OrigUnit: toMemcpy, Value: "higher"})
	config := func(key, value string) benchfmt.Config {
		return benchfmt.Config{Key: key, Value: []byte(value), File: true}
	}
	about := []benchfmt.Config{config("cpu", r.Machine.CPU), config("cpus", strconv.Itoa(r.Machine.CPUs)),
		config("driver", r.Driver), config("product", r.Product), config("memcpy", r.Memcpy)}
	for i := range r.Points {
		p := &r.Points[i]
		name := fmt.Sprintf("Copy/dir=%s/mem=%s/size=%d/segment=%d/streams=%d/devices=%d",
			p.Direction, p.Case.Memory, p.Size, p.Segment, p.Streams, p.Devices)
		for round, seconds := range p.Seconds {
			values := []benchfmt.Value{
				{Value: seconds * float64(p.Size) / float64(p.Bytes()), Unit: "sec/op"},
				{Value: float64(p.Bytes()) / seconds, Unit: "B/s"},
				{Value: p.Memcpy[round] / seconds, Unit: toMemcpy},
			}
			err = errors.Join(err, out.Write(&benchfmt.Result{Config: about, Name: benchfmt.Name(name), Iters: 1,
				Values: values}))
		}
	}
	return err
}

// toMemcpy is the unit of speeds as multiples of memcpy's, measured in the same round.
const toMemcpy = "x-memcpy"
