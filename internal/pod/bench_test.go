package pod

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ropeway/internal/testenv"
)

// measure makes copies of the first bytes of r, and says how many seconds they took. The words are the direction
// (write, read), the form (chain: one after the other; flight: all at once; batch: one copy of all; loop: waited for
// by a goroutine), bytes of each, and how many.
func measure(r *Remote, words []string) (string, error) {
	size, _ := strconv.ParseUint(words[2], 10, 64)
	count, _ := strconv.Atoi(words[3])
	if uint64(count)*size > r.Size && words[1] == "batch" || size > r.Size {
		return "", fmt.Errorf("%d bytes are too few", r.Size)
	}
	f := r.Write
	if words[0] == "read" {
		f = r.Read
	}
	mine := make([]byte, r.Size)
	pattern(mine, 1)
	seg := func(i int) Segment {
		off := uint64(i) * size % (r.Size - size + 1) &^ 63
		return Segment{addressOf(mine) + uintptr(off), off, size}
	}
	end := make(chan error, count)
	done := func(err error) { end <- err }
	began := time.Now()
	switch words[1] {
	case "batch":
		segs := make([]Segment, count)
		for i := range segs {
			segs[i] = seg(i)
		}
		began = time.Now()
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
				return "", err
			}
		}
		count = 0
	}
	for range count {
		if err := <-end; err != nil {
			return "", err
		}
	}
	return fmt.Sprint(time.Since(began).Seconds()), nil
}

// perftest runs one test of ucx_perftest between two places, and returns a column of its last line.
func perftest(b *testing.B, from, to []string, address, test string, size, count, column int) float64 {
	b.Helper()
	const port = "13977"
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	command := func(words ...string) *exec.Cmd { return exec.CommandContext(ctx, words[0], words[1:]...) }
	s := command(append(slices.Clone(to), "ucx_perftest", "-p", port)...)
	if err := s.Start(); err != nil {
		b.Fatal(err)
	}
	defer s.Wait()          //nolint:errcheck // it ends with the client
	defer s.Process.Kill()  //nolint:errcheck // it may have ended
	for try := 0; ; try++ { // until the server listens
		c := command(append(slices.Clone(from), "ucx_perftest", address, "-p", port, "-t", test, "-s", fmt.Sprint(size),
			"-n", fmt.Sprint(count), "-w", "10", "-f")...)
		out, err := c.CombinedOutput()
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
		time.Sleep(50 * time.Millisecond)
	}
}

// BenchmarkAgainstUCX compares copies with ucx_perftest's puts over the same transport: in turn, best of several, as
// ratios. It is what "make bench-pod" runs. POD_ROUNDS is how often.
func BenchmarkAgainstUCX(b *testing.B) {
	testenv.Need(b, "ucx_perftest")
	rounds, _ := strconv.Atoi(os.Getenv("POD_ROUNDS"))
	rounds = max(rounds, 3)
	for _, place := range []string{"veth", "loopback"} {
		b.Run(place, func(b *testing.B) { compare(b, place, rounds) })
	}
}

func compare(b *testing.B, place string, rounds int) {
	var owner, user *server
	var from, to []string
	address := "127.0.0.1"
	b.Setenv("UCX_TLS", "tcp")
	if place == "veth" {
		n := joined(b)
		file := podOn(b, n, "")
		owner, user = n.in(b, file, 0), n.in(b, file, 1)
		from, to = []string{"ip", "netns", "exec", n.names[1]}, []string{"ip", "netns", "exec", n.names[0]}
		address = n.addresses[0]
	} else {
		file := podFile(b, 2, "")
		owner, user = launch(b, file, 0), launch(b, file, 1)
	}
	const mega = 1 << 20
	user.Does("import %s", owner.Does("export %d", 64*mega))
	ours := func(direction, form string, size, count int) float64 {
		var s float64
		fmt.Sscan(user.Does("bench %s %s %d %d", direction, form, size, count), &s)
		return s
	}
	type row struct {
		name string
		run  func() float64 // larger is better
		base string
		want float64
	}
	rows := []row{
		{"ucp_put_bw 1 MiB", func() float64 { return perftest(b, from, to, address, "ucp_put_bw", mega, 300, 5) }, "",
			0},
		{"ucp_put_lat 64 B, its round trips", func() float64 {
			return 1e6 / 2 / perftest(b, from, to, address,
				"ucp_put_lat", 64, 3000, 2)
		}, "", 0},
	}
	for _, d := range []string{"write", "read"} {
		rows = append(rows,
			row{d + " 1 MiB, one after the other", func() float64 { return 300 / ours(d, "chain", mega, 300) },
				"ucp_put_bw 1 MiB", 0.95},
			row{d + " 1 MiB, in flight", func() float64 { return 300 / ours(d, "flight", mega, 300) },
				"ucp_put_bw 1 MiB", 0.95},
			row{d + " 64 MiB", func() float64 { return 256 / ours(d, "chain", 64*mega, 4) }, "ucp_put_bw 1 MiB", 0.95},
			row{d + " 4096 x 4 KiB, a batch", func() float64 { return 16 / ours(d, "batch", 4096, 4096) },
				"ucp_put_bw 1 MiB", 0.8},
			row{d + " 4096 x 4 KiB, a loop", func() float64 { return 16 / ours(d, "loop", 4096, 4096) }, "", 0},
			row{d + " 64 B, waited for", func() float64 { return 3000 / ours(d, "loop", 64, 3000) },
				"ucp_put_lat 64 B, its round trips", 1 / 1.3},
		)
	}
	best := map[string]float64{}
	for range rounds {
		for _, r := range rows {
			best[r.name] = max(best[r.name], r.run())
		}
	}
	for _, r := range rows {
		line := fmt.Sprintf("%-36s %10.1f", r.name, best[r.name])
		if r.base != "" {
			ratio := best[r.name] / best[r.base]
			line += fmt.Sprintf("   %.2f of %s (asked: %.2f)", ratio, r.base, r.want)
		}
		b.Log(line)
	}
	for _, d := range []string{"write", "read"} {
		b.Logf("%s: a batch is %.1f times a loop (asked: 5)", d,
			best[d+" 4096 x 4 KiB, a batch"]/best[d+" 4096 x 4 KiB, a loop"])
	}
	b.ReportMetric(0, "ns/op")
}
