package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
)

// bulk is large asynchronous copies, submitted and waited for.
func bulk(m *machine, base *baseline) {
	for _, n := range []uint64{256 << 20, 1 << 30} {
		up, down, a, b := m.pinned(n), m.pinned(n), m.device(n), m.device(n)
		s := m.stream()
		dir := func(dst, src core.Addr, kind abi.MemcpyKind) func() int64 {
			return func() int64 {
				return timed(func() {
					ok(transfer.MemcpyAsync(m.t, dst, n, src, n, kind, s))
					ok(m.t.SynchronizeStream(s))
				})
			}
		}
		t := inTurn(
			func() int64 { return base.one(down, up, n) },
			func() int64 { return base.two(down, up, n) },
			dir(a, up, abi.MemcpyHostToDevice),
			dir(down, a, abi.MemcpyDeviceToHost),
			dir(b, a, abi.MemcpyDeviceToDevice))
		for i, name := range []string{"H2D", "D2H", "D2D"} {
			row(fmt.Sprintf("%d MiB %s / memcpy, 1 thread", n>>20, name), n, t[2+i], t[0], "1.9")
			row(fmt.Sprintf("%d MiB %s / memcpy, 2 threads", n>>20, name), n, t[2+i], t[1], "1.0")
		}
		ok(m.t.DestroyStream(s))
		for _, p := range []core.Addr{a, b} {
			ok(memory.Free(m.t, p))
		}
		for _, p := range []core.Addr{up, down} {
			ok(memory.FreeHost(m.t, p))
		}
	}
}

// batches is 4096 scattered segments in one call: drawn anew each time from 512 MiB, so that they are not in the cache,
// and the same again and again, so that (the small ones) they are.
func batches(m *machine, base *baseline) {
	const count, span = 4096, 512 << 20
	host, other, dev := m.pinned(span), m.pinned(span), m.device(span)
	s := m.stream()
	draw := func(list []core.Addr, base core.Addr) {
		for i, at := range rand.Perm(span / 4096)[:count] {
			list[i] = base + core.Addr(at)*4096
		}
	}
	up := []abi.MemcpyBatchAttr{{DstLoc: abi.MemLocation{Type: abi.MemLocationTypeDevice}}}
	down := []abi.MemcpyBatchAttr{{SrcLoc: abi.MemLocation{Type: abi.MemLocationTypeDevice}}}
	hosts, others, devs := make([]core.Addr, count), make([]core.Addr, count), make([]core.Addr, count)
	sizes := make([]uint64, count)
	var zero, at uint64
	for _, n := range []uint64{4096, 256} {
		for i := range sizes {
			sizes[i] = n
		}
		for _, fresh := range []bool{true, false} {
			draw(hosts, host)
			draw(others, other)
			draw(devs, dev)
			call := func(to, from []core.Addr, attr []abi.MemcpyBatchAttr) func() int64 {
				return func() int64 {
					if fresh {
						draw(hosts, host)
						draw(devs, dev)
					}
					return timed(func() {
						ok(transfer.MemcpyBatchAsync(m.t, &to[0], &sizes[0], &from[0], &sizes[0], count, &attr[0],
							&zero, 1, &at, s))
						ok(m.t.SynchronizeStream(s))
					})
				}
			}
			t := inTurn(
				func() int64 {
					if fresh {
						draw(hosts, host)
						draw(others, other)
					}
					return base.loop(&others[0], &hosts[0], n, count)
				},
				call(devs, hosts, up), call(hosts, devs, down))
			asked, name := "2.0", "cold"
			if n == 256 {
				asked = "1.5"
			}
			if !fresh {
				name = "again"
			}
			row(fmt.Sprintf("batch 4096 x %d B, %s, H2D / memcpy loop", n, name), n*count, t[1], t[0], asked)
			row(fmt.Sprintf("batch 4096 x %d B, %s, D2H / memcpy loop", n, name), n*count, t[2], t[0], asked)
		}
	}
	ok(m.t.DestroyStream(s))
	ok(memory.Free(m.t, dev))
	ok(memory.FreeHost(m.t, host))
	ok(memory.FreeHost(m.t, other))
}

// twoStreams is 64 MiB on each of two streams at once, against both one after the other.
func twoStreams(m *machine, base *baseline) {
	const n = 64 << 20
	var host, dev [2]core.Addr
	var s [2]core.Handle
	for i := range s {
		host[i], dev[i], s[i] = m.pinned(n), m.device(n), m.stream()
	}
	t := inTurn(
		func() int64 { return base.one(host[0], host[1], n) + base.one(host[1], host[0], n) },
		func() int64 {
			return timed(func() {
				for i := range s {
					ok(transfer.MemcpyAsync(m.t, dev[i], n, host[i], n, abi.MemcpyHostToDevice, s[i]))
				}
				for i := range s {
					ok(m.t.SynchronizeStream(s[i]))
				}
			})
		})
	row("two streams x 64 MiB / memcpy, 1 thread", 2*n, t[1], t[0], "1.8")
	for i := range s {
		ok(m.t.DestroyStream(s[i]))
		ok(memory.Free(m.t, dev[i]))
		ok(memory.FreeHost(m.t, host[i]))
	}
}

// nanos prints a cost per call.
func nanos(name string, ns float64, note string) {
	fmt.Printf("%-44s %9.0f ns %12s\n", name, ns, note)
}

// perCall is the median cost of f, in nanoseconds, of several runs of many calls.
func perCall(calls int, f func()) float64 {
	var times []int64
	for range *rounds {
		times = append(times, timed(func() {
			for range calls {
				f()
			}
		}))
	}
	return median(times) / float64(calls)
}

// allocs is how often f allocates.
func allocs(f func()) float64 {
	const calls = 1000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		f()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / calls
}

// small is what a copy of 64 bytes costs.
func small(m *machine, _ *baseline) {
	host, dev, s := m.pinned(4096), m.device(4096), m.stream()
	submit := func() { ok(transfer.MemcpyAsync(m.t, dev, 4096, host, 64, abi.MemcpyHostToDevice, s)) }
	nanos("64 B submit, in Go", perCall(20000, submit), fmt.Sprintf("%.0f allocs", allocs(submit)))
	nanos("64 B submit + synchronise, in Go", perCall(20000, func() { submit(); ok(m.t.SynchronizeStream(s)) }), "")
	nanos("stream create + destroy", perCall(2000, func() { h := m.stream(); ok(m.t.DestroyStream(h)) }), "")
	ok(m.t.DestroyStream(s))
	ok(memory.Free(m.t, dev))
	ok(memory.FreeHost(m.t, host))
}

// growth is what a copy costs as queue, streams and live allocations grow. Of the streams and allocations, 64 drawn
// at random are used in turn; the rest are there. A second line uses all of them in turn: then the cost is that of
// memory that is in no cache, theirs and the copy's own.
func growth(m *machine, _ *baseline) {
	sizes := []int{1, 1000, 100_000}
	var few, all []float64
	show := func(name string, costs []float64, asked string) {
		fmt.Printf("%-44s", name)
		for i, c := range costs {
			fmt.Printf(" %d: %.0f ns", sizes[i], c)
		}
		fmt.Printf("   (%.2f x%s)\n", costs[len(costs)-1]/costs[0], asked)
	}
	host, dev := m.pinned(4096), m.device(4096)
	for _, depth := range sizes {
		few = append(few, queueCost(m, host, dev, depth))
	}
	show("64 B submit after a queue of", few, "; asked 2.0")

	few = nil
	for _, n := range sizes {
		list := make([]core.Handle, n)
		for i := range list {
			list[i] = m.stream()
		}
		f, a := inTurns(list, func(s core.Handle) {
			ok(transfer.MemcpyAsync(m.t, dev, 4096, host, 64, abi.MemcpyHostToDevice, s))
			ok(m.t.SynchronizeStream(s))
		})
		few, all = append(few, f), append(all, a)
		for _, s := range list {
			ok(m.t.DestroyStream(s))
		}
	}
	show("64 B copy + synchronise, streams", few, "; asked 2.0")
	show("  all of them in turn", all, "")

	few, all = nil, nil
	s := m.stream()
	for _, n := range sizes {
		list := make([]core.Addr, n)
		for i := range list {
			ok(memory.Malloc(m.t, &list[i], 512, abi.MemMallocHugeFirst))
		}
		f, a := inTurns(list, func(p core.Addr) {
			ok(transfer.MemcpyAsync(m.t, p, 512, host, 64, abi.MemcpyHostToDevice, s))
		})
		few, all = append(few, f), append(all, a)
		for _, p := range list {
			ok(memory.Free(m.t, p))
		}
	}
	show("64 B copy, live allocations", few, "; asked 2.0")
	show("  all of them in turn", all, "")
	ok(m.t.DestroyStream(s))
}

// inTurns is what f costs with 64 elements of a list in turn, drawn at random, and with all of them.
func inTurns[T any](list []T, f func(T)) (few, all float64) {
	n, i := len(list), 0
	some := rand.Perm(n)[:min(n, 64)]
	few = perCall(20000, func() {
		f(list[some[i%len(some)]])
		i++
	})
	i = 0
	all = perCall(20000, func() {
		f(list[i%n])
		i += 7919
	})
	return few, all
}

// queueCost is what one more submission costs when depth tasks are queued already, and nothing runs.
func queueCost(m *machine, host, dev core.Addr, depth int) float64 {
	const calls = 2000
	var times []int64
	for range *rounds {
		s := m.stream()
		gate := make(chan struct{})
		ok(m.t.LaunchHostFunc(s, func(core.Addr) { <-gate }, 0))
		for range depth {
			ok(transfer.MemcpyAsync(m.t, dev, 4096, host, 64, abi.MemcpyHostToDevice, s))
		}
		times = append(times, timed(func() {
			for range calls {
				ok(transfer.MemcpyAsync(m.t, dev, 4096, host, 64, abi.MemcpyHostToDevice, s))
			}
		}))
		close(gate)
		ok(m.t.SynchronizeStream(s))
		ok(m.t.DestroyStream(s))
	}
	return median(times) / calls
}
