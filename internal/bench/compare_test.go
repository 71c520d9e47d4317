package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"ropeway/internal/testenv"
	"ropeway/internal/ui"
	"slices"
	"strings"
	"testing"
	"time"
)

// noise is how a machine disturbs a run. Each number is a standard deviation, as a part of the speed.
type noise struct {
	drift  float64 // of the machine's speed from round to round: memcpy feels it too, and it adds up
	run    float64 // of each case, for all of a run
	shared float64 // of all cases of a round
	point  float64 // of each measurement; four times as much in every third case
	tail   float64 // how often a measurement is disturbed badly
}

// noises are a quiet machine, a shared one and a bad one.
var noises = map[string]noise{
	"quiet":  {0.005, 0.003, 0.003, 0.01, 0.01},
	"shared": {0.10, 0.010, 0.010, 0.04, 0.05},
	"bad":    {0.25, 0.015, 0.015, 0.05, 0.10},
}

// synthetic is a run of the quick sweep on such a machine, slowed by slow(case).
func synthetic(random *rand.Rand, n noise, rounds int, slow func(Case) float64) *Result {
	gauss := func(sigma float64) float64 { return math.Exp(random.NormFloat64() * sigma) }
	r := &Result{Version: formatVersion, Rounds: rounds, About: About{Driver: "soft"}, Limit: 20e9}
	drift, shared := make([]float64, rounds), make([]float64, rounds)
	speed := math.Exp((random.Float64() - 0.5) * math.Ln2) // the machine may have become up to twice as fast or slow
	for i := range rounds {
		speed *= gauss(n.drift)
		drift[i], shared[i] = speed, gauss(n.shared)
	}
	for _, c := range Quick().Cases() {
		p := Point{Case: c}
		layout, point := gauss(n.run), n.point
		if len(r.Points)%3 == 2 {
			point *= 4
		}
		for i := range rounds {
			base := float64(c.Bytes()) / 10e9 * drift[i]
			took := base * 0.7 * layout * shared[i] * gauss(point) * (1 + slow(c))
			if random.Float64() < n.tail {
				took *= 1 + random.Float64()
			}
			p.Seconds = append(p.Seconds, took)
			p.Memcpy = append(p.Memcpy, base*gauss(n.point/2))
			p.MemcpyAll = append(p.MemcpyAll, base*0.8*gauss(n.point/2))
		}
		r.Points = append(r.Points, p)
	}
	return r
}

// repetitions is how many pairs of runs are compared.
func repetitions() int {
	if testing.Short() {
		return 40
	}
	return 200
}

func never(Case) float64 { return 0 }

// trials compares pairs of synthetic runs and counts the verdicts.
func trials(t *testing.T, n noise, times, rounds int, slow func(Case) float64) map[string]int {
	t.Helper()
	verdicts := map[string]int{}
	for i := range times {
		random := rand.New(rand.NewPCG(uint64(i), 7))
		before := synthetic(random, n, rounds, never)
		after := synthetic(random, n, rounds, slow)
		c, err := Compare(before, after, DefaultThreshold, "")
		testenv.OK(t, err)
		verdicts[c.Verdict]++
	}
	return verdicts
}

// TestIdentical proves that two runs that differ by noise alone are called the same 19 times out of 20, at least.
func TestIdentical(t *testing.T) {
	for name, n := range noises {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			times := repetitions()
			got := trials(t, n, times, QuickRounds, never)
			t.Log(got)
			if got[Same] < times*19/20 {
				t.Errorf("%v", got)
			}
		})
	}
}

// TestSlowed proves that a run that is 10% slower is called so, each time.
func TestSlowed(t *testing.T) {
	for name, n := range noises {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			times := repetitions()
			got := trials(t, n, times, QuickRounds, func(Case) float64 { return 0.10 })
			t.Log(got)
			if got[Slower] < times*19/20 || got[Faster] > 0 {
				t.Errorf("%v", got)
			}
		})
	}
}

// TestPartSlowed proves that it is enough if a part is slower: a whole direction by 10% on a shared machine, one case
// by a third if there are more rounds.
func TestPartSlowed(t *testing.T) {
	one := Quick().Cases()[3]
	rounds := map[string]int{"direction": QuickRounds, "case": 2 * QuickRounds}
	for name, slow := range map[string]func(Case) float64{
		"direction": func(c Case) float64 {
			if c.Direction == HostToDevice {
				return 0.13
			}
			return 0
		},
		"case": func(c Case) float64 {
			if c == one {
				return 0.33
			}
			return 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			times := repetitions() / 2
			got := trials(t, noises["shared"], times, rounds[name], slow)
			t.Log(got)
			if got[Slower] < times*9/10 {
				t.Errorf("%v", got)
			}
		})
	}
}

// TestDrift proves that compared by speed alone a machine that drifts would be reported: ratios to memcpy are what
// makes runs comparable.
func TestDrift(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	before := synthetic(random, noises["quiet"], QuickRounds, never)
	after := synthetic(random, noises["quiet"], QuickRounds, never)
	for i := range after.Points { // the machine became half as fast
		p := &after.Points[i]
		for j := range p.Seconds {
			p.Seconds[j] *= 2
			p.Memcpy[j] *= 2
		}
	}
	for by, want := range map[string]string{ByMemcpy: Same, BySpeed: Slower} {
		c, err := Compare(before, after, DefaultThreshold, by)
		if err != nil || c.Verdict != want || c.By != by {
			t.Errorf("%s: %s, %v", by, c.Verdict, err)
		}
	}
}

// TestFaster proves that the other direction is seen and is no regression, and that what is reported is what was done.
func TestFaster(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 1))
	before := synthetic(random, noises["quiet"], QuickRounds, never)
	after := synthetic(random, noises["quiet"], QuickRounds, func(Case) float64 { return -0.2 })
	c, err := Compare(before, after, DefaultThreshold, "")
	if err != nil || c.Verdict != Faster || c.Slower != 0 || c.Faster < len(before.Points)/2 {
		t.Fatalf("%+v, %v", c, err)
	}
	all := c.Changes[0]
	if all.What != "everything" || all.Cases != len(before.Points) || !(all.Low <= 1.25 && 1.25 <= all.High) ||
		all.High/all.Low > 1.05 {
		t.Errorf("1/0.8 is not in %+v", all)
	}
}

// TestCoverage proves that the 95% interval holds the truth about as often as it says.
func TestCoverage(t *testing.T) {
	const times = 2000
	held := 0
	for i := range times {
		random := rand.New(rand.NewPCG(uint64(i), 9))
		before, after := make([]float64, 10), make([]float64, 10)
		for j := range before {
			before[j], after[j] = random.NormFloat64(), 0.5+random.NormFloat64()
		}
		mid, low, high := shiftOf(before, after)
		if !(low <= mid && mid <= high) {
			t.Fatal(low, mid, high)
		}
		if low <= 0.5 && 0.5 <= high {
			held++
		}
	}
	if part := float64(held) / times; part < 0.94 || part > 0.98 {
		t.Errorf("%.3f of the intervals hold the truth", part)
	}
}

func TestCompareRefuses(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 1))
	few := synthetic(random, noises["quiet"], 4, never)
	many := synthetic(random, noises["quiet"], 10, never)
	_, err := Compare(few, few, DefaultThreshold, "")
	if a, ok := err.(*ui.Advice); !ok || !strings.Contains(a.Next, "--rounds 8 or more") {
		t.Errorf("4 rounds: %v", err)
	}
	other := *many
	other.Points = nil
	_, err = Compare(many, &other, DefaultThreshold, "")
	if a, ok := err.(*ui.Advice); !ok || !strings.Contains(a.Error(), "no case in common") {
		t.Errorf("nothing in common: %v", err)
	}
}

// TestNotes proves that what makes a comparison doubtful is said.
func TestNotes(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 1))
	before := synthetic(random, noises["quiet"], 10, never)
	after := synthetic(random, noises["quiet"], 10, never)
	after.Machine.CPU, after.Driver, after.Memcpy = "another", "cuda", "another"
	after.Points[0].Skipped = "needs two devices"
	after.Points[1].Size = 12345
	c, err := Compare(before, after, DefaultThreshold, ByMemcpy)
	if err != nil || c.By != BySpeed {
		t.Fatal(c, err)
	}
	notes := strings.Join(c.Notes, "\n")
	for _, want := range []string{"CPU differs", "driver differs: soft and cuda", "different memcpys",
		"2 cases of the old run", "1 cases of the new run"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no %q in %q", want, notes)
		}
	}
}

// TestBy proves that without --by, speeds are compared as soon as one of the runs is of another driver than soft,
// whichever.
func TestBy(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 2))
	soft := synthetic(random, noises["quiet"], 10, never)
	cuda := synthetic(random, noises["quiet"], 10, never)
	cuda.Driver = "cuda"
	for _, tt := range []struct {
		before, after *Result
		want          string
	}{{soft, soft, ByMemcpy}, {soft, cuda, BySpeed}, {cuda, soft, BySpeed}, {cuda, cuda, BySpeed}} {
		c, err := Compare(tt.before, tt.after, DefaultThreshold, "")
		if err != nil || c.By != tt.want {
			t.Errorf("%s and %s: %+v, %v", tt.before.Driver, tt.after.Driver, c, err)
		}
	}
}

// TestManyRounds proves that runs of as many rounds as there may be can be compared: the time limit is for what never
// ends.
func TestManyRounds(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 3))
	before := synthetic(random, noises["quiet"], MostRounds, never)
	after := synthetic(random, noises["quiet"], MostRounds, func(Case) float64 { return 0.1 })
	before.Points = before.Points[:2]
	verdict := make(chan string)
	go func() {
		c, err := Compare(before, after, DefaultThreshold, "")
		if err != nil {
			verdict <- err.Error()
			return
		}
		verdict <- c.Verdict
	}()
	select {
	case got := <-verdict:
		if got != Slower {
			t.Error(got)
		}
	case <-time.After(time.Minute):
		t.Fatal("still comparing after a minute")
	}
}

// TestIntervalEnd checks against the table of the U test, and that what many rounds use instead comes close to it.
func TestIntervalEnd(t *testing.T) {
	for n, want := range map[int]int{4: 1, 5: 3, 8: 14, 10: 24, 20: 128} { // one more than the critical value
		if got := intervalEnd(n, n); got != want {
			t.Errorf("%d: %d, want %d", n, got, want)
		}
	}
	for _, n := range []int{20, 30, 50} {
		if exact, near := intervalEnd(n, n), normalEnd(n, n); exact < near-1 || exact > near+1 {
			t.Errorf("%d: %d, nearly %d", n, exact, near)
		}
	}
}

// TestDifference checks against a list of all differences, with and without ties.
func TestDifference(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 11))
		list := func(n int) (values []float64) {
			for range n {
				v := random.NormFloat64()
				if seed%2 == 0 {
					v = math.Round(2*v) / 10
				}
				values = append(values, v)
			}
			slices.Sort(values)
			return values
		}
		before, after := list(1+random.IntN(9)), list(1+random.IntN(9))
		var all []float64
		for _, a := range after {
			for _, b := range before {
				all = append(all, a-b)
			}
		}
		slices.Sort(all)
		for i, want := range all {
			if got := difference(before, after, i+1); got != want {
				t.Fatalf("%d of %v and %v: %v, want %v", i+1, before, after, got, want)
			}
		}
	}
}

// TestLeastP checks against the table of the U test.
func TestLeastP(t *testing.T) {
	for n, want := range map[int]float64{1: 1, 4: 0.02857142857142857, 8: 0.0001554001554001554} {
		if got := leastP(n, n); math.Abs(got-want) > 1e-12 {
			t.Errorf("%d: %v, want %v", n, got, want)
		}
	}
}

func ExampleCompare() {
	random := rand.New(rand.NewPCG(5, 1))
	before := synthetic(random, noises["quiet"], 10, never)
	after := synthetic(random, noises["quiet"], 10, func(c Case) float64 {
		if c.Memory == Registered {
			return 0.5
		}
		return 0
	})
	c, _ := Compare(before, after, DefaultThreshold, ByMemcpy)
	for _, ch := range c.Changes {
		if ch.Cases > 1 {
			fmt.Println(ch.What+":", ch.Verdict)
		}
	}
	// Output:
	// everything: same
	// h2d pinned: same
	// h2d pageable: same
	// h2d registered: slower
	// d2h pinned: same
	// d2h pageable: same
	// d2h registered: slower
	// d2d: same
	// p2p: same
}
