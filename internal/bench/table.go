package bench

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"ropeway/internal/readfile"
	"ropeway/internal/ui"
)

var tableColumns = ui.Columns{27, -8, -9, -8, -5, -9, -8, -6}

// WriteTable writes the result for people.
func (r *Result) WriteTable(o *ui.Output) {
	o.Line("%s (%s) on %s, %s, medians", r.Product, r.Chip, r.Driver, roundsText(r.Rounds))
	o.Line("%s, %d CPUs", r.Machine.CPU, r.Machine.CPUs)
	o.Line("limit %.1f GB/s, the most that all CPUs copied in this run", r.Limit/1e9)
	o.Line("every copy verified, %s in all", ui.Bytes(uint64(r.Verified)))
	if r.Slowdown > 0 {
		o.Line("slowed by %.0f%% on purpose", r.Slowdown*100)
	}
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

// WriteCSV writes one line a case, with a head.
func (r *Result) WriteCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	c.Write([]string{"direction", "memory", "size", "segment", "streams", "devices", "rounds", "gb_per_second", "low",
		"high", "seconds_per_copy",
		"to_memcpy", "to_memcpy_all", "to_limit", "skipped"})
	float := func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
	for i := range r.Points {
		p := &r.Points[i]
		row := []string{p.Direction, p.Memory, strconv.Itoa(p.Size), strconv.Itoa(p.Segment), strconv.Itoa(p.Streams),
			strconv.Itoa(p.Devices)}
		if p.Skipped != "" {
			row = append(row, "0", "", "", "", "", "", "", "", p.Skipped)
		} else {
			s := p.Speed()
			row = append(row, strconv.Itoa(r.Rounds), float(s.Median/1e9), float(s.Low/1e9), float(s.High/1e9),
				float(float64(p.Size)/s.Median),
				float(p.Ratio(p.Memcpy)), float(p.Ratio(p.MemcpyAll)), float(s.Median/r.Limit), "")
		}
		c.Write(row)
	}
	c.Flush()
	return c.Error()
}

// WriteJSON writes all there is; [Read] reads it.
func (r *Result) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}

// Read reads a result that [Result.WriteJSON] wrote.
func Read(file string) (*Result, error) {
	text, err := readfile.Bounded(file, readfile.Text)
	if err != nil {
		return nil, &ui.Advice{Err: err, Next: "measure one: ropeway bench --json=" + file}
	}
	r := new(Result)
	err = json.Unmarshal(text, r)
	if err == nil {
		r.clean()
		err = r.check()
	}
	if err == nil && len(r.Points) == 0 {
		err = errors.New("there are no points in it")
	}
	if err != nil {
		return nil, &ui.Advice{Err: fmt.Errorf("%s is no result of ropeway bench: %w", file, err),
			Next: "write one with: ropeway bench --json=" + file}
	}
	return r, nil
}

var changeColumns = ui.Columns{38, -8, -8, -8, -18}

// WriteTable writes the comparison for people: what changed, or everything.
func (c *Comparison) WriteTable(o *ui.Output, everything bool) {
	what := "speeds"
	if c.By == ByMemcpy {
		what = "ratios to memcpy"
	}
	o.Line("compared: %s; a change counts from %.3g%% on", what, c.Threshold*100)
	for _, n := range c.Notes {
		o.Line("note: %s", n)
	}
	var rows []string
	for _, ch := range c.Changes {
		if ch.Verdict == Same && !everything && ch.What != "everything" {
			continue
		}
		old, now := "", ""
		if ch.Cases == 1 {
			old, now = number(ch.Old/1e9), number(ch.New/1e9)
		}
		row := changeColumns.Row(ch.What, old, now, percent(ch.Ratio), percent(ch.Low)+" to "+percent(ch.High))
		switch ch.Verdict {
		case Slower:
			row = o.Bad(row)
		case Faster:
			row = o.Good(row)
		}
		rows = append(rows, row)
	}
	if len(rows) > 0 {
		o.Line("")
		o.Line("%s", o.Bold(changeColumns.Row("COPY", "GB/s", "NOW", "CHANGE", "95% INTERVAL")))
		for _, row := range rows {
			o.Line("%s", row)
		}
		o.Line("")
	}
	o.Line("%s", c.lastLine(o))
}

// lastLine is the answer.
func (c *Comparison) lastLine(o *ui.Output) string {
	if c.Verdict == Same {
		return o.Good("no change")
	}
	cases := 0
	for _, ch := range c.Changes {
		if ch.Cases == 1 {
			cases++
		}
	}
	text := fmt.Sprintf("%s: %d of %d cases are slower and %d faster by themselves", c.Verdict, c.Slower,
		cases, c.Faster)
	if all := c.Changes[0]; all.Cases > 1 && all.Verdict == c.Verdict {
		text += fmt.Sprintf(", everything %s", percent(all.Ratio))
	}
	if c.Verdict == Slower {
		return o.Bad(text)
	}
	return o.Good(text)
}

func percent(ratio float64) string { return fmt.Sprintf("%+.1f%%", 100*(ratio-1)) }
