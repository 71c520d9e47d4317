package bench

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"ropeway/internal/ui"
	"slices"
	"sort"
	"sync"

	"github.com/aclements/go-moremath/stats"
	"golang.org/x/perf/benchmath"
)

// Alpha is how often, at most, a comparison of two runs that do not differ says that they do.
const Alpha = 0.05

// DefaultThreshold is the change of speed that does not count: two runs of one program differ by a few percent for
// reasons that no number of rounds in one run shows, such as what else runs on the machine.
const DefaultThreshold = 0.05

// What is compared.
const (
	ByMemcpy = "memcpy" // speed as a multiple of memcpy's, measured beside it
	BySpeed  = "speed"
)

// What became of something.
const (
	Same   = "same"
	Slower = "slower"
	Faster = "faster"
)

// Change is what became of a case, of a series of cases or of all.
type Change struct {
	What    string  `json:"what"`
	Cases   int     `json:"cases"`         // how many it is about
	Old     float64 `json:"old,omitempty"` // median of bytes a second, for one case
	New     float64 `json:"new,omitempty"`
	Ratio   float64 `json:"ratio"` // new by old, of what is compared: below 1 is slower
	Low     float64 `json:"low"`   // 95% confidence interval of Ratio
	High    float64 `json:"high"`
	P       float64 `json:"p"` // of no change beyond the threshold, corrected for the number of changes looked at
	Verdict string  `json:"verdict"`
}

// Comparison is what changed between two runs.
type Comparison struct {
	By        string   `json:"by"`
	Threshold float64  `json:"threshold"`
	Verdict   string   `json:"verdict"` // slower if anything is
	Slower    int      `json:"slower"`  // cases
	Faster    int      `json:"faster"`
	Changes   []Change `json:"changes"` // all, then series, then cases
	Notes     []string `json:"notes,omitempty"`
}

// Compare looks for changes of more than threshold (0.05 for 5%). by is [ByMemcpy], [BySpeed], or "" for what fits the
// drivers.
//
// Each case, each series (its median) and all together are tested: Mann-Whitney's U test of the rounds, against the
// hypothesis that the change is within the threshold, corrected for testing many. Intervals are Hodges and Lehmann's.
func Compare(before, after *Result, threshold float64, by string) (*Comparison, error) {
	c := &Comparison{By: by, Threshold: threshold, Verdict: Same}
	if by == "" {
		c.By = ByMemcpy
		if before.Driver != "soft" || after.Driver != "soft" { // what memcpy reaches says little about another device
			c.By = BySpeed
		}
	}
	c.note(before, after)
	pairs := c.pair(before, after)
	if len(pairs) == 0 {
		return nil, &ui.Advice{Err: errors.New("the two runs have no case in common"),
			Next: "measure both with the same flags"}
	}
	families := familiesOf(pairs)
	var indexes [][]int
	most := 0
	for _, family := range families {
		var list []int
		for _, g := range family {
			list = append(list, len(c.Changes))
			c.Changes = append(c.Changes, c.test(g))
		}
		indexes = append(indexes, list)
		most = max(most, len(families)*len(family))
	}
	if n, m := before.Rounds, after.Rounds; float64(most)*leastP(n, m) > Alpha {
		need := min(n, m)
		for float64(most)*leastP(need, need) > Alpha {
			need++
		}
		return nil, &ui.Advice{Err: fmt.Errorf("%d and %d rounds cannot show that one of %d values changed", n, m,
			len(c.Changes)),
			Next: fmt.Sprintf("measure both with --rounds %d or more", need)}
	}
	c.judge(indexes)
	return c, nil
}

// pair is one case in both runs.
type pair struct{ before, after *Point }

// group is cases that are tested together.
type group struct {
	name  string
	pairs []pair
}

// pair finds the cases that both runs measured.
func (c *Comparison) pair(before, after *Result) (pairs []pair) {
	missing := 0
	for i := range before.Points {
		o := &before.Points[i]
		if o.Skipped != "" {
			continue
		}
		at := slices.IndexFunc(after.Points, func(p Point) bool { return p.Case == o.Case })
		if at < 0 || after.Points[at].Skipped != "" {
			missing++
			continue
		}
		pairs = append(pairs, pair{o, &after.Points[at]})
	}
	if missing > 0 {
		c.Notes = append(c.Notes, fmt.Sprintf("%d cases of the old run are not in the new one", missing))
	}
	measured := 0
	for _, p := range after.Points {
		if p.Skipped == "" {
			measured++
		}
	}
	if more := measured - len(pairs); more > 0 {
		c.Notes = append(c.Notes, fmt.Sprintf("%d cases of the new run are not in the old one", more))
	}
	return pairs
}

// note says what else differs.
func (c *Comparison) note(before, after *Result) {
	for _, d := range []struct{ what, before, after string }{
		{"CPU", before.Machine.CPU, after.Machine.CPU},
		{"number of CPUs", fmt.Sprint(before.Machine.CPUs), fmt.Sprint(after.Machine.CPUs)},
		{"driver", before.Driver, after.Driver},
		{"product", before.Product, after.Product},
	} {
		if d.before != d.after {
			c.Notes = append(c.Notes, fmt.Sprintf("the %s differs: %s and %s", d.what, d.before, d.after))
		}
	}
	if c.By == ByMemcpy && before.Memcpy != after.Memcpy {
		c.By = BySpeed
		c.Notes = append(c.Notes, "the runs used different memcpys, so speeds are compared, not ratios to it")
	}
}

// familiesOf is everything, the series of more than one case, and the cases, as far as these are different things.
func familiesOf(pairs []pair) (families [][]group) {
	var series, cases []group
	for _, p := range pairs {
		cases = append(cases, group{p.before.Case.String(), []pair{p}})
		name := p.before.Series()
		at := slices.IndexFunc(series, func(g group) bool { return g.name == name })
		if at < 0 {
			at = len(series)
			series = append(series, group{name: name})
		}
		series[at].pairs = append(series[at].pairs, p)
	}
	several := len(series) > 1
	series = slices.DeleteFunc(series, func(g group) bool { return len(g.pairs) == 1 })
	if len(pairs) > 1 {
		families = append(families, []group{{"everything", pairs}})
	}
	if several && len(series) > 0 {
		families = append(families, series)
	}
	return append(families, cases)
}

// values are the logarithms of what is compared, a round each, against the case's usual value. Of several cases it is
// the median, weighted by how steady each is: neither a case that was disturbed in a round nor one that always jumps
// counts for all.
func (c *Comparison) values(g group) (before, after []float64) {
	b, a := len(g.pairs[0].before.Seconds), len(g.pairs[0].after.Seconds)
	rounds := make([][]weighted, b+a)
	for _, p := range g.pairs {
		old, now := c.logs(p.before), c.logs(p.after)
		weight := 1 / (spread(old) + spread(now) + 1e-3)
		usual := (middle(old) + middle(now)) / 2
		for i, v := range append(old, now...) {
			rounds[i] = append(rounds[i], weighted{v - usual, weight})
		}
	}
	all := make([]float64, len(rounds))
	for i, values := range rounds {
		all[i] = weightedMiddle(values)
	}
	return all[:b], all[b:]
}

type weighted struct{ value, weight float64 }

// weightedMiddle is the value with half of the weight on either side.
func weightedMiddle(values []weighted) float64 {
	slices.SortFunc(values, func(a, b weighted) int { return cmp.Compare(a.value, b.value) })
	total := 0.0
	for _, v := range values {
		total += v.weight
	}
	sum := 0.0
	for i, v := range values {
		sum += v.weight
		switch {
		case sum == total/2 && i+1 < len(values):
			return (v.value + values[i+1].value) / 2
		case sum >= total/2:
			return v.value
		}
	}
	return values[len(values)-1].value
}

// spread is the median distance from the median.
func spread(values []float64) float64 {
	mid := middle(values)
	far := make([]float64, len(values))
	for i, v := range values {
		far[i] = math.Abs(v - mid)
	}
	return middle(far)
}

// logs are the logarithms of what is compared.
func (c *Comparison) logs(p *Point) []float64 {
	list := make([]float64, len(p.Seconds))
	for i, s := range p.Seconds {
		v := float64(p.Bytes()) / s
		if c.By == ByMemcpy {
			v = p.Memcpy[i] / s
		}
		list[i] = math.Log(v)
	}
	return list
}

// middle is the median.
func middle(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// test looks at one group.
func (c *Comparison) test(g group) Change {
	before, after := c.values(g)
	ch := Change{What: g.name, Cases: len(g.pairs), P: 1, Verdict: Same}
	if len(g.pairs) == 1 {
		ch.Old, ch.New = g.pairs[0].before.Speed().Median, g.pairs[0].after.Speed().Median
	}
	mid, low, high := shiftOf(before, after)
	ch.Ratio, ch.Low, ch.High = math.Exp(mid), math.Exp(low), math.Exp(high)
	margin := 0.0
	switch {
	case mid < math.Log(1-c.Threshold):
		margin = math.Log(1 - c.Threshold)
	case mid > -math.Log(1-c.Threshold):
		margin = -math.Log(1 - c.Threshold)
	default:
		return ch
	}
	for i := range before {
		before[i] += margin
	}
	ch.P = benchmath.AssumeNothing.Compare(sampleOf(before), sampleOf(after)).P
	return ch
}

func sampleOf(values []float64) *benchmath.Sample {
	return benchmath.NewSample(slices.Clone(values), &benchmath.DefaultThresholds)
}

// judge corrects the p-values and decides. Everything, the series and the cases are three families, each with a third
// of Alpha and Holm's correction inside it: cases are many, and their number must not hide a change that all of them
// share.
func (c *Comparison) judge(families [][]int) {
	for _, family := range families {
		slices.SortStableFunc(family, func(a, b int) int { return cmp.Compare(c.Changes[a].P, c.Changes[b].P) })
		worst := 0.0
		for i, at := range family {
			ch := &c.Changes[at]
			worst = min(1, max(worst, ch.P*float64((len(family)-i)*len(families))))
			ch.P = worst
			switch {
			case ch.P > Alpha:
			case ch.Ratio < 1:
				ch.Verdict = Slower
			default:
				ch.Verdict = Faster
			}
		}
	}
	for _, ch := range c.Changes {
		switch {
		case ch.Verdict == Same:
			continue
		case c.Verdict != Slower:
			c.Verdict = ch.Verdict
		}
		if ch.Cases == 1 && ch.Verdict == Slower {
			c.Slower++
		}
		if ch.Cases == 1 && ch.Verdict == Faster {
			c.Faster++
		}
	}
}

// leastP is the smallest p-value that n and m rounds can give.
func leastP(n, m int) float64 {
	p := 2.0
	for i := 1; i <= n; i++ {
		p *= float64(i) / float64(m+i)
	}
	return min(p, 1)
}

// shiftOf is by how much values went up from before to after, with a 95% confidence interval: Hodges and Lehmann's
// estimate, the median of all differences, and the interval that belongs to the U test.
func shiftOf(before, after []float64) (mid, low, high float64) {
	before, after = slices.Sorted(slices.Values(before)), slices.Sorted(slices.Values(after))
	n := len(before) * len(after)
	k := intervalEnd(len(before), len(after))
	at := func(k int) float64 { return difference(before, after, k) }
	return (at((n+1)/2) + at(n/2+1)) / 2, at(k), at(n + 1 - k)
}

// difference is the k-th smallest of all differences between a value of after and one of before, both sorted; the first
// is 1. It narrows down the number and counts: a list of all would be long.
func difference(before, after []float64, k int) float64 {
	last := len(before) - 1
	low := math.Nextafter(after[0]-before[last], math.Inf(-1)) // less than any
	high := after[len(after)-1] - before[0]                    // as large as any
	for {
		mid := low + (high-low)/2
		if !(low < mid && mid < high) {
			return high
		}
		upTo, b := 0, 0 // before[b:] are those that give mid or less
		for _, a := range after {
			for b <= last && a-before[b] > mid {
				b++
			}
			upTo += len(before) - b
		}
		if upTo < k {
			low = mid
		} else {
			high = mid
		}
	}
}

// intervalEnds remembers [intervalEnd], which takes long.
var intervalEnds sync.Map

// mostExact is the most pairs of rounds for which [intervalEnd] is exact: beyond it that takes seconds, then hours, and
// the U test is not exact either.
const mostExact = 50 * 50

// intervalEnd is which of the sorted differences, from either end, bounds the interval; the first is 1.
func intervalEnd(n, m int) int {
	key := [2]int{n, m}
	if k, ok := intervalEnds.Load(key); ok {
		return k.(int)
	}
	k := 0
	if n*m <= mostExact {
		u := stats.UDist{N1: n, N2: m}
		k = sort.Search(n*m/2, func(k int) bool { return u.CDF(float64(k)) > (1-0.95)/2 })
	} else {
		k = normalEnd(n, m)
	}
	k = max(k, 1) // with too few rounds the interval is not as sure as it should be
	intervalEnds.Store(key, k)
	return k
}

// normalEnd is [intervalEnd] as the normal distribution that U comes close to has it.
func normalEnd(n, m int) int {
	pairs := float64(n * m)
	return int(pairs/2 - 1.96*math.Sqrt(pairs*float64(n+m+1)/12))
}

// Speed is bytes a second, over the rounds.
type Speed struct{ Median, Low, High float64 } // with a 95% confidence interval

// Speed of copying through ropeway.
func (p *Point) Speed() Speed {
	values := make([]float64, len(p.Seconds))
	for i, s := range p.Seconds {
		values[i] = float64(p.Bytes()) / s
	}
	s := benchmath.AssumeNothing.Summary(sampleOf(values), 0.95)
	low, high := s.Lo, s.Hi
	if math.IsInf(low, 0) || math.IsInf(high, 0) { // too few rounds
		low, high = slices.Min(values), slices.Max(values)
	}
	return Speed{s.Center, low, high}
}

// Ratio is the median, over the rounds, of how many times faster ropeway was than what is given.
func (p *Point) Ratio(to []float64) float64 {
	values := make([]float64, len(to))
	for i := range to {
		values[i] = to[i] / p.Seconds[i]
	}
	return benchmath.AssumeNothing.Summary(sampleOf(values), 0.95).Center
}
