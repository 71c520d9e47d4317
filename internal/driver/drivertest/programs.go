package drivertest

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"ropeway/internal/driver"
	"ropeway/internal/graph"
	"ropeway/internal/testenv"
)

// soleOf returns the driver's Sole, or a function that returns false.
func soleOf(d driver.Driver) func(uintptr) bool {
	if sole := d.Caps().Sole; sole != nil {
		return sole
	}
	return func(uintptr) bool { return false }
}

// site is memory of each kind, with equal content on each site.
type site struct{ regions []memory }

const regionBytes = 1 << 20

func (e *env) site() *site {
	host, alias := e.registered(regionBytes)
	s := &site{[]memory{e.device(regionBytes), e.device(regionBytes), e.pinned(regionBytes), host, alias}}
	for i, m := range s.regions[:4] { // the last is the fourth at another address
		e.write(m.addr, noise(uint64(i), regionBytes))
	}
	return s
}

// tasks returns random work on a site, the same for the same random numbers. small makes copies overlap often.
func (s *site) tasks(r *rand.Rand, count, most, room int, ran *atomic.Int32) []graph.Task {
	at := func(n int) uintptr { return s.regions[r.IntN(len(s.regions))].addr + uintptr(r.IntN(room-n)) }
	list := make([]graph.Task, count)
	for i := range list {
		n := 1 + r.IntN(most)
		op := driver.Op{Kind: driver.OpCopy, N: uint64(n), Tag: tag(i)}
		switch kind := r.IntN(40); kind {
		case 0:
			op = driver.Op{Kind: driver.OpFill, Width: 1, Value: uint32(r.IntN(256)), N: uint64(n), Tag: tag(i)}
		case 1:
			w := 1 + r.IntN(min(most, room/40))
			op.Kind, op.N, op.Height, op.DstPitch, op.SrcPitch = driver.OpCopy2D, uint64(w), uint64(1+r.IntN(12)),
				uint64(w+r.IntN(20)), uint64(w+r.IntN(20))
			n = 12 * (w + 20)
		case 2:
			op = driver.Op{Kind: driver.OpFunc, Fn: func() { ran.Add(1) }, Tag: tag(i)}
		case 3:
			op = driver.Op{Kind: driver.OpCompute, Work: func() error { ran.Add(1); return nil }, Tag: tag(i)}
		}
		if op.Kind <= driver.OpFill {
			op.Dst, op.Src = at(n), at(n)
		}
		list[i] = graph.Task{Op: &op}
	}
	return list
}

// testProgram runs random work as a program on one site, and as single operations on another.
func testProgram(e *env) {
	one, other := e.site(), e.site()
	sole := soleOf(e.d)
	for i, shape := range []struct{ count, most, room int }{
		{0, 1, 100}, {1, 100, 1000}, {2, 64, 200}, {40, 100, 4000}, {300, 200, 20_000}, {1000, 60, regionBytes}, {30,
			200_000, regionBytes}, {400, 5000, regionBytes},
	} {
		if testing.Short() && shape.count > 500 {
			continue
		}
		var ran [2]atomic.Int32
		tasks := one.tasks(rand.New(rand.NewPCG(uint64(i), 7)), shape.count, shape.most, shape.room, &ran[0])
		again := other.tasks(rand.New(rand.NewPCG(uint64(i), 7)), shape.count, shape.most, shape.room, &ran[1])
		q, p := e.queue(), e.queue()
		g := graph.New(again, sole)
		for round := range 3 {
			for j := range tasks {
				q.Submit(*tasks[j].Op)
			}
			q.finish()
			var done atomic.Int32
			op := driver.Op{Kind: driver.OpProgram, Program: g.Program(), Tag: tag(round), Done: func() { done.Add(1) }}
			if round == 1 {
				release := p.block()
				p.Submit(op)
				release()
			} else {
				p.Submit(op)
			}
			p.finish()
			if done.Load() != 1 || ran[0].Load() != ran[1].Load() {
				e.Fatalf("%d tasks: done %d times; %d functions ran, and %d of the tasks", shape.count, done.Load(),
					ran[1].Load(), ran[0].Load())
			}
			for k := range one.regions {
				want := e.read(one.regions[k].addr, regionBytes)
				e.holds(fmt.Sprintf("%d tasks of up to %d bytes, run %d, region %d", shape.count, shape.most, round, k),
					other.regions[k].addr, want)
			}
		}
		q.Close()
		p.Close()
	}
}

// testProgramFails: a step with unmapped memory fails the program, whose error names the step, and no later step runs.
func testProgramFails(e *env) {
	from, to, gone := e.pinned(1000), e.device(1000), e.device(1000)
	e.write(from.addr, noise(1, 1000))
	e.write(to.addr, painted(1000, canary))
	g := graph.New([]graph.Task{
		{Op: &driver.Op{Kind: driver.OpCopy, Dst: gone.addr, Src: from.addr, N: 100}},
		{Op: &driver.Op{Kind: driver.OpCopy, Dst: to.addr, Src: gone.addr, N: 100}},
	}, nil)
	q := e.queue()
	testenv.OK(e, e.dev.Free(gone.addr))
	q.Submit(driver.Op{Kind: driver.OpProgram, Program: g.Program(), Tag: tag(7)})
	q.sync()
	f := q.failures()
	if len(f) != 1 || f[0].tag != tag(7) {
		e.Fatalf("failures %v, want one of the program", f)
	}
	e.refused("a program with memory that is gone", f[0].err, driver.ErrFault)
	e.holds("what comes after the failure", to.addr, painted(1000, canary))
	q.Copy(to.addr, from.addr, 1000, tag(8))
	q.finish()
	e.holds("a copy after a program that failed", to.addr, noise(1, 1000))
}

// testProgramDropped: a dropped program ends, and its queue continues.
func testProgramDropped(e *env) {
	const n = 4 << 20
	a, b := e.device(n), e.device(n)
	var tasks []graph.Task
	for i := range 200 {
		dst, src := a.addr, b.addr
		if i%2 == 0 {
			dst, src = src, dst
		}
		tasks = append(tasks, graph.Task{Op: &driver.Op{Kind: driver.OpCopy, Dst: dst, Src: src, N: n}})
	}
	g := graph.New(tasks, nil)
	q := e.queue()
	for range 5 {
		var dones atomic.Int32
		for range 3 {
			q.Submit(driver.Op{Kind: driver.OpProgram, Program: g.Program(), Done: func() { dones.Add(1) }})
		}
		q.Drop()
		q.finish()
		if dones.Load() != 3 {
			e.Fatalf("%d of 3 programs are over", dones.Load())
		}
	}
	e.write(a.addr, noise(1, n))
	q.Copy(b.addr, a.addr, n, tag(1))
	q.finish()
	e.holds("a copy after Drop", b.addr, noise(1, n))
}

// testProgramAllocs: running a program does not allocate.
func testProgramAllocs(e *env) {
	if testenv.Race {
		e.Skip("the race detector makes sync.Pool allocate")
	}
	host, dev := e.pinned(1<<20), e.device(1<<20)
	for _, n := range []uint64{64, 4096} {
		var tasks []graph.Task
		for i := range uintptr(128) {
			tasks = append(tasks, graph.Task{Op: &driver.Op{Kind: driver.OpCopy, Dst: dev.addr + 128*64 + i*4096,
				Src: host.addr + i*4096, N: n}})
		}
		for i := range uintptr(16) { // and a chain
			tasks = append(tasks, graph.Task{Op: &driver.Op{Kind: driver.OpCopy, Dst: dev.addr + (i+1)*64,
				Src: dev.addr + i*64, N: 64}})
		}
		g := graph.New(tasks, nil)
		q := e.queue()
		q.Submit(driver.Op{Kind: driver.OpProgram, Program: g.Program()})
		q.finish()
		if got := testing.AllocsPerRun(50, func() {
			q.Submit(driver.Op{Kind: driver.OpProgram,
				Program: g.Program()})
		}); got > 0 {
			e.Errorf("running a program of %d bytes a copy allocates %v times", n, got)
		}
		q.finish()
	}
}

// testSole: Sole is false for memory with two addresses.
func testSole(e *env) {
	sole := soleOf(e.d)
	host, alias := e.registered(4096)
	for _, m := range []memory{host, alias} {
		if sole(m.addr) {
			e.Errorf("registered memory at %#x has two addresses, and counts as having one", m.addr)
		}
	}
	if sole(e.mapped(4096).addr) {
		e.Error("memory that the driver does not know counts as having one address")
	}
	if e.d.Caps().Sole != nil && !sole(e.device(4096).addr) {
		e.Error("device memory has one address, and does not count as such")
	}
}
