package check

import (
	"slices"
	"strings"
	"testing"
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
)

// endless is a kernel that does not end by itself.
const endless = "void k(volatile int *p) { for (;;) p[0]++; }"

// TestKernelWithinLimit: a wait with a limit ends in time, whatever the kernel does, and the stream proceeds after the
// kernel has been aborted.
func TestKernelWithinLimit(t *testing.T) {
	p := begin(t)
	f, s, e, dev := p.kernel(endless), p.stream(), p.event(latest), p.dev(4096)
	waits := map[abi.Code][]func() *core.Error{
		abi.ErrRTStreamSyncTimeout: {
			func() *core.Error { return p.SynchronizeStreamWithTimeout(s, 20) },
			func() *core.Error { return p.SynchronizeDeviceWithTimeout(20) },
		},
		abi.ErrRTEventSyncTimeout: {func() *core.Error { return p.SynchronizeEventWithTimeout(e, 20) }},
	}
	for code, list := range waits {
		for _, wait := range list {
			p.launch(f, s, dev)
			p.ok(p.RecordEvent(e, s))
			if err := wait(); err == nil || err.Code != code {
				t.Fatalf("a wait for an endless kernel: %v, want %d", err, code)
			}
			if err := wait(); err == nil || err.Code != code {
				t.Fatalf("a second wait: %v, want %d", err, code)
			}
			p.ok(p.StreamAbort(s))
			p.ok(p.SynchronizeStream(s))
		}
	}
	p.silent()
}

// TestKernelQueried: a query starts a kernel and does not wait for its end.
func TestKernelQueried(t *testing.T) {
	p := begin(t, soon)
	f, s, e, dev := p.kernel(endless), p.stream(), p.event(latest), p.dev(4096)
	p.launch(f, s, dev)
	p.ok(p.RecordEvent(e, s))
	for range 3 {
		var status abi.StreamStatus
		p.ok(p.StreamQuery(s, &status))
		var recorded abi.EventRecordedStatus
		p.ok(p.QueryEventStatus(e, &recorded))
		if status != abi.StreamStatusNotReady || recorded != abi.EventRecordedStatusNotReady {
			t.Fatalf("an endless kernel: stream %v, event %v", status, recorded)
		}
	}
	p.ok(p.StreamAbort(s))
}

// TestKernelRunsBeside: an endless kernel of one stream blocks no other stream, in any order of work, and no free of
// memory that it does not use.
func TestKernelRunsBeside(t *testing.T) {
	for seed := range uint64(6) {
		p := begin(t, soon, func(o *Options) { o.Seed = seed })
		f, s, other := p.kernel(endless), p.stream(), p.stream()
		dev, to, host := p.dev(4096), p.dev(4096), p.pinned(4096)
		p.launch(f, s, dev)
		for range 8 {
			p.up(to, host, 4096, other)
		}
		p.ok(p.SynchronizeStream(other))
		p.ok(memory.Free(p.Thread, p.gone(to)))
		p.ok(p.StreamAbort(s))
		p.silent()
	}
}

// TestFreeUnderKernel: memory given to a running kernel is in flight.
func TestFreeUnderKernel(t *testing.T) {
	p := begin(t, soon)
	f, s, dev := p.kernel("void k(volatile int *p) { p[0] = 1; for (;;) ; }"), p.stream(), p.dev(4096)
	p.launch(f, s, dev)
	if err := p.SynchronizeStreamWithTimeout(s, 10); err == nil {
		t.Fatal("the kernel has ended")
	}
	began := time.Now()
	p.ok(memory.Free(p.Thread, p.gone(dev)))
	if d := time.Since(began); d > hang/2 {
		t.Errorf("the free took %v", d)
	}
	if d := p.only("free-in-flight"); !strings.Contains(d.Summary, "that a pending kernel k of ") {
		t.Errorf("%s", d.Summary)
	}
	p.ok(p.StreamAbort(s))
	p.only("free-in-flight") // and no second one about the kernel that uses it
}

// TestFunctionsInARow: the functions that a wait needs run one after another, with the copies between them. If one does
// not end, the wait ends in time, and other streams proceed.
func TestFunctionsInARow(t *testing.T) {
	for seed := range uint64(6) {
		p := begin(t, soon, func(o *Options) { o.Seed = seed })
		s, other, host, dev := p.stream(), p.stream(), p.pinned(64), p.dev(64)
		var ran []int
		gate := make(chan struct{})
		for i := range 4 {
			p.up(dev, host, 64, s)
			p.ok(p.LaunchHostFunc(s, func(core.Addr) {
				ran = append(ran, i)
				if i == 2 {
					<-gate
				}
			}, 0))
		}
		p.up(p.dev(64), p.pinned(64), 64, other)
		if err := p.SynchronizeStreamWithTimeout(s, 200); err == nil || err.Code != abi.ErrRTStreamSyncTimeout {
			t.Fatalf("seed %d: a wait for a function that does not end: %v", seed, err)
		}
		p.ok(p.SynchronizeStream(other))
		close(gate)
		p.ok(p.SynchronizeStream(s))
		if !slices.Equal(ran, []int{0, 1, 2, 3}) {
			t.Errorf("seed %d: functions ran in the order %v", seed, ran)
		}
		p.silent()
	}
}
