package cuda

import (
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/imitation"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/driver/drivertest"
	"ropeway/internal/kernel"
	"ropeway/internal/testenv"
)

// load loads the kernels of drivertest on a device.
func (b *bed) load(device int) driver.Module {
	b.Helper()
	m, err := b.d.LoadModule(device, "kernels.ptx", []byte(drivertest.PTX))
	testenv.OK(b, err)
	return m
}

// launchOf returns a launch with arguments in pinned memory.
func (b *bed) launchOf(m driver.Module, name string, blocks uint32, args ...uintptr) *driver.Launch {
	b.Helper()
	code, err := m.Code(name)
	testenv.OK(b, err)
	l := &driver.Launch{Module: m, Code: [2]uintptr{0, code}, Per: [2]uint32{0, 1}, Blocks: blocks,
		Copied: true, Size: uint64(8 * len(args))}
	if l.Args, err = b.d.AllocHost(64); err != nil {
		b.Fatal(err)
	}
	for i, a := range args {
		binary.LittleEndian.PutUint64(bytesAt(l.Args+uintptr(8*i), 8), uint64(a))
	}
	return l
}

func launchOp(l *driver.Launch, task uint32) driver.Op {
	return driver.Op{Kind: driver.OpLaunch, Launch: l, Tag: driver.Tag{Task: task}}
}

// TestLaunchShape proves the parameters that CUDA gets for a launch: a plain one has its blocks and the most threads of
// the kernel, a SIMT one its own numbers; the arguments have the size of the kernel's parameters.
func TestLaunchShape(t *testing.T) {
	f := newFake(1)
	f.keepShape, f.known = true, true
	b := newBedOn(t, f, Options{})
	m, q := b.load(0), b.queue(0)
	defer q.Close()
	plain := b.launchOf(m, "times", 7, b.dev[0], 4, 99, 99)
	simt := b.launchOf(m, "place", 12, b.dev[0])
	simt.Grid, simt.Threads, simt.Shared = [3]uint32{2, 3, 2}, [3]uint32{4, 2, 1}, 100<<10
	q.Submit(launchOp(plain, 1))
	q.Submit(launchOp(simt, 2))
	b.sync(q)
	b.quiet()
	want := []libcuda.Shape{
		{Blocks: [3]uint32{7, 1, 1}, Threads: [3]uint32{256, 1, 1}, Args: plain.Args, Bytes: 16},
		{Blocks: [3]uint32{2, 3, 2}, Threads: [3]uint32{4, 2, 1}, Shared: 100 << 10, Args: simt.Args, Bytes: 8},
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.shapes) != 2 || f.shapes[0] != want[0] || f.shapes[1] != want[1] {
		t.Errorf("launched as %+v, want %+v", f.shapes, want)
	}
}

// places proves that each thread of a SIMT launch has its place.
func (b *bed) places() {
	m, q := b.load(0), b.queue(0)
	defer q.Close()
	l := b.launchOf(m, "place", 24, b.dev[0])
	l.Grid, l.Threads = [3]uint32{2, 3, 4}, [3]uint32{8, 2, 3}
	q.Submit(launchOp(l, 1))
	b.sync(q)
	b.quiet()
	for i, raw := 0, b.read(b.dev[0], 24*48*4); i < 24*48; i++ {
		if got := binary.LittleEndian.Uint32(raw[4*i:]); got != uint32(i) {
			b.Fatalf("place %d has %d", i, got)
		}
	}
}

// refusals proves that a launch that a GPU cannot do fails alone, with a reason.
func (b *bed) refusals() {
	m, q := b.load(0), b.queue(0)
	defer q.Close()
	short := b.launchOf(m, "times", 1, b.dev[0])
	halves := b.launchOf(m, "nothing", 1)
	halves.Code[0], halves.Per[0] = halves.Code[1], 1
	first := b.launchOf(m, "nothing", 1)
	first.First = 3
	shared := b.launchOf(m, "nothing", 1)
	shared.Shared = 1 << 30
	large := b.launchOf(m, "nothing", 1)
	large.Grid, large.Threads = [3]uint32{1, 1, 1}, [3]uint32{4096, 1, 1}
	for i, l := range []*driver.Launch{short, halves, first, shared, large} {
		q.Submit(launchOp(l, uint32(i)))
		b.sync(q)
		got := b.sink.next(b.T)
		var k *driver.KernelError
		if got.tag.Task != uint32(i) || !errors.As(got.err, &k) || k.Launch != l ||
			k.Failure != driver.KernelException {
			b.Errorf("launch %d: task %d failed with %v", i, got.tag.Task, got.err)
		}
		b.Log(got.err)
	}
	b.works(0, b.pinned)
}

// late proves that a kernel that takes longer than it may fails with that when it is over, with arguments of the host
// and of the device, and that others go on.
func (b *bed) late() {
	m, q := b.load(0), b.queue(0)
	defer q.Close()
	args := b.alloc(0, 8)
	b.write(args, binary.LittleEndian.AppendUint64(nil, uint64(30*time.Millisecond)))
	for i, onDevice := range []bool{false, true} {
		l := b.launchOf(m, "linger", 1, uintptr(30*time.Millisecond))
		l.Limit = time.Millisecond
		if onDevice {
			l.Args, l.Copied = args, false
		}
		q.Submit(launchOp(l, uint32(i)))
		in := b.launchOf(m, "nothing", 1)
		in.Limit = time.Hour
		q.Submit(launchOp(in, 100))
		b.sync(q)
		got := b.sink.next(b.T)
		var k *driver.KernelError
		if got.tag.Task != uint32(i) || !errors.As(got.err, &k) || k.Launch != l || k.Failure != driver.KernelTimeout {
			b.Errorf("task %d failed with %v", got.tag.Task, got.err)
		}
		b.quiet()
	}
}

// returns is the owner of launches.
type returns struct{ n int }

func (c *returns) LaunchOver(*driver.Launch) { c.n++ }

// breaks proves what becomes of a kernel that reaches for what is not there, or stops itself: its task fails with a
// kernel's failure that names it, the GPU is lost, and all launches are returned.
func (b *bed) breaks(name, way string) {
	m, q := b.load(0), b.queue(0)
	var owner returns
	l, next := b.launchOf(m, name, 1, 0), b.launchOf(m, "nothing", 1)
	l.Over, next.Over = &owner, &owner
	task, launches := uint32(5), 1
	switch way {
	case "on the device":
		args := b.alloc(0, 8)
		b.write(args, make([]byte, 8))
		l.Args, l.Copied = args, false
	case "observed by a mark":
		l.Within = true
	case "many":
		for range 4 {
			l := b.launchOf(m, "nothing", 1)
			l.Over = &owner
			q.Submit(launchOp(l, 4))
		}
		launches += 4
	}
	q.Submit(launchOp(l, task))
	if way == "then a copy" {
		q.Copy(b.dev[0], b.pinned, 10, driver.Tag{Task: 6})
	}
	b.sync(q)
	got := b.sink.next(b.T)
	want := map[string]driver.KernelFailure{"wild": driver.KernelException, "trap": driver.KernelTrap}[name]
	var k *driver.KernelError
	if got.tag.Task != task || !errors.As(got.err, &k) || k.Launch != l || k.Failure != want ||
		!strings.Contains(got.err.Error(), "kernel "+name) {
		b.Errorf("task %d failed with %v", got.tag.Task, got.err)
	}
	b.Log(got.err)
	if err := b.devs[0].Healthy(); !errors.Is(err, driver.ErrLost) {
		b.Errorf("healthy: %v", err)
	}
	q.Submit(launchOp(next, 7))
	b.sync(q)
	for {
		got = b.sink.next(b.T)
		if got.tag.Task == 7 {
			break
		}
	}
	if !errors.Is(got.err, driver.ErrLost) {
		b.Errorf("a launch on a lost GPU: %v", got.err)
	}
	q.Close()
	if owner.n != launches+1 {
		b.Errorf("%d launches were returned, want %d", owner.n, launches+1)
	}
	if _, err := b.d.LoadModule(0, "kernels.ptx", []byte(drivertest.PTX)); !errors.Is(err, driver.ErrLost) {
		b.Errorf("a module on a lost GPU: %v", err)
	}
	if len(b.devs) > 1 {
		b.works(1, b.pinned)
	}
}

// TestModuleErrors proves that the error of a binary that cannot be loaded has advice and the compiler's text.
func TestModuleErrors(t *testing.T) {
	b := newBed(t, 1)
	_, err := b.d.LoadModule(0, "mine.ptx", []byte(".version 8.0\nnonsense"))
	if !errors.Is(err, kernel.ErrImage) || !strings.Contains(err.Error(), "mine.ptx") ||
		!strings.Contains(err.Error(), "line 1") {
		t.Errorf("%v", err)
	}
	c := b.d.gpus[0]
	for r, want := range map[libcuda.Result]string{
		libcuda.NoBinary: "-arch=sm_90", libcuda.NewerPTX: "13.0", libcuda.NoCompiler: "cubin",
		libcuda.InvalidImage: "nvcc",
	} {
		err := c.notLoaded("x", nil, "", r)
		if !errors.Is(err, kernel.ErrImage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %v", r, err)
		}
	}
	if err := c.notLoaded("x", nil, "", libcuda.OutOfMemory); !errors.Is(err, driver.ErrNoMemory) {
		t.Errorf("out of memory: %v", err)
	}
}

// TestModulesGo proves that modules go with their device and with the driver, and not before what holds them.
func TestModulesGo(t *testing.T) {
	b := newBed(t, 1)
	m := b.load(0)
	m.Hold()
	m.Unload()
	b.load(0)
	b.d.gpus[0].runners.Wait()
	unloaded := func() int {
		b.f.mu.Lock()
		defer b.f.mu.Unlock()
		return b.f.unloaded
	}
	if n := unloaded(); n != 0 {
		t.Errorf("%d modules went that are held, or loaded", n)
	}
	m.Release()
	b.d.gpus[0].runners.Wait()
	if n := unloaded(); n != 1 {
		t.Errorf("%d modules went, want the one that nothing holds any more", n)
	}
	testenv.OK(t, b.devs[0].Close())
	if n := unloaded(); n != 2 {
		t.Errorf("%d modules went, want both", n)
	}
	b.open(0)
}

// TestLaunchObserved proves that an observer sees kernels in order, with their times.
func TestLaunchObserved(t *testing.T) {
	b := newBed(t, 1)
	m := b.load(0)
	var seen ranLog
	events := driver.Events{Now: seen.Now, Ran: seen.Ran, Failed: b.sink.TaskFailed}
	q := b.devs[0].NewQueue(driver.QueueOptions{Events: events}).(*queue)
	defer q.Close()
	var owner returns
	for i := range uint32(3) {
		l := b.launchOf(m, "times", 1, b.dev[0], 4)
		l.Over = &owner
		q.Submit(launchOp(l, i))
	}
	b.sync(q)
	b.quiet()
	if len(seen.tags) != 3 || owner.n != 3 {
		t.Fatalf("%d were seen, %d returned", len(seen.tags), owner.n)
	}
	for i, tag := range seen.tags {
		if tag.Task != uint32(i) {
			t.Errorf("number %d is task %d", i, tag.Task)
		}
	}
}

// ranLog is an observer.
type ranLog struct{ tags []driver.Tag }

func (r *ranLog) Now() int64                              { return time.Now().UnixNano() }
func (r *ranLog) Ran(tag driver.Tag, _, _ int64, _ error) { r.tags = append(r.tags, tag) }

// TestGPULaunch proves what launches do on a GPU.
func TestGPULaunch(t *testing.T) {
	b := newBedOf(t, openGPU(t), nil)
	b.places()
	b.refusals()
	b.late()
}

// TestGPULaunchBreaks breaks GPU 0. It needs a process of its own, with the kernel and the way to launch it in
// ROPEWAY_TEST_BREAK.
func TestGPULaunchBreaks(t *testing.T) {
	name, way, ok := strings.Cut(os.Getenv("ROPEWAY_TEST_BREAK"), " ")
	if !ok {
		t.Skip("ROPEWAY_TEST_BREAK is not set")
	}
	newBedOf(t, openGPU(t), nil).breaks(name, way)
}

// TestLaunchOnImitation proves the calls of libcuda that break a GPU, each in a process of its own.
func TestLaunchOnImitation(t *testing.T) {
	t.Parallel()
	imitation.Rerun(t, nil, "-test.run=^TestGPULaunch$")
	for _, kernel := range []string{"wild", "trap"} {
		for _, way := range []string{"waited for", "then a copy", "observed by a mark", "on the device", "many"} {
			imitation.Rerun(t, []string{"ROPEWAY_TEST_BREAK=" + kernel + " " + way, "FAKE_CUDA_GPUS=2"},
				"-test.run=^TestGPULaunchBreaks$")
		}
	}
}
