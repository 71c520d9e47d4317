package launch_test

import (
	"runtime"
	"sync"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/launch"
	"ropeway/internal/core/model"
	"ropeway/internal/core/process"
)

// TestLaunchAgain: a plain launch of a function that was launched before is refused, captured, limited and stopped as
// the first one.
func TestLaunchAgain(t *testing.T) {
	b := newBench(t, "A2")
	f, s := b.function("times"), b.Stream(b.Th)
	p := b.words(1, 1)
	args := host(uint64(p), 1)
	again := func(th *core.Thread, f, s core.Handle, blocks uint32) *core.Error {
		return launch.LaunchKernelWithHostArgs(th, f, blocks, s, nil, core.AddrOf(args), 16, nil, 0)
	}
	is := func(want uint32) {
		t.Helper()
		b.OK(b.Th.SynchronizeStream(s))
		if got := b.read(p, 1)[0]; got != want {
			t.Fatalf("the word is %d, want %d", got, want)
		}
	}
	for range 3 {
		b.OK(again(b.Th, f, s, 1))
	}
	b.OK(again(b.Th, f, 0, 1))
	b.OK(b.Th.SynchronizeStream(0))
	is(81)
	b.Want(again(b.Th, f, s, 0), abi.ErrRTParamInvalid)
	b.Want(again(b.Th, f, s+1<<30, 1), abi.ErrRTInvalidHandle)
	b.Want(launch.LaunchKernelWithHostArgs(b.Th, f, 1, s, nil, 0, 16, nil, 0), abi.ErrInvalidParam)

	other := b.NewThread(1) // where no function was looked up
	b.Want(again(other, f, 0, 1), abi.ErrRTInvalidHandle)
	b.Want(again(other, f, s, 1), abi.ErrRTStreamContext)

	var m core.Handle
	b.OK(model.MdlRICaptureBegin(b.Th, s, abi.ModelRiCaptureModeRelaxed))
	b.OK(again(b.Th, f, s, 1))
	b.OK(model.MdlRICaptureEnd(b.Th, s, &m))
	is(81) // it is captured, and did not run
	b.OK(model.MdlRIExecuteAsync(b.Th, m, s))
	is(243)
	b.OK(model.MdlRIDestroy(b.Th, m))

	patient := b.function("patient")
	flag := b.words(1, 1)
	args = host(uint64(flag), 0)
	b.OK(again(b.Th, patient, s, 1))
	b.OK(b.Th.SynchronizeStream(s))
	args = host(uint64(b.words(1, 0)), 0) // never set
	b.OK(process.SetOpExecuteTimeOutWithMs(b.Th, 20))
	b.OK(again(b.Th, patient, s, 1))
	b.Want(b.Th.SynchronizeStream(s), abi.ErrRTAicoreTimeout)

	args = host(uint64(p), 1)
	b.OK(launch.BinaryUnLoad(b.Th, b.bin))
	b.Want(again(b.Th, f, s, 1), abi.ErrRTInvalidHandle)
	is(243)
}

// TestLaunchAllocs: launches that are like the one before them allocate nothing, in the thread that makes them and in
// those that run them.
func TestLaunchAllocs(t *testing.T) {
	b := newBench(t, "A2")
	f, s := b.function("add_7"), b.Stream(b.Th)
	x, y := b.words(4, 0), b.words(4, 0)
	given := host(uint64(x), uint64(y), 4)
	device := b.words(6, 0)
	for name, call := range map[string]func() *core.Error{
		"arguments on the host": func() *core.Error {
			return launch.LaunchKernelWithHostArgs(b.Th, f, 1, s, nil, core.AddrOf(given), 24, nil, 0)
		},
		"arguments on the device": func() *core.Error { return launch.LaunchKernel(b.Th, f, 1, device, 24, s) },
	} {
		row := func() {
			for range 100 {
				b.OK(call())
			}
			// A wait may allocate: the race detector drops values of a sync.Pool.
			for status := abi.StreamStatusNotReady; status != abi.StreamStatusComplete; runtime.Gosched() {
				b.OK(b.Th.StreamQuery(s, &status))
			}
		}
		// How many launches are in flight at once depends on the machine. The queue and both lists of free blocks grow
		// to what 100 of them need before anything is counted.
		for range 3 {
			gate := make(chan struct{})
			b.OK(b.Th.LaunchHostFunc(s, func(core.Addr) { <-gate }, 0))
			for range 128 {
				b.OK(call())
			}
			close(gate)
			b.OK(b.Th.SynchronizeStream(s))
		}
		if n := testing.AllocsPerRun(20, row); n != 0 {
			t.Errorf("%s: 100 launches allocate %v times", name, n)
		}
	}
}

// TestLaunchesMany: threads launch on streams of their own, and memory of arguments is not used before its launch is
// over: each launch sees its own.
func TestLaunchesMany(t *testing.T) {
	b := newBench(t, "A2")
	const threads, launches = 4, 3000
	f := b.function("count")
	var counts [threads]core.Addr
	var wg sync.WaitGroup
	for i := range threads {
		p := b.words(2, 0)
		counts[i] = p
		th := b.NewThread(0)
		s := b.Stream(th)
		wg.Go(func() {
			for n := range uint64(launches) {
				args := host(uint64(p), n, uint64(i)<<32|n) // the kernel compares the two
				if n%2 == 1 {
					args = append(args, make([]byte, 500)...) // of another size
				}
				b.OK(launch.LaunchKernelWithHostArgs(th, f, 1, s, nil, core.AddrOf(args), uint64(len(args)), nil, 0))
				clear(args)
			}
			b.OK(th.SynchronizeStream(s))
		})
	}
	wg.Wait()
	for _, p := range counts {
		if got := b.read(p, 2); got[0] != launches || got[1] != 0 {
			t.Errorf("%d launches came in their order, %d did not; want %d and 0", got[0], got[1], launches)
		}
	}
}

// TestLaunchAgainChanges proves that launches that use the memory of earlier ones have their own arguments: what stays
// the same from one to the next is not written again.
func TestLaunchAgainChanges(t *testing.T) {
	b := newBench(t, "A2")
	s := b.Stream(b.Th)
	const words = 8
	p := b.words(words, 1)
	want := [words]uint32{1, 1, 1, 1, 1, 1, 1, 1}
	times, count := b.function("times"), b.function("count")
	for i := range 3000 {
		at, n := i*7%words, 1+i/3%2
		n = min(n, words-at)
		if i%5 == 4 { // adds 1 to the second word after at, if the first is not n
			if at = min(at, words-2); want[at] == 0 {
				continue
			}
			args := host(uint64(p)+uint64(4*at), 0, 0)
			b.OK(launch.LaunchKernelWithHostArgs(b.Th, count, 1, s, nil, core.AddrOf(args), 24, nil, 0))
			want[at+1]++
			continue
		}
		args := host(uint64(p)+uint64(4*at), uint64(n))
		b.OK(launch.LaunchKernelWithHostArgs(b.Th, times, 1, s, nil, core.AddrOf(args), 16, nil, 0))
		for k := at; k < at+n; k++ {
			want[k] *= 3
		}
		if i%97 == 0 {
			b.OK(b.Th.SynchronizeStream(s))
		}
	}
	b.OK(b.Th.SynchronizeStream(s))
	if got := [words]uint32(b.read(p, words)); got != want {
		t.Errorf("the words are %v, want %v", got, want)
	}
}
