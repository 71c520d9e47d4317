package pod

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// measure makes copies of the first bytes of r, and returns the seconds they took and, for a loop, the first percentile
// and the median of one copy. The words are the direction (write, read), the form (chain: one after another; flight:
// all at once; batch: a single copy of all; loop: a goroutine waits for each), the bytes of each copy, and their
// number. Copies of a chain and of a flight all use the same places.
func measure(r *Remote, words []string) (string, error) {
	size, _ := strconv.ParseUint(words[2], 10, 64)
	count, _ := strconv.Atoi(words[3])
	if uint64(count)*size > r.Size && (words[1] == "batch" || words[1] == "loop") || size > r.Size {
		return "", fmt.Errorf("%d bytes are too few", r.Size)
	}
	f := r.WriteStaying // as for device memory
	if words[0] == "read" {
		f = r.Read
	}
	mine := make([]byte, r.Size)
	pattern(mine, 1)
	seg := func(i int) Segment {
		if words[1] == "flight" || words[1] == "chain" {
			i = 0 // as in the baseline
		}
		off := uint64(i) * size
		return Segment{addressOf(mine) + uintptr(off), off, size}
	}
	each := make([]float64, 0, count)
	began := time.Now()
	times := 1
	if words[1] == "batch" {
		times = 8
	}
	for _, n := range []int{count/10 + 1, count} { // the first to warm up
		each = each[:0]
		began = time.Now()
		for range times {
			if err := perform(f, words[1], n, seg, &each); err != nil {
				return "", err
			}
		}
	}
	took := time.Since(began).Seconds() / float64(times)
	runtime.KeepAlive(mine)
	if each = append(each, 0)[:max(len(each), 1)]; len(each) > 1 {
		slices.Sort(each)
	}
	return fmt.Sprint(took, each[len(each)/100], each[len(each)/2]), nil
}

// perform makes count copies in one form, and waits for them. It appends the seconds of each copy of a loop to each.
func perform(f func([]Segment, func(error)), form string, count int, seg func(int) Segment, each *[]float64) error {
	end := make(chan error, count)
	done := func(err error) { end <- err }
	switch form {
	case "batch":
		segs := make([]Segment, count)
		for i := range segs {
			segs[i] = seg(i)
		}
		f(segs, done)
		count = 1
	case "flight":
		for i := range count {
			f([]Segment{seg(i)}, done)
		}
	case "chain":
		left := count - 1
		var next func(error)
		segs := []Segment{seg(0)}
		next = func(err error) {
			if left == 0 || err != nil {
				done(err)
				return
			}
			left--
			segs = append(segs[:0], seg(left))
			f(segs, next)
		}
		f(segs, next)
		count = 1
	case "loop":
		for i := range count {
			began := time.Now()
			f([]Segment{seg(i)}, done)
			if err := <-end; err != nil {
				return err
			}
			*each = append(*each, time.Since(began).Seconds())
		}
		count = 0
	}
	for range count {
		if err := <-end; err != nil {
			return err
		}
	}
	return nil
}

// scenes are the environments of the benchmarks: the prefix of a command in each, and the pod.
var scenes = map[string]func(b *testing.B, more string) (owner, user []string, file string){
	"veth": func(b *testing.B, more string) (owner, user []string, file string) {
		n := joined(b)
		in := func(i int) []string { return []string{"ip", "netns", "exec", n.names[i]} }
		return in(0), in(1), podOn(b, n, more)
	},
	"loopback": func(b *testing.B, more string) (owner, user []string, file string) {
		return nil, nil, podFile(b, 2, more)
	},
}

// row is a measurement and its baselines.
type row struct {
	name  string
	run   func() float64 // larger is better
	bases []string       // rows to compare it with
	want  []float64      // least ratio to each of them
}

const mega = 1 << 20

// rows returns the measurements of a scene, in which user has imported 64 MiB of owner. The baseline is a program that
// sends the same bytes over the same number of connections, plain or by crypto/tls, in place.
func rows(owner, user *server, kind string, loops int) []row {
	number := func(text string) float64 {
		var v float64
		fmt.Sscan(text, &v)
		return v
	}
	ours := func(direction, form string, size, count int) float64 {
		return float64(size*count) / mega / number(user.Does("bench %s %s %d %d", direction, form, size, count))
	}
	at := owner.Does("sink %s", kind)
	base := func(size, count int) func() float64 {
		return func() float64 {
			return float64(size*count) / mega / number(user.Does("push %s %s %d %d", kind, at, size, count))
		}
	}
	small, medium, large := kind+" connections, 1 MiB", kind+" connections, 16 MiB", kind+" connections, 64 MiB"
	list := []row{{small, base(mega, loops), nil, nil}, {medium, base(16*mega, max(loops/16, 4)), nil, nil},
		{large, base(64*mega, max(loops/64, 4)), nil, nil}}
	for _, d := range []string{"write", "read"} {
		loop := d + " 4,096 x 4 KiB, a loop"
		list = append(list,
			row{d + " 1 MiB, in flight", func() float64 { return ours(d, "flight", mega, loops) },
				[]string{small}, []float64{0.9}},
			row{d + " 1 MiB, one by one", func() float64 { return ours(d, "chain", mega, loops) },
				[]string{small}, []float64{0}},
			row{d + " 64 MiB", func() float64 { return ours(d, "chain", 64*mega, max(loops/64, 4)) },
				[]string{large}, []float64{0.9}},
			row{loop, func() float64 { return ours(d, "loop", 4096, 4096) }, nil, nil},
			row{d + " 4,096 x 4 KiB, a batch", func() float64 { return ours(d, "batch", 4096, 4096) },
				[]string{small, medium, loop}, []float64{0.8, 0.8, 5}}, // medium is as much memory
		)
	}
	return list
}

// BenchmarkLinks compares copies with programs that move the same bytes over TCP, plain and by crypto/tls, in turn. It
// reports ratios of the best of several rounds and, in brackets, of their medians. Bandwidths are in MiB/s. "make bench
// ROWS=pod" runs it. POD_ROUNDS is the number of rounds, POD_LOOPS the number of copies of 1 MiB, POD_SCENES the scenes
// (veth loopback), POD_CONNECTIONS the number of connections, and POD_CPUS two processors to use for everything.
func BenchmarkLinks(b *testing.B) {
	setting := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return n
		}
		return otherwise
	}
	names := strings.Fields(os.Getenv("POD_SCENES"))
	if len(names) == 0 {
		names = []string{"veth", "loopback"}
	}
	for _, name := range names {
		for _, kind := range []string{"plain", "tls"} {
			b.Run(name+"/"+kind, func(b *testing.B) {
				more := ""
				if kind == "plain" {
					more = "encryption: none\n"
				}
				if n := setting("POD_CONNECTIONS", 0); n > 0 {
					more += fmt.Sprintf("connections: %d\n", n)
				}
				at, from, file := scenes[name](b, more)
				if cpus := os.Getenv("POD_CPUS"); cpus != "" {
					pin := []string{"taskset", "-c", cpus}
					at, from = append(at, pin...), append(from, pin...)
				}
				owner, user := launch(b, file, 0, at...), launch(b, file, 1, from...)
				user.Does("import %s", owner.Does("export %d", 64*mega))
				compare(b, rows(owner, user, kind, setting("POD_LOOPS", 300)), setting("POD_ROUNDS", 3))
				waited(b, user, setting("POD_ROUNDS", 3), 10*setting("POD_LOOPS", 300))
			})
		}
	}
}

func compare(b *testing.B, rows []row, rounds int) {
	got := map[string][]float64{}
	for range rounds {
		for _, r := range rows {
			got[r.name] = append(got[r.name], r.run())
		}
	}
	for _, list := range got {
		slices.Sort(list)
	}
	for _, r := range rows {
		list := got[r.name]
		line := fmt.Sprintf("%-32s %9.1f", r.name, list[rounds-1])
		for i, name := range r.bases {
			best, middle := rounds-1, rounds/2
			line += fmt.Sprintf("  %.2f (%.2f) of %s", list[best]/got[name][best], list[middle]/got[name][middle], name)
			if r.want[i] > 0 {
				line += fmt.Sprintf(", asked %.1f", r.want[i])
			}
		}
		b.Log(line)
	}
	b.ReportMetric(0, "ns/op")
}

// waited logs the time of a copy of 64 B with a wait, in the best round.
func waited(b *testing.B, user *server, rounds, count int) {
	for _, d := range []string{"write", "read"} {
		p1, p50 := 1.0, 1.0
		for range rounds {
			var all, low, middle float64
			fmt.Sscan(user.Does("bench %s loop 64 %d", d, count), &all, &low, &middle)
			p1, p50 = min(p1, low), min(p50, middle)
		}
		b.Logf("%s 64 B, waited for: p1 %.1f µs, asked 25 on a quiet machine; p50 %.1f µs, %.1f of p1, asked 2", d,
			1e6*p1, 1e6*p50, p50/p1)
	}
}
