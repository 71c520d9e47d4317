package drivertest

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"ropeway/internal/driver"
	"ropeway/internal/kernel"
	"ropeway/internal/testenv"
)

// bench is a device with the kernels loaded.
type bench struct {
	*env
	l     driver.Launcher
	image []byte
	m     driver.Module
	over  atomic.Int64 // launches that were returned
}

// bench loads the kernels that the driver can run; it skips the test if there are none.
func (e *env) bench() *bench {
	e.Helper()
	l := e.d.Caps().Launch
	if l == nil {
		e.Skip("the driver runs no kernels")
	}
	b := &bench{env: e, l: l, image: Kernels(e, e.d)}
	b.m = b.load()
	return b
}

func (b *bench) load() driver.Module {
	b.Helper()
	m, err := b.l.LoadModule(0, "kernels", b.image)
	testenv.OK(b, err)
	return m
}

// LaunchOver implements driver.LaunchOwner. Like the core, it releases the module.
func (b *bench) LaunchOver(l *driver.Launch) {
	b.over.Add(1)
	l.Module.Release()
}

// launch returns a launch of a kernel with arguments in pinned memory, which holds the module.
func (b *bench) launch(m driver.Module, name string, blocks uint32, args ...uintptr) *driver.Launch {
	b.Helper()
	code, err := m.Code(name)
	testenv.OK(b, err)
	l := &driver.Launch{Module: m, Code: [2]uintptr{code}, Per: [2]uint32{1}, Blocks: blocks, Copied: true, Over: b}
	if len(args) > 0 {
		l.Size = uint64(8 * len(args))
		room := b.pinned(8 * len(args))
		l.Args = room.addr
		for i, a := range args {
			binary.LittleEndian.PutUint64(room.host[8*i:], uint64(a))
		}
	}
	m.Hold()
	return l
}

func submit(q *queue, l *driver.Launch, i int) {
	q.Submit(driver.Op{Kind: driver.OpLaunch, Launch: l, Tag: tag(i)})
}

// returned fails the test unless exactly n launches were returned.
func (b *bench) returned(n int64) {
	b.Helper()
	if got := b.over.Load(); got != n {
		b.Fatalf("%d launches were returned, want %d", got, n)
	}
}

// words returns the n words at addr.
func (b *bench) words(addr uintptr, n int) []uint32 {
	b.Helper()
	raw, out := b.read(addr, 4*n), make([]uint32, n)
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(raw[4*i:])
	}
	return out
}

func (b *bench) putWords(addr uintptr, w ...uint32) {
	b.Helper()
	var raw []byte
	for _, v := range w {
		raw = binary.LittleEndian.AppendUint32(raw, v)
	}
	b.write(addr, raw)
}

// testLaunch: a kernel sees the results of earlier tasks of its queue, and later tasks see its results, with every kind
// of memory.
func testLaunch(e *env) {
	b := e.bench()
	const n = 1000
	host, alias := e.registered(4 * n)
	pinned := e.pinned(4 * n)
	q := e.queue()
	defer q.Close()
	launches := 0
	for i, m := range []memory{e.device(4 * n), pinned, alias, host} {
		x, y := e.device(4*n), e.device(4*n)
		for _, blocks := range []uint32{1, 7, 2000} {
			q.Submit(driver.Op{Kind: driver.OpFill, Dst: x.addr, N: n, Width: 4, Value: 5})
			q.Submit(driver.Op{Kind: driver.OpFill, Dst: y.addr, N: n, Width: 4, Value: 7})
			submit(q, b.launch(b.m, "sum", blocks, x.addr, y.addr, m.addr, n), 1)
			submit(q, b.launch(b.m, "times", blocks, m.addr, n), 2)
			q.Copy(x.addr, m.addr, 4*n, tag(3))
			q.finish()
			launches += 2
			for k, w := range b.words(x.addr, n) {
				if w != 36 {
					e.Fatalf("memory %d, %d blocks: word %d is %d, want (5+7)*3", i, blocks, k, w)
				}
			}
		}
	}
	b.returned(int64(launches))
}

// testLaunchAtRandom: kernels, copies and fills in a queue, and in two with flags between them, have the same result as
// one after another.
func testLaunchAtRandom(e *env) {
	b := e.bench()
	const n, lists = 64, 4
	var list [lists]memory
	var want [lists][n]uint32
	for i := range list {
		list[i] = e.device(4 * n)
		b.putWords(list[i].addr, want[i][:]...)
	}
	r := rand.New(rand.NewPCG(19, 3))
	queues := []*queue{e.queue(), e.queue()}
	at := 0
	for i := range 400 {
		x, y, z := r.IntN(lists), r.IntN(lists), r.IntN(lists)
		q := queues[at]
		switch kind := r.IntN(6); {
		case kind == 0 && x != y:
			q.Copy(list[x].addr, list[y].addr, 4*n, tag(i))
			want[x] = want[y]
		case kind == 1:
			v := r.Uint32()
			q.Submit(driver.Op{Kind: driver.OpFill, Dst: list[x].addr, N: n, Width: 4, Value: v, Tag: tag(i)})
			for k := range want[x] {
				want[x][k] = v
			}
		case kind == 2:
			f := e.d.NewFlag()
			q.Submit(driver.Op{Kind: driver.OpSet, Flag: f})
			at = 1 - at
			queues[at].Submit(driver.Op{Kind: driver.OpAwait, Flag: f})
		case kind == 3:
			submit(q, b.launch(b.m, "times", 1+r.Uint32N(9), list[x].addr, n), i)
			for k := range want[x] {
				want[x][k] *= 3
			}
		default:
			l := b.launch(b.m, "sum", 1+r.Uint32N(9), list[x].addr, list[y].addr, list[z].addr, n)
			l.Together = kind == 4
			submit(q, l, i)
			for k := range want[z] {
				want[z][k] = want[x][k] + want[y][k]
			}
		}
	}
	for _, q := range queues {
		q.finish()
		q.Close()
	}
	for i := range list {
		for k, w := range b.words(list[i].addr, n) {
			if w != want[i][k] {
				e.Fatalf("list %d, word %d is %d, want %d", i, k, w, want[i][k])
			}
		}
	}
}

// testLaunchArgs: arguments in device memory are read when the kernel runs, and arguments with addresses of each other
// stay until it is over.
func testLaunchArgs(e *env) {
	b := e.bench()
	word, other, args := e.device(4), e.device(4), e.device(24)
	b.putWords(word.addr, 4)
	b.putWords(other.addr, 10)
	q := e.queue()
	defer q.Close()
	l := b.launch(b.m, "times", 1, other.addr, 1)
	l.Copied, l.Args = false, args.addr
	// the arguments are written after the launch was created, by a task before it in the queue
	stage := e.pinned(16)
	binary.LittleEndian.PutUint64(stage.host, uint64(word.addr))
	binary.LittleEndian.PutUint64(stage.host[8:], 1)
	q.Copy(args.addr, stage.addr, 16, tag(1))
	submit(q, l, 2)
	q.Copy(other.addr, word.addr, 4, tag(3))
	q.finish()
	if got := b.words(other.addr, 1)[0]; got != 12 {
		e.Errorf("arguments in device memory: %d, want 4*3", got)
	}

	l = b.launch(b.m, "follow", 3, 0, word.addr)
	binary.LittleEndian.PutUint64(hostBytes(l.Args, 8), uint64(l.Args)+8)
	l.Within = true
	submit(q, l, 4)
	q.finish()
	if got := b.words(word.addr, 1)[0]; got != 13 {
		e.Errorf("arguments that lead to each other: %d, want 12+1", got)
	}
	b.returned(2)
}

// testLaunchGlobal: a variable of a binary is memory of the device; each module has its own, as long as it is loaded.
func testLaunchGlobal(e *env) {
	b := e.bench()
	other := b.load()
	q := e.queue()
	defer q.Close()
	at, err := b.m.Global("scale", 4)
	testenv.OK(e, err)
	if again, err := b.m.Global("scale", 4); err != nil || again != at {
		e.Errorf("asked again it is at %#x, not %#x: %v", again, at, err)
	}
	if loc := e.d.Locate(at); loc.Place != driver.OnDevice || loc.Device != 0 || loc.Room != 4 {
		e.Fatalf("the variable is %+v", loc)
	}
	if got := b.words(at, 1)[0]; got != 3 {
		e.Fatalf("the variable is %d, want 3", got)
	}
	word, five := e.device(4), e.device(4)
	b.putWords(word.addr, 2)
	b.putWords(five.addr, 5)
	q.Copy(at, five.addr, 4, tag(1))
	submit(q, b.launch(b.m, "times", 1, word.addr, 1), 2)
	submit(q, b.launch(other, "times", 1, word.addr, 1), 3)
	q.finish()
	if got := b.words(word.addr, 1)[0]; got != 30 {
		e.Errorf("%d, want 2*5*3", got)
	}
	if _, err := b.m.Global("no_such", 4); err == nil {
		e.Error("there is a variable that the binary has not")
	}
	if n, known := b.m.Variable("scale"); known != (e.d.Caps().GPU != nil) || known && n != 4 { // known only to CUDA
		e.Errorf("the variable has %d bytes: %v", n, known)
	}
	b.m.Unload()
	if loc := e.d.Locate(at); loc.Place == driver.OnDevice {
		e.Error("the variable is there without its binary")
	}
}

// testLaunchUnload: an unloaded module stays until the launches that hold it have run or were dropped.
func testLaunchUnload(e *env) {
	b := e.bench()
	word := e.device(4)
	b.putWords(word.addr, 1)
	q := e.queue()
	release := q.block()
	for i := range 5 {
		submit(q, b.launch(b.m, "times", 1, word.addr, 1), i)
	}
	b.m.Unload()
	b.m.Unload()
	release()
	q.finish()
	b.returned(5)
	if got := b.words(word.addr, 1)[0]; got != 243 {
		e.Errorf("%d, want 3^5", got)
	}

	m := b.load()
	release = q.block()
	for i := range 5 {
		submit(q, b.launch(m, "times", 1, word.addr, 1), i)
	}
	m.Unload()
	q.Drop()
	release()
	q.finish()
	b.returned(10)
	if got := b.words(word.addr, 1)[0]; got != 243 {
		e.Errorf("%d: kernels ran that were dropped", got)
	}

	m = b.load() // and one whose kernels may be running
	for i := range 50 {
		submit(q, b.launch(m, "times", 1, word.addr, 1), i)
	}
	m.Unload()
	q.finish()
	q.Close()
	b.returned(60)
}

// testLaunchDrop: a kernel whose turn has come is not dropped, as it would be running on hardware; later ones are.
func testLaunchDrop(e *env) {
	b := e.bench()
	word := e.device(4)
	q := e.queue()
	for round := range 100 {
		b.putWords(word.addr, 1)
		submit(q, b.launch(b.m, "times", 1, word.addr, 1), round)
		if round%2 == 0 {
			q.Drop()
		} else {
			q.Shut()
		}
		submit(q, b.launch(b.m, "times", 1, word.addr, 1), round)
		q.finish()
		q.Open()
		want := uint32(3)
		if round%2 == 0 {
			want = 9
		}
		if got := b.words(word.addr, 1)[0]; got != want {
			e.Fatalf("round %d: %d, want %d", round, got, want)
		}
	}
	q.Close()
	b.returned(200)
}

// testLaunchRefused: data that is not a binary is refused, and so is a device that is not open.
func testLaunchRefused(e *env) {
	b := e.bench()
	if _, err := b.m.Code("no_such_kernel"); err == nil {
		e.Error("there is a kernel that the binary has not")
	}
	nonsense := []byte(".version 6.0\n.target sm_50\n.address_size 64\nnonsense")
	if _, err := b.l.LoadModule(0, "nothing", nonsense); err == nil {
		e.Error("nonsense is a binary")
	} else if b.l.Runs(kernel.PTX) && !errors.Is(err, kernel.ErrImage) {
		e.Errorf("nonsense: %v", err)
	}
	for _, device := range []int{-1, 1, 1000} { // 1 is not open
		if _, err := b.l.LoadModule(device, "kernels", b.image); err == nil {
			e.Errorf("a module of device %d", device)
		}
	}
	code, err := b.m.Code("sum")
	testenv.OK(e, err)
	if p, known := b.m.Params(code); known && (len(p) != 4 || p[3] != kernel.Param{Offset: 24, Size: 8}) {
		e.Errorf("sum has parameters %v", p)
	}
}

// testLaunchAllocs: a launch does not allocate.
func testLaunchAllocs(e *env) {
	if testenv.Race {
		e.Skip("the race detector makes sync.Pool allocate")
	}
	b := e.bench()
	word := e.device(4)
	q := e.queue()
	defer q.Close()
	l := b.launch(b.m, "times", 1, word.addr, 1)
	run := func() {
		for range 16 {
			b.m.Hold()
			q.Submit(driver.Op{Kind: driver.OpLaunch, Launch: l})
		}
		q.Wait(0, nil)
	}
	for range 10 {
		run()
	}
	if got := testing.AllocsPerRun(20, run); got > 1 { // for 16 launches; a goroutine that starts may cost one
		e.Errorf("16 launches and a wait allocate %v times", got)
	}
	q.finish()
}
