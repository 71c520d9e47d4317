// Command driver measures the cuda driver, without the API around it. It reads requests and replies to each with times;
// table.py in the folder above asks it and two other programs in turn:
//
//	WHAT WAY SEGMENTS BYTES ODD ROUNDS
//
// WHAT is loop (one call for each segment), batch (one for all), submit (the time of one call, nobody waits for the
// copies), ordinary (one copy of ordinary memory, used before) or fresh (never used before). WAY is h2d, d2h or d2d.
// With ODD 1 the segments have any alignment and up to 15 bytes less. The reply is a time in microseconds for each
// round, from the first call to the end of the copies, or "error" and why. Every round is verified: the destination is
// overwritten before it, and compared after it, with 16 bytes on either side of each segment.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda"
	"ropeway/internal/driver/soft"
)

func main() {
	name := flag.String("driver", "cuda", "cuda, or soft to try this program where there is no GPU")
	room := flag.Uint64("room", 1100, "MiB of memory on either side")
	flag.Parse()
	if err := serve(*name, *room<<20); err != nil {
		fmt.Fprintln(os.Stderr, "driver:", err)
		os.Exit(1)
	}
}

func serve(name string, room uint64) error {
	runtime.LockOSThread() // as the other programs have one thread: another core would have nothing in its cache
	d, err := open(name, room)
	if err != nil {
		return err
	}
	g, err := newGround(d, room)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var r request
		if _, err := fmt.Sscan(in.Text(), &r.what, &r.way, &r.segments, &r.bytes, &r.odd, &r.rounds); err != nil {
			return fmt.Errorf("%q: %w", in.Text(), err)
		}
		times, err := g.serve(&r)
		if err != nil {
			fmt.Println("error", err)
			continue
		}
		var b strings.Builder
		for _, t := range times {
			fmt.Fprintf(&b, " %.3f", float64(t.Nanoseconds())/1e3)
		}
		fmt.Println(strings.TrimSpace(b.String()))
	}
	return in.Err()
}

func open(name string, room uint64) (driver.Driver, error) {
	if name == "soft" {
		return soft.New(soft.Options{Devices: 1, Memory: 3*room + flush})
	}
	return cuda.New(cuda.Options{Devices: 1})
}

type request struct {
	what, way       string
	segments, bytes int
	odd             int
	rounds          int
}

// serve does what is asked, once more to warm up.
func (g *ground) serve(r *request) ([]time.Duration, error) {
	if r.what == "submit" {
		return g.submit(r)
	}
	list, err := g.segments(r)
	if err != nil {
		return nil, err
	}
	var times []time.Duration
	for i := range r.rounds + 1 {
		took, err := g.round(r, list)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			times = append(times, took)
		}
	}
	return times, nil
}

// submit is how long a call takes, on average of many.
func (g *ground) submit(r *request) ([]time.Duration, error) {
	const calls = 256
	dst, src := g.ends(r.way)
	var times []time.Duration
	for range r.rounds + 1 {
		if err := g.rouse(); err != nil {
			return nil, err
		}
		start := time.Now()
		for range calls {
			g.q.Copy(dst, src, uint64(r.bytes), driver.Tag{})
		}
		times = append(times, time.Since(start)/calls)
		g.q.Wait(0, nil)
	}
	return times[1:], g.failed()
}

// round is one measured run. There is another before it: comparing has put other things into the host's caches.
func (g *ground) round(r *request, list []driver.Segment) (time.Duration, error) {
	used := g.used(r.way, list)
	if err := g.rouse(); err != nil {
		return 0, err
	}
	if _, err := g.run(r, list); err != nil {
		return 0, err
	}
	if err := g.poison(r, used); err != nil {
		return 0, err
	}
	took, err := g.run(r, list)
	if err == nil {
		err = g.compare(r, list, used)
	}
	return took, err
}

// run does once what is asked.
func (g *ground) run(r *request, list []driver.Segment) (time.Duration, error) {
	var took time.Duration
	switch r.what {
	case "loop":
		start := time.Now()
		for i := range list {
			g.q.Copy(list[i].Dst, list[i].Src, list[i].N, driver.Tag{})
		}
		g.q.Wait(0, nil)
		took = time.Since(start)
	case "batch":
		segs := driver.NewSegments()
		for _, s := range list {
			segs.Add(s.Dst, s.Src, s.N)
		}
		start := time.Now()
		g.q.Submit(driver.Op{Kind: driver.OpBatch, Segs: segs})
		g.q.Wait(0, nil)
		took = time.Since(start)
	case "ordinary", "fresh":
		var err error
		if took, err = g.ordinary(r, list[0]); err != nil {
			return 0, err
		}
	default:
		return 0, fmt.Errorf("no such request: %s", r.what)
	}
	return took, g.failed()
}
