package main

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/transfer"
)

// parallel is bench/baseline/baseline.c's copy_loops.
type parallel func(dsts, srcs *uintptr, n, count, threads uint64) int64

// A shape is a batch: how many segments of how many bytes, from memory in no cache or always the same.
type shape struct {
	count, size uint64
	fresh       bool
}

func (s shape) String() string {
	name := "again"
	if s.fresh {
		name = "cold"
	}
	return fmt.Sprintf("%dx%d,%s", s.count, s.size, name)
}

// shapes are measured with each number of cores. The last are what must not get slower.
var shapes = []shape{
	{4096, 256, true}, {4096, 256, false}, {65536, 256, true}, {4096, 64, true}, {4096, 64, false}, {1024, 256, false},
	{256, 256, false}, {256, 4096, false}, {4096, 4096, true}, {4096, 4096, false},
}

// coreList is the numbers of cores to measure with, as far as there are so many.
func coreList(text string) (list []int, err error) {
	for _, f := range strings.Split(text, ",") {
		n, err := strconv.Atoi(f)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-cores: %q is not a number of cores", f)
		}
		if n <= runtime.NumCPU() {
			list = append(list, n)
		}
	}
	return list, nil
}

// onCores measures batches with some cores, and prints a line for each: its name, and the fastest and the median in ns.
func onCores(base *baseline, cores int) error {
	runtime.GOMAXPROCS(cores)
	m, err := newMachine() // whose pool has as many workers
	if err != nil {
		return err
	}
	defer m.rt.Close()
	const span = 512 << 20
	host, other, dev := m.pinned(span), m.pinned(span), m.device(span)
	for _, sh := range shapes {
		measure(m, base, sh, [3]core.Addr{host, other, dev}, span, cores)
	}
	small64(m, host, dev, cores)
	return nil
}

// say prints what was measured.
func say(name string, cores int, times []int64) {
	slices.Sort(times)
	fmt.Printf("%s %d %d %d\n", name, cores, times[0], times[len(times)/2])
}

// measure does a batch, in turn with loops of memcpy by one thread and by all.
func measure(m *machine, base *baseline, sh shape, at [3]core.Addr, span uint64, cores int) {
	s := m.stream()
	grid := max(sh.size, 4096)
	if sh.count*grid > span {
		grid = sh.size
	}
	var lists [3][]core.Addr
	sizes := make([]uint64, sh.count)
	for i := range sizes {
		sizes[i] = sh.size
	}
	draw := func() {
		for k := range lists {
			lists[k] = lists[k][:0]
			for _, i := range rand.Perm(int(span / grid))[:sh.count] {
				lists[k] = append(lists[k], at[k]+core.Addr(i)*core.Addr(grid))
			}
		}
	}
	draw()
	up := abi.MemcpyBatchAttr{DstLoc: abi.MemLocation{Type: abi.MemLocationTypeDevice}}
	var zero, fail uint64
	ways := []struct {
		name string
		f    func() int64
	}{
		{"memcpy", func() int64 { return base.loop(&lists[1][0], &lists[0][0], sh.size, sh.count) }},
		{"memcpy-all", func() int64 {
			return base.loops(&lists[1][0], &lists[0][0], sh.size, sh.count,
				uint64(cores))
		}},
		{"batch", func() int64 {
			return timed(func() {
				ok(transfer.MemcpyBatchAsync(m.t, &lists[2][0], &sizes[0], &lists[0][0], &sizes[0], sh.count, &up,
					&zero, 1, &fail, s))
				ok(m.t.SynchronizeStream(s))
			})
		}},
	}
	for _, w := range ways {
		var times []int64
		for i := range *rounds + 1 {
			if sh.fresh {
				draw()
			}
			if t := w.f(); i > 0 { // the first warms up
				times = append(times, t)
			}
		}
		say(w.name+","+sh.String(), cores, times)
	}
	ok(m.t.DestroyStream(s))
}

// small64 is single copies and one of 64 MiB: they must not get slower.
func small64(m *machine, host, dev core.Addr, cores int) {
	s := m.stream()
	var small, large []int64
	for range *rounds {
		small = append(small, timed(func() {
			for range 1000 {
				ok(transfer.MemcpyAsync(m.t, dev, 4096, host, 64, abi.MemcpyHostToDevice, s))
			}
		}))
		large = append(large, timed(func() {
			ok(transfer.MemcpyAsync(m.t, dev, 64<<20, host, 64<<20, abi.MemcpyHostToDevice, s))
			ok(m.t.SynchronizeStream(s))
		}))
	}
	say("single,1000x64", cores, small)
	say("single,1x67108864", cores, large)
	ok(m.t.DestroyStream(s))
}

// compare runs other programs, which are this one built from other sources, in turn with this one, and prints the
// fastest times as ratios.
func compare(programs []string, cores []int, lib string) error {
	type key struct {
		program, cores int
		name           string
	}
	best := map[key]float64{}
	var names []string
	for range *repeats {
		for _, n := range cores {
			for p, program := range programs {
				c := exec.Command(program, "-only", "cores", "-cores", strconv.Itoa(n), "-rounds",
					strconv.Itoa(*rounds), "-baseline", lib)
				c.Stderr = os.Stderr
				out, err := c.Output()
				if err != nil {
					return fmt.Errorf("%s: %v", program, err)
				}
				for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
					var name string
					var on int
					var fastest, middle float64
					if _, err := fmt.Sscan(lines.Text(), &name, &on, &fastest, &middle); err != nil {
						return fmt.Errorf("%s: %q: %v", program, lines.Text(), err)
					}
					k := key{p, on, name}
					if old, ok := best[k]; !ok || fastest < old {
						best[k] = fastest
					}
					if !slices.Contains(names, name) {
						names = append(names, name)
					}
				}
			}
		}
	}
	fmt.Printf("%s, %d CPUs, fastest of %d x %d; us, then how many times faster\n", cpuName(), runtime.NumCPU(),
		*repeats, *rounds)
	fmt.Printf("%-22s %5s %9s %9s", "row", "cores", "memcpy", "all cores")
	for p := range programs {
		fmt.Printf(" %9s %8s %8s", fmt.Sprintf("[%d]", p), "/memcpy", "/all")
		if p > 0 {
			fmt.Printf(" %7s", "/[0]")
		}
	}
	fmt.Println()
	for p, program := range programs {
		fmt.Printf("[%d] is %s\n", p, program)
	}
	for _, name := range names {
		kind, rest, _ := strings.Cut(name, ",")
		if strings.HasPrefix(kind, "memcpy") {
			continue
		}
		for _, n := range cores {
			one, all := best[key{0, n, "memcpy," + rest}], best[key{0, n, "memcpy-all," + rest}]
			for p := range programs {
				one, all = min(one, best[key{p, n, "memcpy," + rest}]), min(all, best[key{p, n, "memcpy-all," + rest}])
			}
			fmt.Printf("%-22s %5d %9.1f %9.1f", rest, n, one/1000, all/1000)
			for p := range programs {
				t := best[key{p, n, name}]
				fmt.Printf(" %9.1f %8.2f %8.2f", t/1000, one/t, all/t)
				if p > 0 {
					fmt.Printf(" %7.2f", best[key{0, n, name}]/t)
				}
			}
			fmt.Println()
		}
	}
	return nil
}
