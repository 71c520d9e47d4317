// Command bench measures the software device against glibc's memcpy in one process and prints ratios.
//
// Absolute times differ from machine to machine and from minute to minute; what is compared here runs in turn, round by
// round, and the medians are set against each other.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/dl"
	"ropeway/internal/driver/soft"
	"ropeway/internal/product"
)

// baseline is bench/baseline/baseline.c.
type baseline struct {
	one, two func(dst, src uintptr, n uint64) int64
	loop     func(dsts, srcs *uintptr, n, count uint64) int64
	loops    parallel
}

var (
	rounds = flag.Int("rounds", 15, "how often each pair is measured")
	only   = flag.String("only", "", "comma list of sections: bulk, small, batch, streams, growth; all if empty; or "+
		"cores alone")
	cc = flag.String("cc", "gcc", "C compiler for the baseline")

	library = flag.String("baseline", "", "baseline.c as a library; compiled if empty")
	cores   = flag.String("cores", "1,2,4,8,16", "with -only cores: numbers of cores to measure batches with")
	against = flag.String("against", "", "with -only cores: comma list of other builds of this program, to run in "+
		"turn with this one")
	repeats = flag.Int("repeats", 4, "with -against: how often")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	if *only == "cores" {
		return runCores()
	}
	base, err := openBaseline()
	if err != nil {
		return err
	}
	m, err := newMachine()
	if err != nil {
		return err
	}
	defer m.rt.Close()
	fmt.Printf("%s, %d CPUs, %s, %d rounds, medians\n\n", cpuName(), runtime.NumCPU(), runtime.Version(), *rounds)
	fmt.Printf("%-44s %12s %12s %8s %8s\n", "row", "ropeway", "baseline", "ratio", "asked")
	for _, s := range []struct {
		name string
		run  func(*machine, *baseline)
	}{{"bulk", bulk}, {"batch", batches}, {"streams", twoStreams}, {"small", small}, {"growth", growth}} {
		if *only == "" || slices.Contains(strings.Split(*only, ","), s.name) {
			s.run(m, base)
		}
	}
	return nil
}

// runCores is -only cores.
func runCores() error {
	list, err := coreList(*cores)
	if err != nil {
		return err
	}
	if *against != "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		return compare(append(strings.Split(*against, ","), self), list, *library)
	}
	base, err := openBaseline()
	if err != nil {
		return err
	}
	for _, n := range list {
		if err := onCores(base, n); err != nil {
			return err
		}
	}
	return nil
}

// openBaseline opens the library that -baseline names, or makes it.
func openBaseline() (*baseline, error) {
	if *library != "" {
		return bindBaseline(*library)
	}
	return compileBaseline()
}

// compileBaseline builds baseline.c, which is looked for below the sources of this program.
func compileBaseline() (*baseline, error) {
	_, here, _, _ := runtime.Caller(0)
	dir, err := os.MkdirTemp("", "ropeway-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	lib := filepath.Join(dir, "libbaseline.so")
	c := exec.Command(*cc, "-O2", "-shared", "-fPIC", "-pthread", "-o", lib, filepath.Join(filepath.Dir(here),
		"baseline", "baseline.c"))
	if out, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("cannot compile the baseline (install gcc, or name a compiler with -cc): %v\n%s", err,
			out)
	}
	return bindBaseline(lib)
}

func bindBaseline(lib string) (*baseline, error) {
	l, err := dl.Open(lib)
	if err != nil {
		return nil, err
	}
	b := new(baseline)
	for name, f := range map[string]any{"copy_one": &b.one, "copy_two": &b.two, "copy_loop": &b.loop,
		"copy_loops": &b.loops} {
		if err := l.Bind(f, name); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func cpuName() string {
	b, _ := os.ReadFile("/proc/cpuinfo")
	for _, line := range strings.Split(string(b), "\n") {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
			return strings.TrimSpace(v)
		}
	}
	return runtime.GOARCH
}

// machine is an A2 on the software device, with a thread on device 0.
type machine struct {
	rt *core.Runtime
	t  *core.Thread
}

func newMachine() (*machine, error) {
	p, err := product.Find("", "")
	if err != nil {
		return nil, err
	}
	p.Streams, p.Events = 1<<20, 1<<20 // the growth section goes past the product's limits
	d, err := soft.New(soft.Options{Devices: 1})
	if err != nil {
		return nil, err
	}
	m := &machine{rt: core.New(core.Options{Driver: d, Product: p})}
	m.t = m.rt.NewThread(1)
	ok(m.t.SetDevice(0))
	return m, nil
}

// ok ends the program if a call failed: a measurement of a failure is worth nothing.
func ok(err *core.Error) {
	if err != nil {
		panic(err)
	}
}

func (m *machine) device(n uint64) core.Addr {
	var p core.Addr
	ok(memory.Malloc(m.t, &p, n, abi.MemMallocHugeFirst))
	ok(transfer.Memset(m.t, p, n, 1, n)) // pages are there before anything is timed
	return p
}

func (m *machine) pinned(n uint64) core.Addr {
	var p core.Addr
	ok(memory.MallocHost(m.t, &p, n))
	ok(transfer.Memset(m.t, p, n, 1, n))
	return p
}

func (m *machine) stream() core.Handle {
	var s core.Handle
	ok(m.t.CreateStream(&s))
	return s
}

// median of f's results, in nanoseconds.
func median(times []int64) float64 {
	slices.Sort(times)
	return float64(times[len(times)/2])
}

// inTurn measures functions one after the other, round by round, and returns their medians.
func inTurn(fs ...func() int64) []float64 {
	times := make([][]int64, len(fs))
	for _, f := range fs {
		f() // warm up
	}
	for range *rounds {
		for i, f := range fs {
			times[i] = append(times[i], f())
		}
	}
	var m []float64
	for _, t := range times {
		m = append(m, median(t))
	}
	return m
}

// timed is how long f takes.
func timed(f func()) int64 {
	t := time.Now()
	f()
	return int64(time.Since(t))
}

// row prints a comparison of two bandwidths.
func row(name string, bytes uint64, ours, theirs float64, asked string) {
	gb := func(ns float64) string { return fmt.Sprintf("%.1f GB/s", float64(bytes)/ns) }
	fmt.Printf("%-44s %12s %12s %8.2f %8s\n", name, gb(ours), gb(theirs), theirs/ours, asked)
}
