package native_test

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"ropeway/internal/kernel"
	"ropeway/internal/kernel/kerneltest"
	"ropeway/internal/kernel/native"
	"ropeway/internal/testenv"
)

// load compiles and loads C source.
func load(t testing.TB, source string) kernel.SharedObject {
	t.Helper()
	kerneltest.Support(t)
	o, err := cpu(t).Load("test.so",
		kerneltest.Compile(t, "#include <stdint.h>\n#include <stddef.h>\n#include \"ropeway/kernel.h\"\n"+source))
	testenv.OK(t, err)
	t.Cleanup(o.Close)
	return o
}

func cpu(t testing.TB) kernel.CPU {
	t.Helper()
	c, err := kernel.OnCPU(nil)
	testenv.OK(t, err)
	return c
}

// launch runs a kernel with a number of goroutines, or all calls at the same time.
func launch(t testing.TB, o kernel.SharedObject, c kernel.Call, name string, workers int,
	args ...uint64) *kernel.Fault {
	t.Helper()
	code, err := o.Symbol(name)
	testenv.OK(t, err)
	c.Code[0], c.Per[0] = code, 1
	if len(args) > 0 {
		c.Args, c.Size = uintptr(unsafe.Pointer(&args[0])), uint64(8*len(args))
	}
	r := cpu(t).NewRun()
	r.Begin(o, &c)
	if workers == 0 {
		r.Together(func() { r.Work(nil) })
	} else {
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() { r.Work(nil) })
		}
		wg.Wait()
	}
	runtime.KeepAlive(args)
	return r.End()
}

func addr[T any](s []T) uint64 { return uint64(uintptr(unsafe.Pointer(&s[0]))) }

// TestBlocks: every block is called once and knows its number and how many there are, whichever thread runs it.
func TestBlocks(t *testing.T) {
	o := load(t, `void count(uint32_t *out, uint64_t add) { __atomic_fetch_add(&out[ropeway_block_idx()], add + ropeway_block_num(), __ATOMIC_RELAXED); }`)
	for _, workers := range []int{1, 3, 0} {
		out := make([]uint32, 100)
		if f := launch(t, o, kernel.Call{Blocks: 100}, "count", workers, addr(out), 7); f != nil {
			t.Fatal(f)
		}
		for i, n := range out {
			if n != 107 {
				t.Fatalf("%d workers: block %d has %d, want 107", workers, i, n)
			}
		}
	}
}

// TestArguments: each 8 bytes are one argument, in registers and on the stack, and the buffer can be read.
func TestArguments(t *testing.T) {
	list, sum := "uint64_t *out", "0"
	for i := 1; i < 128; i++ {
		n := string(rune('0'+i/100)) + string(rune('0'+i/10%10)) + string(rune('0'+i%10))
		list += ", uint64_t a" + n
		sum += " + a" + n + " * 1" + n
	}
	o := load(t, `
void few(uint64_t *out, uint64_t a, uint64_t b) { out[0] = a * 10 + b; }
void ten(uint64_t *out, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h, uint64_t i) { out[0] = g * 100 + h * 10 + i; }
void most(`+list+`) { out[0] = `+sum+`; }
void raw(uint64_t *out) { size_t n; const struct { uint64_t *out; float f; int32_t i; } *p = ropeway_args(&n); out[0] = n; out[1] = (uint64_t)(p->f * 4); out[2] = p->i; }
`)
	out := make([]uint64, 3)
	args := make([]uint64, 130)
	args[0] = addr(out)
	var want uint64
	for i := 1; i < len(args); i++ {
		args[i] = uint64(i)
		if i < 128 {
			want += uint64(i) * uint64(1000+i)
		}
	}
	for _, c := range []struct {
		kernel string
		n      int
		want   uint64
	}{{"few", 3, 12}, {"ten", 10, 789}, {"most", 128, want}, {"most", 130, want}, {"few", 2, 10}} {
		if f := launch(t, o, kernel.Call{Blocks: 1}, c.kernel, 1, args[:c.n]...); f != nil || out[0] != c.want {
			t.Errorf("%s of %d: %d, want %d; %v", c.kernel, c.n, out[0], c.want, f)
		}
	}
	if f := launch(t, o, kernel.Call{Blocks: 1}, "raw", 1, addr(out), 0xFFFFFFFB<<32|0x40200000); f != nil ||
		out[0] != 16 || out[1] != 10 || int32(out[2]) != -5 {
		t.Errorf("raw: %v, %v", out, f)
	}
}

// TestFaults: a kernel that crashes fails, names its block, and takes the others with it; the process goes on.
func TestFaults(t *testing.T) {
	o := load(t, `
#include <stdlib.h>
void wild(volatile int *p) { if (ropeway_block_idx() == 3) *p = 1; }
void divide(uint64_t *out, uint64_t zero) { volatile int n = 1; out[0] = n / (int)zero; }
void trap(void) { __builtin_trap(); }
void give_up(void) { abort(); }
void others(volatile int *p) { if (ropeway_block_idx() == 3) *p = 1; for (;;) ; }
`)
	out := make([]uint64, 1)
	for _, c := range []struct {
		kernel string
		args   []uint64
		signal syscall.Signal
	}{
		{"wild", []uint64{64}, syscall.SIGSEGV}, {"divide", []uint64{addr(out), 0}, syscall.SIGFPE}, {"trap", nil,
			syscall.SIGILL},
		{"give_up", nil, syscall.SIGABRT}, {"wild", []uint64{1 << 62}, syscall.SIGSEGV},
	} {
		for _, workers := range []int{1, 3, 0} {
			f := launch(t, o, kernel.Call{Blocks: 8}, c.kernel, workers, c.args...)
			if f == nil || f.Signal != c.signal || f.Code == 0 || f.Error() == "" {
				t.Errorf("%s with %d workers: %v", c.kernel, workers, f)
			}
			if c.kernel == "wild" && f != nil && (f.Block != 3 || c.args[0] == 64 && f.Address != 64) {
				t.Errorf("%+v", f)
			}
		}
	}
	if f := launch(t, o, kernel.Call{Blocks: 8}, "others", 0, 64); f == nil || f.Signal != syscall.SIGSEGV {
		t.Errorf("endless blocks beside one that crashed: %v", f)
	}
}

// TestGoFaults: memory faults of Go code are Go's, before kernels and after.
func TestGoFaults(t *testing.T) {
	o := load(t, `void nothing(void) {}`)
	if f := launch(t, o, kernel.Call{Blocks: 1}, "nothing", 1); f != nil {
		t.Fatal(f)
	}
	defer func() {
		if r, ok := recover().(error); !ok || !strings.Contains(r.Error(), "nil pointer") {
			t.Errorf("recovered %v", r)
		}
	}()
	var p *int
	*p = 1 //nolint:govet // on purpose
}

// TestStop: an endless kernel ends when it is stopped, with all its blocks, and one that has ended is not touched.
func TestStop(t *testing.T) {
	o := load(t, `void endless(volatile uint32_t *in) { __atomic_fetch_add(in, 1, __ATOMIC_SEQ_CST); for (;;) ; }
void nothing(void) {}
void waits(volatile uint32_t *in) { __atomic_fetch_add(in, 1, __ATOMIC_SEQ_CST); if (ropeway_block_idx()) ropeway_block_barrier(); else for (;;) ; }`)
	for _, name := range []string{"endless", "waits"} {
		for _, late := range []bool{true, false} {
			in := make([]uint32, 1)
			args := []uint64{addr(in)}
			code, _ := o.Symbol(name)
			r := cpu(t).NewRun()
			turn := r.Begin(o, &kernel.Call{Blocks: 4, Code: [2]uintptr{code}, Per: [2]uint32{1},
				Args: uintptr(addr(args)), Size: 8})
			done := make(chan struct{})
			go func() { r.Together(func() { r.Work(nil) }); close(done) }()
			testenv.Eventually(t, "the blocks begin", func() bool { return (*(*uint32)(unsafe.Pointer(&in[0]))) >= 4 })
			r.Stop(turn-1, late)
			r.Stop(turn, late)
			<-done
			if f := r.End(); f == nil || f.Late != late || f.Signal != 0 {
				t.Errorf("%s, late %v: %v", name, late, f)
			}
			nothing, _ := o.Symbol("nothing")
			r.Begin(o, &kernel.Call{Blocks: 1, Code: [2]uintptr{nothing}, Per: [2]uint32{1}})
			r.Stop(turn, true)
			r.Work(nil)
			if f := r.End(); f != nil {
				t.Errorf("the next launch: %v", f)
			}
		}
	}
}

// TestBarrier: no block goes on before all have come, as often as they like; without threads for all of them a
// barrier fails.
func TestBarrier(t *testing.T) {
	o := load(t, `
void rounds(uint32_t *count, uint32_t *wrong) {
	for (uint32_t i = 0; i < 50; i++) {
		__atomic_fetch_add(count, 1, __ATOMIC_SEQ_CST);
		ropeway_block_barrier();
		if (__atomic_load_n(count, __ATOMIC_SEQ_CST) < (i + 1) * ropeway_block_num()) __atomic_fetch_add(wrong, 1, __ATOMIC_SEQ_CST);
		ropeway_block_barrier();
	}
}`)
	count, wrong := make([]uint32, 1), make([]uint32, 1)
	if f := launch(t, o, kernel.Call{Blocks: 8}, "rounds", 0, addr(count), addr(wrong)); f != nil || count[0] != 400 ||
		wrong[0] != 0 {
		t.Errorf("%d came, %d went on too early; %v", count[0], wrong[0], f)
	}
	if f := launch(t, o, kernel.Call{Blocks: 8}, "rounds", 1, addr(count), addr(wrong)); f == nil || !f.Barrier {
		t.Errorf("a barrier of blocks that run one after the other: %v", f)
	}
	count[0], wrong[0] = 0, 0
	if f := launch(t, o, kernel.Call{Blocks: 1}, "rounds", 1, addr(count), addr(wrong)); f != nil || count[0] != 50 ||
		wrong[0] != 0 {
		t.Errorf("a barrier of one block: %d came, %d went on too early; %v", count[0], wrong[0], f)
	}
}

// TestNeededStays: a library that a shared object needs is there after the object is unloaded, for threads that it has
// begun.
func TestNeededStays(t *testing.T) {
	kerneltest.Support(t)
	o, err := cpu(t).Load("test.so", kerneltest.Compile(t, `#include <stdint.h>
void fill(uint32_t *p, uint64_t n) {
#pragma omp parallel for num_threads(4)
	for (uint64_t i = 0; i < n; i++) p[i] = i;
}`, "-fopenmp"))
	testenv.OK(t, err)
	numbers := make([]uint32, 1000)
	if f := launch(t, o, kernel.Call{Blocks: 1}, "fill", 1, addr(numbers), 1000); f != nil || numbers[999] != 999 {
		t.Errorf("the kernel left %d; %v", numbers[999], f)
	}
	o.Close()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil || !strings.Contains(string(maps), "libgomp") {
		t.Errorf("the library of OpenMP is gone, and its threads have no code: %v", err)
	}
}

// TestHalvesRun: both halves of a mix kernel run, the doubled one with two sub-blocks for each block.
func TestHalvesRun(t *testing.T) {
	o := load(t, `
void cube(uint32_t *out) { __atomic_fetch_add(&out[ropeway_block_idx()], 1, __ATOMIC_RELAXED); }
void vector(uint32_t *out) { __atomic_fetch_add(&out[ropeway_block_idx()], 16 << 8 * ropeway_sub_block_idx(), __ATOMIC_RELAXED); }`)
	vector, _ := o.Symbol("vector")
	out := make([]uint32, 4)
	r := kernel.Call{Blocks: 4, Code: [2]uintptr{0, vector}, Per: [2]uint32{1, 2}}
	if f := launch(t, o, r, "cube", 0, addr(out)); f != nil {
		t.Fatal(f)
	}
	for i, n := range out {
		if n != 1+16+16<<8 {
			t.Errorf("block %d has %#x", i, n)
		}
	}
}

// TestSIMT: every thread of every block of the grid is called once.
func TestSIMT(t *testing.T) {
	o := load(t, `
void cell(uint32_t *out) {
	uint32_t b = (ropeway_grid_idx(2) * ropeway_grid_num(1) + ropeway_grid_idx(1)) * ropeway_grid_num(0) + ropeway_grid_idx(0);
	uint32_t i = (ropeway_thread_idx(2) * ropeway_thread_num(1) + ropeway_thread_idx(1)) * ropeway_thread_num(0) + ropeway_thread_idx(0);
	__atomic_fetch_add(&out[b * 24 + i], 1 + ropeway_thread_idx(3) + ropeway_thread_idx(-1), __ATOMIC_RELAXED);
}`)
	out := make([]uint32, 6*24)
	r := kernel.Call{Blocks: 6, Grid: [3]uint32{3, 2, 1}, Threads: [3]uint32{4, 3, 2}}
	if f := launch(t, o, r, "cell", 2, addr(out)); f != nil {
		t.Fatal(f)
	}
	for i, n := range out {
		if n != 1 {
			t.Fatalf("thread %d was called %d times", i, n)
		}
	}
}

// TestObjects: each load has variables of its own, and an object stays while something holds it.
func TestObjects(t *testing.T) {
	kerneltest.Support(t)
	image := kerneltest.Compile(t, `int n = 5; int next(void) { return ++n; }`)
	a, err := cpu(t).Load("a.so", image)
	testenv.OK(t, err)
	b, err := cpu(t).Load("a.so", image)
	testenv.OK(t, err)
	defer b.Close()
	first, _ := a.Symbol("n")
	second, _ := b.Symbol("n")
	if first == second {
		t.Error("two loads share a variable")
	}
	a.Hold()
	a.Close()
	a.Close()
	if got := *(*int32)(*(*unsafe.Pointer)(unsafe.Pointer(&first))); got != 5 {
		t.Errorf("after closing an object that is held: %d", got)
	}
	a.Release()
	if _, err := cpu(t).Load("b.so", []byte("no object")); err == nil {
		t.Error("text is loaded")
	}
}

// TestLoaderErrors: what the loader says names the file of the program.
func TestLoaderErrors(t *testing.T) {
	c := cpu(t)
	_, err := c.Load("c.so", kerneltest.Compile(t, `void missing(void); void f(void) { missing(); }`))
	want := "the shared object cannot be loaded: c.so: undefined symbol: missing"
	if err == nil || err.Error() != want {
		t.Errorf("an object with a function that nothing has: %v, want %s", err, want)
	}
	o, err := c.Load("d.so", kerneltest.Compile(t, `void f(void) {}`))
	testenv.OK(t, err)
	defer o.Close()
	if _, err := o.Symbol("g"); err == nil || err.Error() != "d.so: undefined symbol: g" {
		t.Errorf("a function that is not there: %v", err)
	}
}

// TestNeverUnloaded: an object that stays in the process is not taken for one that is loaded later.
func TestNeverUnloaded(t *testing.T) {
	kerneltest.Support(t)
	names := []string{"one", "two", "three"}
	for _, name := range names {
		o, err := cpu(t).Load("k.so", kerneltest.Compile(t, "void "+name+"(void) {}", "-Wl,-z,nodelete"))
		testenv.OK(t, err)
		if _, err := o.Symbol(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		o.Close()
	}
}

// TestTouches: what blocks say they touch is kept once, if that is wanted, and so is that it is not all.
func TestTouches(t *testing.T) {
	o := load(t, `void says(char *p, uint64_t n) {
	ROPEWAY_READS(p, 16); ROPEWAY_WRITES(p, 16); ROPEWAY_READS(p, 0);
	for (uint64_t i = 0; i < n; i++) ROPEWAY_WRITES(p + i, 1);
}`)
	code, _ := o.Symbol("says")
	args := []uint64{4096, 0}
	r := cpu(t).NewRun()
	says := func(n uint64, watch bool) ([]kernel.Touch, bool) {
		args[1] = n
		r.Begin(o, &kernel.Call{Blocks: 8, Code: [2]uintptr{code}, Per: [2]uint32{1}, Args: uintptr(addr(args)),
			Size: 16, Watch: watch})
		r.Together(func() { r.Work(nil) })
		if f := r.End(); f != nil {
			t.Fatal(f)
		}
		return r.Touched()
	}
	if list, all := says(0, true); !all || len(list) != 2 || !slices.Contains(list, kernel.Touch{Addr: 4096, N: 16}) ||
		!slices.Contains(list, kernel.Touch{Addr: 4096, N: 16, Write: true}) {
		t.Errorf("%+v, all: %v", list, all)
	}
	if list, all := says(kernel.MostTouches, true); all || len(list) != kernel.MostTouches {
		t.Errorf("%d, all: %v", len(list), all)
	}
	if list, all := says(3, false); !all || len(list) != 0 {
		t.Errorf("nobody wants to know: %+v", list)
	}
}

func BenchmarkEmpty(b *testing.B) {
	o := load(b, `void nothing(void) {}`)
	code, _ := o.Symbol("nothing")
	r, c := cpu(b).NewRun(), kernel.Call{Blocks: 1, Code: [2]uintptr{code}, Per: [2]uint32{1}}
	for b.Loop() {
		r.Begin(o, &c)
		r.Work(nil)
		r.End()
	}
}

// TestOverdue: a launch that goes on is overdue after the time, and not before.
func TestOverdue(t *testing.T) {
	o := load(t, "void nothing(void) {}")
	r := cpu(t).NewRun()
	never, end := native.Overdue(time.Hour)
	defer end()
	overdue, stop := native.Overdue(time.Millisecond)
	defer stop()
	r.Begin(o, &kernel.Call{Blocks: 1, Per: [2]uint32{1}})
	<-overdue
	r.End()
	runtime.KeepAlive(r)
	select {
	case <-never:
		t.Error("a launch is overdue within an hour")
	default:
	}
}
