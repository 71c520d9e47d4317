// Simulate says what links between servers cost at sizes that nobody here can measure: how long processes take to
// import from each other, and what happens when servers fail. It is a discrete-event simulation of what internal/pod
// does, with times that were measured between processes of one machine.
//
//	go run ./internal/pod/simulate
//
// docs/pod.md has its tables.
package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// measured is a link between two processes as BenchmarkImports of internal/pod measures it on a machine with 16 cores
// (docs/record/pod.md): 3.5 ms, and 7.7 ms of processor time. The rest is assumed.
var measured = Params{
	PerPod: 1023, Cores: 16, RTT: 50 * time.Microsecond, Importer: 1700 * time.Microsecond,
	Owner: 1700 * time.Microsecond, Besides: 2100 * time.Microsecond, Most: 1024,
	Timeout: 10 * time.Second, CopyEach: time.Second,
	MTBF: 30 * 24 * time.Hour, Dead: 0.5, Return: 2 * time.Minute, Seed: 1,
}

func main() { tables(os.Stdout) }

func tables(w io.Writer) {
	fmt.Fprintln(w, "One machine, each process imports from all others:")
	for _, cores := range []int{2, 16} {
		for _, n := range []int{2, 4, 8} {
			p := measured
			p.Servers, p.Imports, p.Shared, p.Cores, p.RTT = n, n, 1, cores, 25*time.Microsecond
			if cores == 2 { // another machine: 5.9 ms, and 8.5 ms of processor time
				p.Importer, p.Owner, p.Besides = 2900*time.Microsecond, 2900*time.Microsecond, 1350*time.Microsecond
			}
			r := Simulate(p)
			fmt.Fprintf(w, "  %2d cores, %d processes, %2d links: %s\n", cores, n, r.Links, ms(last(r.First)))
		}
	}
	fmt.Fprintln(w, "Imports of all at once:")
	for _, n := range []int{1000, 100000} {
		show(w, n, "from 8 others", func(p *Params) { p.Imports = 8 })
		show(w, n, "from one process of the pod", func(p *Params) { p.Hub = true })
	}
	show(w, 1000, "from all others", func(p *Params) { p.Imports = 1000 })
	fmt.Fprintln(w, "A day of failures, each imports from 8 others:")
	for _, n := range []int{1000, 100000} {
		p := measured
		p.Servers, p.Imports, p.Hours = n, 8, 24
		r := Simulate(p)
		fmt.Fprintf(w, "  %6d servers: %d failures, %d links broke; noticed after %s (half), %s (99%%), %s at most; "+
			"linked again after %s (half), %s (99%%), %s at most; %s of processor time a failure\n", n, r.Failures,
			r.Broken, ms(at(r.Noticed, 0.5)), ms(at(r.Noticed, 0.99)), ms(last(r.Noticed)), ms(at(r.Again, 0.5)),
			ms(at(r.Again, 0.99)), ms(last(r.Again)), ms(r.Spent/time.Duration(max(r.Failures, 1))))
	}
}

func show(w io.Writer, n int, what string, set func(*Params)) {
	p := measured
	p.Servers = n
	set(&p)
	r := Simulate(p)
	fmt.Fprintf(w, "  %6d servers, %-28s %7d links, at most %4d of an owner, %d refused: half ready after %s, "+
		"all after %s\n", n, what+":", r.Links, r.LinksOfOwner, r.Refused, ms(at(r.First, 0.5)), ms(last(r.First)))
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/1e6) }

// at is the value that a part of a sorted list is not above.
func at(list []time.Duration, part float64) time.Duration {
	if len(list) == 0 {
		return 0
	}
	return list[min(int(part*float64(len(list))), len(list)-1)]
}

func last(list []time.Duration) time.Duration { return at(list, 1) }
