package soft

import (
	"encoding/binary"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/kernel"
	"ropeway/internal/kernel/kerneltest"
	"ropeway/internal/testenv"
)

// seenBy makes a launch store its report of touched pages in list and all.
func seenBy(list *[]kernel.Touch, all *bool) func(*driver.Launch) {
	return func(l *driver.Launch) {
		l.Seen = func(touched []kernel.Touch, complete bool) { *list, *all = touched, complete }
	}
}

// noFailure fails the test if an operation has failed.
func (b *kernelBench) noFailure() {
	b.Helper()
	select {
	case err := <-b.log.failed:
		b.Fatal(err)
	default:
	}
}

// TestSeen: the guarded pages that a kernel touches are reported, also if the kernel loads their address from memory.
// Copies of other queues are not reported, and device memory is closed before and after.
func TestSeen(t *testing.T) {
	b := newKernelBench(t, Options{Guard: true})
	cell, target, other := b.alloc(64), b.alloc(3*pageSize), b.alloc(64<<10)
	b.fill(target, 3*1024, 41)
	b.fill(other, 16<<10, 7)
	b.words(target, 1)
	at, err := b.d.View(cell, 8)
	testenv.OK(t, err)
	binary.LittleEndian.PutUint64(at, uint64(target+pageSize))
	var list []kernel.Touch
	var all bool
	b.launch("follow", 1, seenBy(&list, &all), cell)
	if got := b.words(target+pageSize, 1)[0]; got != 42 {
		t.Errorf("the kernel left %d", got)
	}
	b.noFailure()
	want := []kernel.Touch{{Addr: cell, N: pageSize}, {Addr: target + pageSize, N: pageSize, Write: true}}
	slices.SortFunc(want, func(x, y kernel.Touch) int { return int(int64(x.Addr) - int64(y.Addr)) })
	if !all || !slices.Equal(list, want) {
		t.Errorf("all %v, %v, want %v", all, list, want)
	}
	for _, p := range []uintptr{cell, target, target + pageSize, other} {
		if b.d.Accessible(p, false) {
			t.Errorf("%#x is open after the kernel", p)
		}
	}
}

// TestSeenTwoAtOnce: a kernel that waits for another one runs together with it, with all memory open, and both reports
// are incomplete; the next kernel is watched again.
func TestSeenTwoAtOnce(t *testing.T) {
	was := aside
	defer func() { aside = was }()
	aside = 20 * time.Millisecond
	b := newKernelBench(t, Options{Guard: true})
	m, err := b.d.LoadModule(0, "wait.so", kerneltest.Compile(t, `#include <stdint.h>
void wait(volatile uint32_t *p) { p[1] = 1; while (!__atomic_load_n(p, __ATOMIC_ACQUIRE)) ; }
void go(uint32_t *p) { __atomic_store_n(p, 1, __ATOMIC_RELEASE); }`))
	testenv.OK(t, err)
	b.m = m
	flag := b.alloc(64)
	b.fill(flag, 16, 0)
	b.words(flag, 1)
	var lists [2][]kernel.Touch
	alls := [2]bool{true, true}
	var over atomic.Int32
	b.launch("wait", 1, func(l *driver.Launch) {
		l.Seen = func(list []kernel.Touch, all bool) { lists[0], alls[0] = list, all; over.Add(1) }
	}, flag)
	words, err := b.d.View(flag, 8)
	testenv.OK(t, err)
	for words[4] == 0 { // it runs
		runtime.Gosched()
	}
	first := b.q
	b.q = b.dev.NewQueue(driver.QueueOptions{Events: driver.Events{Failed: b.log.TaskFailed}})
	t.Cleanup(b.q.Close)
	b.launch("go", 1, func(l *driver.Launch) {
		l.Seen = func(list []kernel.Touch, all bool) { lists[1], alls[1] = list, all; over.Add(1) }
	}, flag)
	b.q.Wait(0, nil)
	first.Wait(0, nil)
	b.noFailure()
	if over.Load() != 2 || alls[0] || alls[1] {
		t.Errorf("%d are over, all %v", over.Load(), alls)
	}
	if b.d.Accessible(flag, false) {
		t.Error("device memory is open after both")
	}
	var list []kernel.Touch
	var all bool
	b.launch("go", 1, seenBy(&list, &all), flag)
	b.q.Wait(0, nil)
	if want := []kernel.Touch{{Addr: flag, N: pageSize, Write: true}}; !all || !slices.Equal(list, want) {
		t.Errorf("all %v, %v, want %v", all, list, want)
	}
}
