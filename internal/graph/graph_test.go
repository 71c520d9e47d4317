package graph

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"ropeway/internal/driver"
	"ropeway/internal/testenv"
	_ "ropeway/internal/testenv/seeded"
)

// mem is memory that copies of a test go between: addresses are places in it, plus base.
const base = 1 << 20

type mem []byte

func (m mem) at(addr uintptr, n uint64) []byte { return m[addr-base : addr-base+uintptr(n)] }

// run does an operation, as a driver would.
func (m mem) run(op *driver.Op) {
	switch op.Kind {
	case driver.OpCopy:
		copy(m.at(op.Dst, op.N), m.at(op.Src, op.N))
	case driver.OpCopy2D:
		for i := range op.Height {
			copy(m.at(op.Dst+uintptr(i*op.DstPitch), op.N), m.at(op.Src+uintptr(i*op.SrcPitch), op.N))
		}
	case driver.OpFill:
		for i := range m.at(op.Dst, op.N) {
			m.at(op.Dst, op.N)[i] = byte(op.Value)
		}
	case driver.OpCompute: // as a reduction
		src := bytes.Clone(m.at(op.Src, op.N))
		for i, b := range src {
			m.at(op.Dst, op.N)[i] += b
		}
	case driver.OpFunc:
		op.Fn()
	}
}

// runProgram does the steps of a program, with what may run in any order in a random one.
func (m mem) runProgram(p *driver.Program, r *rand.Rand) {
	for i := range p.Steps {
		s := &p.Steps[i]
		if s.Op != nil {
			m.run(s.Op)
			continue
		}
		list := s.Segs.List
		order := make([]int, len(list))
		for j := range order {
			order[j] = j
		}
		if !s.Ordered {
			r.Shuffle(len(order), func(a, b int) { order[a], order[b] = order[b], order[a] })
		}
		for _, j := range order {
			m.run(&driver.Op{Kind: driver.OpCopy, Dst: list[j].Dst, Src: list[j].Src, N: list[j].N})
		}
	}
}

const size = 512 // bytes that the tasks of a test touch: few, so that they meet

// drawTask draws a task.
func drawTask(t *rapid.T) Task {
	n := rapid.IntRange(1, 40).Draw(t, "n")
	at := func(what string, n int) uintptr { return base + uintptr(rapid.IntRange(0, size-n).Draw(t, what)) }
	switch rapid.SampledFrom([]string{"copy", "copy", "copy", "copy", "fill", "2d", "work", "any", "off",
		"large", "word"}).Draw(t, "kind") {
	case "fill":
		return Task{Op: &driver.Op{Kind: driver.OpFill, Width: 1, Dst: at("dst", n), N: uint64(n),
			Value: rapid.Uint32Range(0, 255).Draw(t, "value")}}
	case "2d":
		w, h := uint64(rapid.IntRange(1, 8).Draw(t, "width")), uint64(rapid.IntRange(1, 5).Draw(t, "height"))
		pitch := w + uint64(rapid.IntRange(0, 8).Draw(t, "gap"))
		span := int((h-1)*pitch + w)
		op := driver.Op{Kind: driver.OpCopy2D, Dst: at("dst", span), Src: at("src", span), N: w, Height: h,
			DstPitch: pitch, SrcPitch: pitch}
		return Task{Op: &op}
	case "work":
		return Task{Op: &driver.Op{Kind: driver.OpCompute, Dst: at("dst", n), Src: at("src", n), N: uint64(n)}}
	case "any":
		return Task{Op: &driver.Op{Kind: driver.OpFunc, Fn: func() {}}}
	case "off":
		return Task{}
	case "large":
		n = rapid.IntRange(100, 200).Draw(t, "large")
	case "word":
		return plainCopy(at("dst", 8)&^7, at("src", 8)&^7, 8)
	}
	return Task{Op: &driver.Op{Kind: driver.OpCopy, Dst: at("dst", n), Src: at("src", n), N: uint64(n)}}
}

// effect is what a task reads and writes, byte by byte, and whether everything before or after it has to do with it.
type effect struct {
	reads, writes [size]bool
	before, after bool
	off           bool
}

// opOf returns the operation of a task.
func opOf(t *Task) *driver.Op {
	if t.Op == nil {
		return &driver.Op{Kind: driver.OpCopy, Dst: t.Copy.Dst, Src: t.Copy.Src, N: t.Copy.N}
	}
	return t.Op
}

// effectOf is found without the code that is tested.
func effectOf(t *Task) (e effect) {
	op := opOf(t)
	e.off = op.Kind == driver.OpCopy && (op.N == 0 || op.Dst == op.Src)
	if e.off {
		return e
	}
	mark := func(in *[size]bool, addr uintptr, n uint64) {
		for i := range n {
			in[addr-base+uintptr(i)] = true
		}
	}
	switch op.Kind {
	case driver.OpCopy, driver.OpCompute:
		mark(&e.reads, op.Src, op.N)
		mark(&e.writes, op.Dst, op.N)
		e.before = op.Kind == driver.OpCopy && (op.N == 1 || op.N == 2 || op.N == 4 || op.N == 8) &&
			op.Dst%uintptr(op.N) == 0
	case driver.OpFill:
		mark(&e.writes, op.Dst, op.N)
	case driver.OpCopy2D:
		for i := range op.Height {
			mark(&e.reads, op.Src+uintptr(i*op.SrcPitch), op.N)
			mark(&e.writes, op.Dst+uintptr(i*op.DstPitch), op.N)
		}
	case driver.OpFunc:
		e.before, e.after = true, true
	}
	return e
}

// conflict reports whether b, which comes after a, has to.
func conflict(a, b *effect) bool {
	if a.off || b.off {
		return false
	}
	if b.before || a.after {
		return true
	}
	for i := range size {
		if a.writes[i] && (b.reads[i] || b.writes[i]) || a.reads[i] && b.writes[i] {
			return true
		}
	}
	return false
}

// verify compares a graph with its tasks, by looking at every pair of them. exact says that levels are as low as can
// be.
func verify(tasks []Task, g *Graph, exact bool, seed uint64) error {
	effects := make([]effect, len(tasks))
	for i := range tasks {
		effects[i] = effectOf(&tasks[i])
	}
	count, ran := 0, 0
	for j := range tasks {
		if effects[j].off {
			continue
		}
		count++
		want := 0
		for i := range j {
			if conflict(&effects[i], &effects[j]) {
				want = max(want, g.Level(i)+1)
			}
		}
		if got := g.Level(j); got < want || exact && got != want {
			return fmt.Errorf("task %d has level %d, not %d", j, got, want)
		}
	}
	var moved uint64
	for i := range g.Program().Steps {
		s := &g.Program().Steps[i]
		if s.Op != nil {
			ran++
			moved += s.Op.Bytes()
			continue
		}
		ran += len(s.Segs.List)
		var sum uint64
		for _, seg := range s.Segs.List {
			sum += seg.N
			if seg.N > s.Largest {
				return fmt.Errorf("step %d has a copy of %d bytes, more than %d", i, seg.N, s.Largest)
			}
		}
		if moved += sum; sum != s.Segs.Bytes {
			return fmt.Errorf("step %d moves %d bytes, not %d", i, sum, s.Segs.Bytes)
		}
	}
	if ran != count || moved != g.Program().Bytes {
		return fmt.Errorf("%d tasks in the program, of %d; %d bytes, and it says %d", ran, count, moved,
			g.Program().Bytes)
	}
	one, other := make(mem, size), make(mem, size)
	for i := range one {
		one[i] = byte(i*7 + i>>8)
	}
	copy(other, one)
	for round := range 2 {
		for i := range tasks {
			if op := opOf(&tasks[i]); op.N > 0 || op.Kind != driver.OpCopy {
				one.run(op)
			}
		}
		other.runProgram(g.Program(), rand.New(rand.NewPCG(seed, uint64(round))))
		if !bytes.Equal(one, other) {
			return fmt.Errorf("run %d leaves other bytes than the tasks one after the other", round)
		}
	}
	return nil
}

// TestOracle compiles random tasks and compares every pair of them by the bytes they touch.
func TestOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tasks := rapid.SliceOfN(rapid.Custom(drawTask), 0, 60).Draw(t, "tasks")
		if err := verify(tasks, New(tasks, nil), true, rapid.Uint64().Draw(t, "seed")); err != nil {
			t.Fatal(err)
		}
	})
}

// TestSet changes random tasks: after each change the program does what the tasks say.
func TestSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tasks := rapid.SliceOfN(rapid.Custom(drawTask), 1, 40).Draw(t, "tasks")
		g := New(tasks, nil)
		for range rapid.IntRange(1, 12).Draw(t, "changes") {
			i := rapid.IntRange(0, len(tasks)-1).Draw(t, "task")
			tasks[i] = drawTask(t)
			g.Set(i, tasks[i])
			if err := verify(tasks, g, false, rapid.Uint64().Draw(t, "seed")); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestAliases: memory that has other addresses counts as met by all such memory.
func TestAliases(t *testing.T) {
	copies := []Task{plainCopy(base, base+100, 16), plainCopy(base+200, base+300, 16), plainCopy(base+400, base, 16)}
	alone := New(copies[:2], func(addr uintptr) bool { return true })
	if alone.Depth() != 1 {
		t.Errorf("%d levels, want 1: the copies have nothing in common", alone.Depth())
	}
	both := New(copies[:2], func(addr uintptr) bool { return addr != base && addr != base+300 })
	if both.Level(1) != 1 {
		t.Error("a copy does not wait for one that may write the bytes it reads, under another address")
	}
	chain := New(copies, func(addr uintptr) bool { return true })
	if chain.Level(2) != 1 || chain.Level(1) != 0 {
		t.Error("a copy does not wait for one that writes what it reads")
	}
}

func plainCopy(dst, src uintptr, n uint64) Task {
	return Task{Copy: driver.Segment{Dst: dst, Src: src, N: n}}
}

// scattered is n copies of some bytes each, from one region to another, at random places that do not meet.
func scattered(n int, bytes uint64) []Task {
	r := rand.New(rand.NewPCG(1, 2))
	to, from := r.Perm(n), r.Perm(n)
	tasks := make([]Task, n)
	for i := range tasks {
		tasks[i] = plainCopy(1<<40+uintptr(to[i])*uintptr(bytes), 1<<46+uintptr(from[i])*uintptr(bytes), bytes)
	}
	return tasks
}

// chained is n copies that each read what the one before wrote.
func chained(n int, bytes uint64) []Task {
	tasks := make([]Task, n)
	for i := range tasks {
		tasks[i] = plainCopy(1<<40+uintptr(i+1)*uintptr(bytes), 1<<40+uintptr(i)*uintptr(bytes), bytes)
	}
	return tasks
}

// TestShapes: scattered copies are one batch, a chain is one step in order.
func TestShapes(t *testing.T) {
	for _, n := range []int{1, 2, 127, 4096} {
		p := New(scattered(n, 64), nil).Program()
		if len(p.Steps) != 1 || p.Steps[0].Ordered || len(p.Steps[0].Segs.List) != n {
			t.Errorf("%d scattered copies: %d steps", n, len(p.Steps))
		}
		p = New(chained(n, 64), nil).Program()
		if len(p.Steps) != 1 || p.Steps[0].Ordered != (n > 1) || len(p.Steps[0].Segs.List) != n {
			t.Errorf("%d copies in a chain: %d steps", n, len(p.Steps))
		}
	}
}

// TestSetInPlace: a change that touches nobody else leaves everything else of the program where it is.
func TestSetInPlace(t *testing.T) {
	tasks := scattered(1000, 64)
	g := New(tasks, nil)
	steps := &g.Program().Steps[0]
	list := &steps.Segs.List[0]
	g.Set(500, plainCopy(1<<30, 1<<31, 32))
	if &g.Program().Steps[0] != steps || &steps.Segs.List[0] != list || steps.Segs.Bytes != 999*64+32 {
		t.Error("the program was made again")
	}
	if got := testing.AllocsPerRun(10, func() { g.Set(500, plainCopy(1<<30, 1<<31, 64)) }); got > 8 {
		t.Errorf("a change allocates %v times, want a few", got)
	}
}

// FuzzCompile reads tasks from bytes, four to a copy, and compares with every pair.
func FuzzCompile(f *testing.F) {
	f.Add([]byte{0, 10, 20, 3, 10, 40, 12, 0, 80, 7, 8, 9})
	f.Add([]byte("the tasks of a model are what they are, whatever comes before and after them"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var tasks []Task
		for ; len(data) >= 4 && len(tasks) < 64; data = data[4:] {
			n := uint64(data[2]%48) + 1
			op := driver.Op{Kind: driver.OpCopy, Dst: base + uintptr(data[0]), Src: base + uintptr(data[1]), N: n}
			switch data[3] % 16 {
			case 1:
				op = driver.Op{Kind: driver.OpFill, Width: 1, Dst: op.Dst, N: n, Value: uint32(data[1])}
			case 2:
				op = driver.Op{Kind: driver.OpCompute, Dst: op.Dst, Src: op.Src, N: n}
			case 3:
				op.Kind, op.N, op.Height, op.DstPitch, op.SrcPitch = driver.OpCopy2D, n%8+1, 4, 12, 16
			}
			task := Task{Op: &op}
			if data[3] == 255 {
				task = Task{}
			}
			tasks = append(tasks, task)
		}
		g := New(tasks, nil)
		testenv.OK(t, verify(tasks, g, true, 1))
		for i := range tasks {
			j := (i*7 + 3) % len(tasks)
			tasks[i] = tasks[j]
			g.Set(i, tasks[i])
			if err := verify(tasks, g, false, 1); err != nil {
				t.Fatalf("after task %d was changed: %v", i, err)
			}
		}
	})
}

func BenchmarkCompile(b *testing.B) {
	for _, shape := range []struct {
		name string
		make func(n int, bytes uint64) []Task
	}{{"scattered", scattered}, {"chained", chained}} {
		for _, n := range []int{4096, 1 << 20} {
			b.Run(fmt.Sprintf("%s-%d", shape.name, n), func(b *testing.B) {
				tasks := shape.make(n, 64)
				b.ReportAllocs()
				for b.Loop() {
					New(tasks, nil)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/task")
			})
		}
	}
}

func BenchmarkSet(b *testing.B) {
	for _, n := range []int{4096, 1 << 20} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			g := New(scattered(n, 64), nil)
			i := 0
			for b.Loop() {
				g.Set(i%n, plainCopy(1<<30+uintptr(i)*64, 1<<46, 64))
				i++
			}
		})
	}
}

// TestSetGuards: a task that everything before or after it depends on is changed, taken out and put back without
// looking at all others again, and the program does what the tasks say all the time.
func TestSetGuards(t *testing.T) {
	tasks := make([]Task, 60)
	for i := range tasks {
		tasks[i] = plainCopy(base+uintptr(i%8)*16, base+256+uintptr(i)*4, 12)
	}
	value := func(v uint32) Task {
		return Task{Op: &driver.Op{Kind: driver.OpFill, Width: 1, Dst: base + 200, N: 1, Value: v}, Anything: true}
	}
	word := func(at uintptr) Task { return plainCopy(base+at, base+160, 8) }
	tasks[20], tasks[40] = value(1), word(208)
	g := New(tasks, nil)
	g.Set(0, tasks[0])
	known := g.index
	for _, c := range []struct {
		what string
		at   int
		to   Task
		laid bool // the steps stay where they are
	}{
		{"another value", 20, value(2), true},
		{"another word", 40, word(216), true},
		{"a word that others write", 40, word(48), false},
		{"off", 20, Task{}, false},
		{"on again", 20, value(3), false},
		{"a plain copy", 40, plainCopy(base+220, base+300, 12), false},
		{"a word again", 40, word(208), false},
	} {
		steps := &g.Program().Steps[0]
		tasks[c.at] = c.to
		g.Set(c.at, c.to)
		if c.laid && &g.Program().Steps[0] != steps {
			t.Errorf("%s: the steps were made again", c.what)
		}
		if c.what != "a word that others write" && g.index != known {
			t.Errorf("%s: everything was compiled", c.what)
		}
		known = g.index
		if known == nil {
			g.Set(0, tasks[0])
			known = g.index
		}
		if err := verify(tasks, g, false, 1); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}
