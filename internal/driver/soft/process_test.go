package soft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unsafe"

	"ropeway/internal/driver"
	"ropeway/internal/kernel/kerneltest"
)

const processSource = `
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include "ropeway/kernel.h"
uint32_t count = 1;
const uint32_t fixed = 5;
void next(uint32_t *p) { p[0] = ++count; }
void ids(uint32_t *p) { p[0] = getpid(); p[1] = getppid(); }
void ends(void) { exit(0); }
void ends_at_once(void) { _exit(3); }
void is_killed(void) { kill(getpid(), SIGKILL); }
static int deep(volatile int n) { volatile char room[4096]; room[n & 4095] = n; return n < 0 ? 0 : deep(n + 1) + room[0]; }
void recurses(void) { if (deep(1) == 3) abort(); }
void gives_up(void) { abort(); }
void writes(volatile uint64_t *p) { *p = 1; }
void handles(void) { signal(SIGSEGV, SIG_IGN); *(volatile int *)8 = 1; }
void locks(void) { char *volatile p = malloc(100); free(p); __builtin_trap(); }
void begins(volatile uint32_t *flags) { flags[0] = 1; while (!flags[1]) ; flags[2] = 1; }
void forks(void) { if (!fork()) for (;;) pause(); _exit(0); }
void moved(uint32_t *to, const uint32_t *from, uint64_t n) { for (uint64_t i = 0; i < n; i++) to[i] = from[i] + 1; }
`

// processBench is a device with processSource on it, whose kernels have a process of their own.
func processBench(t *testing.T) *kernelBench {
	b := newKernelBench(t, Options{KernelProcess: true})
	b.m.Unload()
	var err error
	if b.m, err = b.d.LoadModule(0, "test.so", kerneltest.Compile(t, processSource)); err != nil {
		t.Fatal(err)
	}
	return b
}

// pids are the process that runs kernels, and its keeper.
func (b *kernelBench) pids() (runs, keeps uint32) {
	b.Helper()
	p := b.alloc(8)
	b.launch("ids", 1, nil, p)
	w := b.words(p, 2)
	return w[0], w[1]
}

// awaitGone waits until a process is no more, not even one that its keeper has not waited for.
func awaitGone(t *testing.T, pid uint32) {
	t.Helper()
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		status := string(text)
		if err != nil || strings.Contains(status, "State:\tZ") && strings.Contains(status, "PPid:\t1\n") {
			return // the first process of the system waits when it likes
		}
		if time.Since(start) > time.Minute {
			t.Fatalf("process %d is still there:\n%.200s", pid, status)
		}
	}
}

// TestKernelEndsProcess: whatever a kernel does to its process, its launch fails, the process is replaced by one with
// the same memory and variables, and nothing is left of it.
func TestKernelEndsProcess(t *testing.T) {
	b := processBench(t)
	p := b.alloc(4)
	for i, c := range []struct {
		kernel string
		want   driver.KernelFailure
	}{
		{"ends", driver.KernelTrap}, {"ends_at_once", driver.KernelException}, {"is_killed", driver.KernelException},
		{"recurses", driver.KernelException}, {"gives_up", driver.KernelTrap}, {"handles", driver.KernelException},
		{"locks", driver.KernelTrap}, {"forks", driver.KernelException},
	} {
		before, _ := b.pids()
		b.launch(c.kernel, 1, nil)
		var e *driver.KernelError
		if err := b.failure(); !errors.As(err, &e) || e.Failure != c.want {
			t.Errorf("%s: %v, want failure %d", c.kernel, err, c.want)
		}
		awaitGone(t, before)
		b.launch("next", 1, nil, p)
		if got := b.words(p, 1)[0]; got != uint32(i+2) {
			t.Errorf("after %s the variable is %d, want %d", c.kernel, got, i+2)
		}
	}
	if err := b.failure(); err != nil {
		t.Error(err)
	}
}

// TestKernelStaysOut: memory of the program is out of reach of a kernel, and so is device memory of the program's.
func TestKernelStaysOut(t *testing.T) {
	b := processBench(t)
	mine := new(uint64)
	b.launch("writes", 1, nil, uintptr(unsafe.Pointer(mine)))
	var e *driver.KernelError
	if err := b.failure(); !errors.As(err, &e) || e.Failure != driver.KernelException {
		t.Errorf("a write to memory of the program: %v", err)
	}
	if *mine != 0 {
		t.Error("the kernel changed memory of the program")
	}
	b.launch("writes", 1, nil, b.d.base+1<<b.d.shift+64)
	if err := b.failure(); !errors.As(err, &e) || e.Failure != driver.KernelMemory {
		t.Errorf("a write to a device that is not open: %v", err)
	}
}

// TestOthersGoOn: a kernel that fails does not end those that run beside it.
func TestOthersGoOn(t *testing.T) {
	b := processBench(t)
	other := b.dev.NewQueue(driver.QueueOptions{Sink: &b.log})
	defer other.Close()
	flags := b.alloc(12)
	b.fill(flags, 3, 0)
	b.q.Wait(0, nil)
	code, _ := b.m.Code("begins")
	args, _ := b.d.AllocHost(8)
	binary.LittleEndian.PutUint64(bytesAt(args, 8), uint64(flags))
	other.Submit(driver.Op{Kind: driver.OpLaunch, Launch: &driver.Launch{Module: b.m, Code: [2]uintptr{code},
		Per: [2]uint32{1}, Blocks: 1, Args: args, Size: 8, Copied: true}})
	view, _ := b.d.View(flags, 12)
	for start := time.Now(); binary.LittleEndian.Uint32(view) == 0; time.Sleep(time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatal("the kernel does not begin")
		}
	}
	b.launch("gives_up", 1, nil)
	if err := b.failure(); err == nil {
		t.Error("abort did not fail")
	}
	binary.LittleEndian.PutUint32(view[4:], 1)
	other.Wait(0, nil)
	if got := binary.LittleEndian.Uint32(view[8:]); got != 1 {
		t.Errorf("the other kernel wrote %d, want 1", got)
	}
	if err := b.failure(); err != nil {
		t.Errorf("the other kernel: %v", err)
	}
}

// TestProcessGoes: closing the driver ends all processes.
func TestProcessGoes(t *testing.T) {
	b := processBench(t)
	runs, keeps := b.pids()
	if runs == uint32(os.Getpid()) || keeps == uint32(os.Getpid()) {
		t.Fatal("kernels run in this process, or in a child of it")
	}
	b.q.Close()
	b.dev.Close()
	b.d.Close()
	awaitGone(t, runs)
	awaitGone(t, keeps)
}

// TestMemoryOfKernelProcess: kernels see every kind of memory at its address, also what comes, goes or moves to
// another file after the process was started.
func TestMemoryOfKernelProcess(t *testing.T) {
	b := processBench(t)
	b.pids() // a process runs
	const n = 1000
	second, err := b.d.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	there, err := second.Alloc(4*n, driver.PageNormal)
	if err != nil {
		t.Fatal(err)
	}
	pinned, err := b.d.AllocHost(4 * n)
	if err != nil {
		t.Fatal(err)
	}
	managed, err := b.d.AllocManaged(extent, 0)
	if err != nil {
		t.Fatal(err)
	}
	shared := b.alloc(128 << 10)
	from := b.alloc(4 * n)
	value := uint32(1)
	check := func(what string, to uintptr) {
		t.Helper()
		value += 10
		b.fill(from, n, value)
		b.launch("moved", 1, nil, to, from, n)
		if err := b.failure(); err != nil {
			t.Errorf("%s: %v", what, err)
		} else if w := b.words(to, n); w[0] != value+1 || w[n-1] != value+1 {
			t.Errorf("%s: %d and %d, want %d", what, w[0], w[n-1], value+1)
		}
	}
	check("another device", there)
	check("pinned memory", pinned)
	check("managed memory", managed)
	check("memory that is not shared", shared)
	s, err := b.d.ShareAt(shared)
	if err != nil {
		t.Fatal(err)
	}
	defer s.File.Close()
	check("shared memory", shared)
	file := make([]byte, 4)
	if _, err := s.File.ReadAt(file, int64(s.Offset)); err != nil || binary.LittleEndian.Uint32(file) != value+1 {
		t.Errorf("the other process sees %v: %v", file, err)
	}
	if err := b.dev.Free(shared); err != nil {
		t.Fatal(err)
	}
	check("memory where shared memory was", b.alloc(128<<10))
	if err := b.d.FreeManaged(managed); err != nil {
		t.Fatal(err)
	}
	b.launch("writes", 1, nil, managed)
	if err := b.failure(); err == nil {
		t.Error("managed memory that was freed is still there")
	}
	if _, err := b.m.Global("fixed", 4); err == nil || !strings.Contains(err.Error(), "constant") {
		t.Errorf("a constant: %v", err)
	}
}

// TestObjectsOfKernelProcess: a binary that is loaded or unloaded later changes nothing for the others; one that ends
// the process when it is loaded is refused.
func TestObjectsOfKernelProcess(t *testing.T) {
	b := processBench(t)
	p := b.alloc(4)
	b.launch("next", 1, nil, p)
	b.q.Wait(0, nil)
	first := b.m
	for range 3 {
		m, err := b.d.LoadModule(0, "more.so", kerneltest.Compile(t, kernelSource))
		if err != nil {
			t.Fatal(err)
		}
		b.m = m
		b.fill(p, 1, 5)
		b.launch("times", 1, nil, p, 1)
		if got := b.words(p, 1)[0]; got != 15 {
			t.Errorf("%d, want 15", got)
		}
		m.Unload()
	}
	b.m = first
	b.launch("next", 1, nil, p)
	if got := b.words(p, 1)[0]; got != 3 {
		t.Errorf("the variable of the first binary is %d, want 3", got)
	}
	for _, source := range []string{
		"#include <stdlib.h>\n__attribute__((constructor)) static void f(void) { abort(); }",
		"void missing(void); void f(void) { missing(); }"} {
		if _, err := b.d.LoadModule(0, "bad.so", kerneltest.Compile(t, source)); err == nil ||
			!strings.Contains(err.Error(), "cannot be loaded") {
			t.Errorf("%s: %v", source, err)
		}
	}
	b.launch("next", 1, nil, p)
	if got := b.words(p, 1)[0]; got != 4 {
		t.Errorf("after binaries that cannot be loaded the variable is %d, want 4", got)
	}
	if err := b.failure(); err != nil {
		t.Error(err)
	}
}
