package cuda

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/imitation"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/testenv"
)

// counts returns the numbers of graph nodes launched and changed, and of graphs.
func (f *fake) counts() (launched, changed, graphs int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.launched, f.changed, len(f.graphs)
}

// numbers fills n words of device 0 with 1, and returns their address.
func (b *bed) numbers(n int) uintptr {
	at := b.alloc(0, uint64(4*n))
	var raw []byte
	for range n {
		raw = binary.LittleEndian.AppendUint32(raw, 1)
	}
	b.write(at, raw)
	return at
}

// word returns a word of device memory.
func (b *bed) word(at uintptr) uint32 { return binary.LittleEndian.Uint32(b.read(at, 4)) }

// TestLaunchAgain proves that repeated kernels on a stream have their usual result, with other arguments, shapes and
// kernels in between, with a libcuda that has graphs and with one that has none.
func TestLaunchAgain(t *testing.T) {
	for _, none := range []bool{false, true} {
		t.Run(fmt.Sprint("no graphs ", none), func(t *testing.T) {
			f := newFake(1)
			f.known, f.noGraphs = true, none
			b := newBedOn(t, f, Options{})
			b.again()
			launched, _, graphs := f.counts()
			if none != (launched == 0) || none != (graphs == 0) {
				t.Errorf("%d kernels were launched by %d graphs", launched, graphs)
			}
		})
	}
}

func (b *bed) again() {
	m, q := b.load(0), b.queue(0)
	defer q.Close()
	two, other := b.numbers(2), b.numbers(256)
	var owner returns
	count := 0
	launch := func(name string, args ...uintptr) {
		l := b.launchOf(m, name, 1, args...)
		l.Over = &owner
		count++
		q.Submit(launchOp(l, uint32(count)))
	}
	want := uint32(1)
	for i := range repeatAfter + 40 {
		launch("times", two, 1)
		want *= 3
		if i%4 == 3 {
			launch("times", other, uintptr(i/4%2+1))
			launch("nothing")
		}
		if i%8 == 7 {
			launch("place", other)
			b.sync(q)
		}
		if i == repeatAfter+20 {
			b.write(two+4, []byte{9, 0, 0, 0})
		}
	}
	b.sync(q)
	b.quiet()
	if got := b.word(two); got != want {
		b.Errorf("a word is %d, want %d", got, want)
	}
	if got := b.word(two + 4); got != 9 {
		b.Errorf("the word after it is %d, and no launch has it", got)
	}
	if owner.n != count {
		b.Errorf("%d of %d launches were returned", owner.n, count)
	}
}

// TestLaunchAgainSets proves that the arguments of a graph are set only if they have changed.
func TestLaunchAgainSets(t *testing.T) {
	b := newBed(t, 1)
	m, q := b.load(0), b.queue(0)
	defer q.Close()
	at := b.numbers(64)
	for range 2 * repeatAfter {
		q.Submit(launchOp(b.launchOf(m, "times", 1, at, 1), 1))
	}
	b.sync(q)
	if launched, changed, graphs := b.f.counts(); launched != repeatAfter+1 || changed != 0 || graphs != 1 {
		t.Errorf("%d launches, %d changes, %d graphs, want %d, 0 and 1", launched, changed, graphs, repeatAfter+1)
	}
	for i := range 8 {
		l := b.launchOf(m, "times", 1, at, uintptr(i/2+1))
		l.Blocks = uint32(i/4 + 1)
		q.Submit(launchOp(l, 1))
	}
	b.sync(q)
	if _, changed, _ := b.f.counts(); changed != 3 {
		t.Errorf("%d changes, want one for each new argument or shape: 3", changed)
	}
	b.quiet()
}

// TestLaunchAgainAllocates proves that a launch by a graph does not allocate for its arguments.
func TestLaunchAgainAllocates(t *testing.T) {
	b := newBed(t, 1)
	l := b.launchOf(b.load(0), "times", 1, b.dev[0], 4)
	s := libcuda.Shape{Args: l.Args, Bytes: 16}
	e := repeat{f: new(function)}
	e.set(&s)
	if n := testing.AllocsPerRun(100, func() {
		if !e.does(&s) {
			t.Error("the arguments are taken for others")
		}
		e.set(&s)
	}); n != 0 {
		t.Errorf("a launch allocates %v times", n)
	}
}

// TestGraphsGo proves that graphs are destroyed before the module of their kernels, and with their device; that a
// reused stream keeps its kernels; and that the number of kernels kept is limited.
func TestGraphsGo(t *testing.T) {
	b := newBed(t, 1)
	m, other, q := b.load(0), b.load(0), b.queue(0)
	for range 2 * repeatAfter {
		q.Submit(launchOp(b.launchOf(m, "nothing", 1), 1))
		q.Submit(launchOp(b.launchOf(other, "nothing", 1), 1))
	}
	b.sync(q)
	q.Close()
	if _, _, graphs := b.f.counts(); graphs != 2 {
		t.Fatalf("%d graphs, want one for each kernel", graphs)
	}
	m.Unload()
	b.d.gpus[0].runners.Wait()
	if _, _, graphs := b.f.counts(); graphs != 1 {
		t.Errorf("%d graphs, want that of the module that is left", graphs)
	}
	q = b.queue(0)
	launched, _, _ := b.f.counts()
	q.Submit(launchOp(b.launchOf(other, "nothing", 1), 1))
	q.Submit(launchOp(b.launchOf(other, "nothing", 1), 1))
	b.sync(q)
	if now, _, _ := b.f.counts(); now != launched+2 {
		t.Errorf("%d launches by graphs, want both: the stream has a graph of the kernel", now-launched)
	}
	q.Close()
	var p repeats
	for range 2 * mostRepeats {
		if p.find(new(function)) == nil {
			t.Fatal("a kernel without a graph keeps others out")
		}
	}
	if len(p.list) != mostRepeats {
		t.Errorf("%d kernels are kept, want %d", len(p.list), mostRepeats)
	}
	for i := range p.list {
		p.list[i].x = new(executable)
	}
	if p.find(new(function)) != nil {
		t.Error("there is room for more kernels than there is room for")
	}
	p.list[3].x.gone.Store(true)
	if p.find(new(function)) == nil {
		t.Error("the place of a kernel that has gone is not free")
	}
	b.quiet()
}

// program returns a series of a copy, kernels and fills, which compute words from one of the host: (h*3+7777)... and
// back.
func (b *bed) program(m driver.Module, dev, host uintptr) *driver.Program {
	launch := func(name string, args ...uintptr) driver.Step {
		return driver.Step{Op: &driver.Op{Kind: driver.OpLaunch, Launch: b.launchOf(m, name, 1, args...)}}
	}
	copies := func(ordered bool, list ...driver.Segment) driver.Step {
		s := driver.Step{Ordered: ordered}
		for _, c := range list {
			s.Segs.Add(c.Dst, c.Src, c.N)
		}
		return s
	}
	p := &driver.Program{Steps: []driver.Step{
		copies(false, driver.Segment{Dst: dev, Src: host, N: 4}, driver.Segment{Dst: dev + 100, Src: host, N: 4}),
		launch("times", dev, 1),
		launch("times", dev+100, 1),
		{Op: &driver.Op{Kind: driver.OpFill, Dst: dev + 200, Width: 4, Value: 10, N: 1}},
		{Op: &driver.Op{Kind: driver.OpFunc, Fn: func() {}}}, // the host's
		launch("sum", dev, dev+200, dev+300, 1),
		copies(true, driver.Segment{Dst: dev + 400, Src: dev + 300, N: 4}, driver.Segment{Dst: host + 8,
			Src: dev + 400, N: 4}, driver.Segment{Dst: host + 12, Src: dev + 100, N: 4}),
	}}
	return p
}

// TestProgramGraphs proves that a program of kernels, copies and fills has the same result as graphs, beginning with
// its second run.
func TestProgramGraphs(t *testing.T) {
	for _, none := range []bool{false, true} {
		t.Run(fmt.Sprint("no graphs ", none), func(t *testing.T) {
			f := newFake(1)
			f.known, f.noGraphs = true, none
			b := newBedOn(t, f, Options{})
			b.programs()
			if launched, _, graphs := f.counts(); none != (launched == 0) || none != (graphs == 0) {
				t.Errorf("%d nodes were launched by %d graphs", launched, graphs)
			}
		})
	}
}

func (b *bed) programs() {
	m, q := b.load(0), b.queue(0)
	defer q.Close()
	p := b.program(m, b.dev[0], b.pinned)
	words := bytesAt(b.pinned, 16)
	for i := range uint32(5) {
		binary.LittleEndian.PutUint32(words, i+1)
		b.run(q, p)
		for at, want := range map[int]uint32{8: (i+1)*3 + 10, 12: (i + 1) * 3} {
			if got := binary.LittleEndian.Uint32(words[at:]); got != want {
				b.Errorf("run %d: the word at %d is %d, want %d", i, at, got, want)
			}
		}
	}
	b.quiet()
}

// run runs a program, and waits.
func (b *bed) run(q *queue, p *driver.Program) {
	done := make(chan struct{})
	q.Submit(driver.Op{Kind: driver.OpProgram, Program: p, Done: func() { close(done) }, Tag: driver.Tag{Task: 3}})
	b.sync(q)
	select {
	case <-done:
	case <-time.After(time.Minute):
		b.Fatal("the program is not over")
	}
}

// TestProgramGraphsMemoryGoes proves that a program whose memory was freed fails as without graphs, and that the graphs
// are created again after other memory was freed.
func TestProgramGraphsMemoryGoes(t *testing.T) {
	b := newBed(t, 1)
	m, q := b.load(0), b.queue(0)
	defer q.Close()
	at, spare := b.alloc(0, 1<<10), b.alloc(0, 1<<10)
	p := b.program(m, at, b.pinned)
	b.run(q, p)
	b.run(q, p)
	before, _, _ := b.f.counts()
	if before == 0 {
		t.Fatal("there are no graphs")
	}
	testenv.OK(t, b.devs[0].Free(spare))
	b.run(q, p) // without graphs
	if now, _, _ := b.f.counts(); now != before {
		t.Error("a graph was launched that was made before memory went")
	}
	b.run(q, p)
	if now, _, _ := b.f.counts(); now == before {
		t.Error("the graphs were not made again")
	}
	b.quiet()
	p.Steps = p.Steps[:1] // kernels do not check memory
	p.Kept.Store(nil)
	p.Steps = append(p.Steps, driver.Step{Op: &driver.Op{Kind: driver.OpLaunch, Launch: b.launchOf(m, "nothing", 1)}})
	b.run(q, p)
	b.run(q, p)
	list := (*p.Kept.Load().Of.(*sections).list.Load())
	if len(list) != 1 || list[0].end != 2 {
		t.Fatalf("%d graphs", len(list))
	}
	testenv.OK(t, b.devs[0].Free(at))
	b.run(q, p)
	if got := b.sink.next(t); got.tag.Task != 3 || !errors.Is(got.err, driver.ErrFault) {
		t.Errorf("task %d failed with %v", got.tag.Task, got.err)
	}
	if err := b.devs[0].Healthy(); err != nil {
		t.Errorf("the GPU was lost: %v", err)
	}
}

// TestProgramOfKernels proves that a program that is one graph is launched as that graph, and that the graph is created
// again after memory was freed.
func TestProgramOfKernels(t *testing.T) {
	f := newFake(1)
	f.known = true
	b := newBedOn(t, f, Options{})
	m, q := b.load(0), b.queue(0)
	defer q.Close()
	at := b.numbers(1)
	step := func() driver.Step {
		return driver.Step{Op: &driver.Op{Kind: driver.OpLaunch, Launch: b.launchOf(m, "times", 1, at, 1)}}
	}
	p := &driver.Program{Steps: []driver.Step{step(), step()}}
	whole := func() bool {
		q.Mu.Lock()
		defer q.Mu.Unlock()
		return q.whole(p) != nil
	}
	want := uint32(1)
	for i, is := range []bool{false, true, true, false, true} {
		if i == 3 {
			testenv.OK(t, b.devs[0].Free(b.alloc(0, 64)))
		}
		b.run(q, p)
		want *= 9
		if got := b.word(at); got != want || whole() != is {
			t.Errorf("run %d leaves %d, want %d; whole %v, want %v", i, got, want, !is, is)
		}
	}
	if launched, _, _ := f.counts(); launched != 6 {
		t.Errorf("%d kernels were launched by graphs, want 6", launched)
	}
	b.quiet()
}

// TestProgramOfOneCopy proves that a program of one copy works like a single copy, in all directions, and that a copy
// within the device is a graph.
func TestProgramOfOneCopy(t *testing.T) {
	b := newBed(t, 1)
	b.singles()
	if launched, _, graphs := b.f.counts(); launched == 0 || graphs != 1 {
		t.Errorf("%d copies were made by %d graphs", launched, graphs)
	}
}

func (b *bed) singles() {
	q := b.queue(0)
	defer q.Close()
	dev, host := b.dev[0], b.pinned
	for i, c := range [][2]uintptr{{dev, host}, {dev + 4096, dev}, {host + 4096, dev + 4096}} {
		p := &driver.Program{Steps: make([]driver.Step, 1)}
		p.Steps[0].Segs.Add(c[0], c[1], 64)
		for round := range byte(4) {
			b.write(c[1], []byte{round + 7})
			done := 0
			q.Submit(driver.Op{Kind: driver.OpCopy, Program: p, Dst: c[0], Src: c[1], N: 64, Done: func() { done++ }})
			b.sync(q)
			if got := b.read(c[0], 1); got[0] != round+7 || done != 1 {
				b.Errorf("copy %d, round %d: the byte is %d, want %d, and done %d", i, round, got[0], round+7, done)
			}
		}
	}
	b.quiet()
}

// TestGPUGraphs runs the tests above on a GPU.
func TestGPUGraphs(t *testing.T) {
	b := newBedOf(t, openGPU(t), nil)
	b.again()
	b.programs()
	b.singles()
}

// TestGraphsOnImitation proves the calls of libcuda for graphs.
func TestGraphsOnImitation(t *testing.T) {
	t.Parallel()
	imitation.Rerun(t, nil, "-test.run=^TestGPUGraphs$")
}
