package pod

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ropeway/internal/testenv"
)

// measure makes copies of the first bytes of r, and says how many seconds they took. The words are the direction
// (write, read), the form (chain: one after the other; flight: all at once; batch: one copy of all; loop: waited for
// by a goroutine), bytes of each, and how many. Those of a chain and of a flight are between the same places.
func measure(r *Remote, words []string) (string, error) {
	size, _ := strconv.ParseUint(words[2], 10, 64)
	count, _ := strconv.Atoi(words[3])
	if uint64(count)*size > r.Size && (words[1] == "batch" || words[1] == "loop") || size > r.Size {
		return "", fmt.Errorf("%d bytes are too few", r.Size)
	}
	f := r.WriteStaying // as of device memory
	if words[0] == "read" {
		f = r.Read
	}
	mine := make([]byte, r.Size)
	pattern(mine, 1)
	seg := func(i int) Segment {
		if words[1] == "flight" || words[1] == "chain" {
			i = 0 // as ucx_perftest does
		}
		off := uint64(i) * size
		return Segment{addressOf(mine) + uintptr(off), off, size}
	}
	began := time.Now()
	for _, n := range []int{count/10 + 1, count} { // the first to warm up
		if words[1] == "batch" {
			n = count
		}
		began = time.Now()
		if err := perform(f, words[1], n, seg); err != nil {
			return "", err
		}
	}
	took := time.Since(began).Seconds()
	runtime.KeepAlive(mine)
	return fmt.Sprint(took), nil
}

// perform makes count copies in one form, and waits for them.
func perform(f func([]Segment, func(error)), form string, count int, seg func(int) Segment) error {
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
			f([]Segment{seg(i)}, done)
			if err := <-end; err != nil {
				return err
			}
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

// scene is where two processes are, for BenchmarkAgainstUCX.
type scene struct {
	b           *testing.B
	owner, user []string // what goes before a command there
	file        string   // of the pod
	address     string   // of the owner, for ucx_perftest
	transport   []string // its environment
	tuned       []string // what is added to it where that makes puts faster
}

// tuned gives ucx_perftest segments as long as those of links, with which its puts over TCP are several times faster.
var tuned = []string{fmt.Sprint("UCX_TCP_TX_SEG_SIZE=", segmentMost), fmt.Sprint("UCX_TCP_RX_SEG_SIZE=", segmentMost)}

// scenes are the places in which copies are compared.
var scenes = map[string]func(b *testing.B) scene{
	"veth": func(b *testing.B) scene {
		n := joined(b)
		in := func(i int) []string { return []string{"ip", "netns", "exec", n.names[i]} }
		return scene{b, in(0), in(1), podOn(b, n, ""), n.addresses[0], []string{"UCX_TLS=tcp"}, tuned}
	},
	"loopback": func(b *testing.B) scene {
		return scene{b, nil, nil, podFile(b, 2, ""), "127.0.0.1", []string{"UCX_TLS=tcp", "UCX_NET_DEVICES=lo"}, tuned}
	},
	"shared": func(b *testing.B) scene {
		near(b)
		return scene{b, nil, nil, podFile(b, 2, ""), "127.0.0.1", []string{"UCX_TLS=shm,self"}, nil}
	},
}

// perftest runs one test of ucx_perftest, and returns a column of its last line.
func (s *scene) perftest(more []string, test string, size, count, column int) float64 {
	b := s.b
	b.Helper()
	const port = "13977"
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	command := func(at []string, words ...string) *exec.Cmd {
		words = append(append(slices.Clone(at), "ucx_perftest", "-p", port), words...)
		c := exec.CommandContext(ctx, words[0], words[1:]...)
		c.Env = slices.Concat(os.Environ(), s.transport, more)
		return c
	}
	owner := command(s.owner)
	if err := owner.Start(); err != nil {
		b.Fatal(err)
	}
	defer owner.Wait()         //nolint:errcheck // it ends with the client
	defer owner.Process.Kill() //nolint:errcheck // it may have ended
	for try := 0; ; try++ {    // until the server listens
		out, err := command(s.user, s.address, "-t", test, "-s", fmt.Sprint(size), "-n", fmt.Sprint(count),
			"-w", fmt.Sprint(count/10), "-f").CombinedOutput()
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		words := strings.Fields(lines[len(lines)-1])
		if err == nil && len(words) > column {
			v, err := strconv.ParseFloat(words[column], 64)
			if err == nil && v > 0 {
				return v
			}
		}
		if try == 50 {
			b.Fatalf("ucx_perftest: %v: %s", err, out)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Columns of ucx_perftest's last line.
const (
	perfOverall   = 3 // microseconds, of all iterations
	perfBandwidth = 5 // MiB/s, likewise
)

// row is what is compared.
type row struct {
	name  string
	run   func() float64 // larger is better
	bases []string       // rows that it is compared with
	want  float64        // times those
}

const mega = 1 << 20

// rows are what is compared in a scene, in which user has imported 64 MiB: with the puts of ucx_perftest as it is, and
// with puts of as many bytes as a copy has, by a ucx_perftest that is tuned.
func (s *scene) rows(user *server, loops int) []row {
	ours := func(direction, form string, size, count int) float64 {
		var seconds float64
		fmt.Sscan(user.Does("bench %s %s %d %d", direction, form, size, count), &seconds)
		return float64(count) / seconds
	}
	plain, latency := "ucp_put_bw 1 MiB, as it is", "ucp_put_lat 64 B, round trips/s"
	rows := []row{
		{name: plain, run: func() float64 { return s.perftest(nil, "ucp_put_bw", mega, loops, perfBandwidth) }},
		{name: latency, run: func() float64 {
			return 1e6 / 2 / s.perftest(nil, "ucp_put_lat", 64, 10*loops, perfOverall)
		}},
	}
	tuned := map[int]string{}
	for _, size := range []int{1, 16, 64} {
		tuned[size] = fmt.Sprintf("ucp_put_bw %d MiB", size)
		if s.tuned != nil {
			tuned[size] += ", tuned"
		}
		rows = append(rows, row{name: tuned[size], run: func() float64 {
			return s.perftest(s.tuned, "ucp_put_bw", size*mega, max(loops/size, 4), perfBandwidth)
		}})
	}
	for _, d := range []string{"write", "read"} {
		loop := d + " 4,096 x 4 KiB, a loop"
		rows = append(rows,
			row{d + " 1 MiB, in flight", func() float64 { return ours(d, "flight", mega, loops) },
				[]string{plain, tuned[1]}, 0.95},
			row{d + " 1 MiB, one by one", func() float64 { return ours(d, "chain", mega, loops) },
				[]string{plain, tuned[1]}, 0.95},
			row{d + " 64 MiB", func() float64 { return 64 * ours(d, "chain", 64*mega, max(loops/64, 4)) },
				[]string{plain, tuned[64]}, 0.95},
			row{loop, func() float64 { return ours(d, "loop", 4096, 4096) / 256 }, nil, 0},
			row{d + " 4,096 x 4 KiB, a batch", func() float64 { return ours(d, "batch", 4096, 4096) / 256 },
				[]string{plain, tuned[16]}, 0.8},
			row{d + " 4,096 x 4 KiB, a batch", nil, []string{loop}, 5},
			row{d + " 64 B, waited for", func() float64 { return ours(d, "loop", 64, 10*loops) },
				[]string{latency}, 1 / 1.3},
		)
	}
	return rows
}

// BenchmarkAgainstUCX compares copies with ucx_perftest's puts over the same transport, in turn, as ratios: of the best
// of several rounds and, in brackets, of their medians. Bandwidths are in MiB/s. It is what "make bench-pod" runs.
// POD_ROUNDS is how often, POD_LOOPS how many copies of 1 MiB, POD_SCENES where (veth loopback shared), and POD_CPUS
// two processors that all of it is to use.
func BenchmarkAgainstUCX(b *testing.B) {
	testenv.Need(b, "ucx_perftest")
	number := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return n
		}
		return otherwise
	}
	names := strings.Fields(os.Getenv("POD_SCENES"))
	if len(names) == 0 {
		names = []string{"veth", "loopback", "shared"}
	}
	for _, name := range names {
		b.Run(name, func(b *testing.B) {
			s := scenes[name](b)
			if cpus := os.Getenv("POD_CPUS"); cpus != "" {
				pin := []string{"taskset", "-c", cpus}
				s.owner, s.user = append(s.owner, pin...), append(s.user, pin...)
			}
			s.compare(number("POD_ROUNDS", 3), number("POD_LOOPS", 300))
		})
	}
}

func (s *scene) compare(rounds, loops int) {
	b := s.b
	owner, user := launch(b, s.file, 0, s.owner...), launch(b, s.file, 1, s.user...)
	user.Does("import %s", owner.Does("export %d", 64*mega))
	rows := s.rows(user, loops)
	got := map[string][]float64{}
	for range rounds {
		for _, r := range rows {
			if r.run != nil {
				got[r.name] = append(got[r.name], r.run())
			}
		}
	}
	for _, list := range got {
		slices.Sort(list)
	}
	for _, r := range rows {
		list := got[r.name]
		line := fmt.Sprintf("%-32s %9.1f", r.name, list[rounds-1])
		if r.want > 0 {
			line += fmt.Sprintf("  asked %.2f", r.want)
		}
		for _, name := range r.bases {
			best, middle := rounds-1, rounds/2
			line += fmt.Sprintf("  %.2f (%.2f) of %s", list[best]/got[name][best], list[middle]/got[name][middle], name)
		}
		b.Log(line)
	}
	b.ReportMetric(0, "ns/op")
}
