package core_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver"
	"ropeway/internal/driver/faulty"
	"ropeway/internal/driver/soft"
	"ropeway/internal/product"
	"ropeway/internal/testenv"
)

// blockingWorld is a runtime under launch blocking, with some memory.
type blockingWorld struct {
	*testing.T
	rt        *core.Runtime
	drv       *faulty.Driver
	th        *core.Thread
	s         core.Handle
	host, dev core.Addr // blockingBytes each
	pageable  []byte
}

const blockingBytes = 256 << 10 // more than a submitter copies itself

func newBlocking(t *testing.T, name string) *blockingWorld {
	t.Helper()
	p, err := product.Find(name, "")
	testenv.OK(t, err)
	d, err := soft.New(soft.Options{Devices: 1, Memory: 64 << 20})
	testenv.OK(t, err)
	w := &blockingWorld{T: t, drv: faulty.Wrap(d), pageable: make([]byte, 64)}
	w.rt = core.New(core.Options{Driver: w.drv, Product: p, Blocking: true})
	t.Cleanup(func() {
		if err := w.rt.Close(); err != nil {
			t.Error(err)
		}
	})
	w.th = w.rt.NewThread(1)
	must(t, w.th.SetDevice(0))
	must(t, w.th.CreateStream(&w.s))
	must(t, memory.MallocHost(w.th, &w.host, blockingBytes))
	must(t, memory.Malloc(w.th, &w.dev, blockingBytes, abi.MemMallocHugeFirst))
	return w
}

// gate closes the stream: what is submitted runs after open was called.
func (w *blockingWorld) gate() (open func()) {
	entered, gate, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	other := in(w.T, w.rt, 2)
	go func() {
		defer close(over)
		fine(w.T, other.LaunchHostFunc(w.s, func(core.Addr) { close(entered); <-gate }, 0))
	}()
	<-entered
	return func() { close(gate); <-over }
}

// launches are the calls that wait under launch blocking, by name. Each writes to device memory, except the host
// function.
func (w *blockingWorld) launches() map[string]func() *core.Error {
	const n = blockingBytes
	one := func(p core.Addr) *core.Addr { return &p }
	size, zero, at := uint64(n), uint64(0), uint64(0)
	attr := abi.MemcpyBatchAttr{DstLoc: abi.MemLocation{Type: abi.MemLocationTypeDevice}}
	desc, cells, from := w.descriptor()
	return map[string]func() *core.Error{
		"MemcpyAsync": func() *core.Error {
			return transfer.MemcpyAsync(w.th, w.dev, n, w.host, n, abi.MemcpyHostToDevice, w.s)
		},
		"MemcpyAsync small": func() *core.Error {
			return transfer.MemcpyAsync(w.th, w.dev, n, w.host, 64, abi.MemcpyHostToDevice, w.s)
		},
		"MemcpyAsync buffered": func() *core.Error {
			return transfer.MemcpyAsync(w.th, w.dev, n, core.AddrOf(w.pageable), 64, abi.MemcpyHostToBufToDevice, w.s)
		},
		"MemcpyAsyncWithCondition": func() *core.Error {
			return transfer.MemcpyAsyncWithCondition(w.th, w.dev, n, w.host, n, abi.MemcpyHostToDevice, w.s)
		},
		"Memcpy2dAsync": func() *core.Error {
			return transfer.Memcpy2dAsync(w.th, w.dev, 1024, w.host, 1024, 512, n/1024, abi.MemcpyHostToDevice, w.s)
		},
		"MemcpyBatchAsync": func() *core.Error {
			return transfer.MemcpyBatchAsync(w.th, one(w.dev), &size, one(w.host), &size, 1, &attr, &zero, 1, &at, w.s)
		},
		"MemcpyBatchAsyncV2": func() *core.Error {
			return transfer.MemcpyBatchAsyncV2(w.th, one(w.dev), &size, one(w.host), &size, 1, &attr, &zero, 1, w.s)
		},
		"MemcpyAsyncWithDesc": func() *core.Error {
			return transfer.MemcpyAsyncWithDesc(w.th, desc, abi.MemcpyInnerDeviceToDevice, w.s)
		},
		"MemcpyAsyncWithOffset": func() *core.Error {
			return transfer.MemcpyAsyncWithOffset(w.th, cells, n, 0, cells+8, from, 0, abi.MemcpyInnerDeviceToDevice,
				w.s)
		},
		"MemsetAsync":    func() *core.Error { return transfer.MemsetAsync(w.th, w.dev, n, 7, n, w.s) },
		"MemsetD32Async": func() *core.Error { return transfer.MemsetD32Async(w.th, w.dev, n, 7, n/4, w.s) },
		"LaunchHostFunc": func() *core.Error { return w.th.LaunchHostFunc(w.s, func(core.Addr) {}, 0) },
		"ReduceAsync": func() *core.Error {
			return transfer.ReduceAsync(w.th, w.dev, w.host, n, abi.MemcpySdmaAutomaticSum, abi.DataTypeInt32, w.s, 0)
		},
	}
}

// descriptor makes what copies need that are read on the device: a descriptor, two cells with addresses, and how many
// bytes both copy.
func (w *blockingWorld) descriptor() (desc, cells core.Addr, n uint64) {
	w.Helper()
	const bytes = blockingBytes
	var source core.Addr
	must(w, memory.Malloc(w.th, &desc, 4096, abi.MemMallocHugeFirst))
	must(w, memory.Malloc(w.th, &source, bytes, abi.MemMallocHugeFirst))
	must(w, transfer.Memset(w.th, source, bytes, 9, bytes))
	must(w, transfer.SetMemcpyDesc(w.th, desc, abi.MemcpyInnerDeviceToDevice, source, w.dev, bytes, 0))
	cells = desc + 1024
	var pair core.Addr
	must(w, memory.MallocHost(w.th, &pair, 16))
	room := view(pair, 16)
	for i := range 8 {
		room[i], room[8+i] = byte(w.dev>>(8*i)), byte(source>>(8*i))
	}
	must(w, transfer.Memcpy(w.th, cells, 16, pair, 16, abi.MemcpyHostToDevice))
	return desc, cells, bytes
}

// TestBlockingWaits: under launch blocking a call returns when its task and all before it are done.
func TestBlockingWaits(t *testing.T) {
	for name := range newBlocking(t, "A2").launches() {
		t.Run(name, func(t *testing.T) {
			w := newBlocking(t, "A2")
			launch := w.launches()[name]
			open := w.gate()
			var opened, back atomic.Bool
			over := make(chan struct{})
			go func() {
				defer close(over)
				for !back.Load() && testenv.Parked("core.(*Stream).Wait") == 0 {
					time.Sleep(100 * time.Microsecond)
				}
				opened.Store(!back.Load())
				open()
			}()
			err := launch()
			back.Store(true)
			if err != nil {
				t.Error(err)
			}
			if !opened.Load() {
				t.Error("returned while the stream was held")
			}
			<-over
			var status abi.StreamStatus
			if must(t, w.th.StreamQuery(w.s, &status)); status != abi.StreamStatusComplete {
				t.Error("returned before the stream was done")
			}
		})
	}
}

// TestBlockingFailsAtTheCall: the call that made a failing task returns its error, and the next synchronisation does
// not.
func TestBlockingFailsAtTheCall(t *testing.T) {
	w := newBlocking(t, "A2")
	for name, launch := range w.launches() {
		if name == "LaunchHostFunc" { // functions of the program do not fail
			continue
		}
		t.Run(name, func(t *testing.T) {
			w.drv.Fail(faulty.Task, 1, driver.ErrFault)
			err := launch()
			if err == nil || err.Code != abi.ErrRTSysDma || !errors.Is(err, driver.ErrFault) {
				t.Errorf("got %v", err)
			}
			if err := w.th.SynchronizeStream(w.s); err != nil {
				t.Errorf("reported again: %v", err)
			}
			if err := launch(); err != nil {
				t.Errorf("the next one: %v", err)
			}
		})
	}
}

// TestBlockingLateErrors: what the 310 accepts and fails later fails at the call.
func TestBlockingLateErrors(t *testing.T) {
	w := newBlocking(t, "310")
	err := transfer.MemcpyAsync(w.th, w.dev, blockingBytes, core.AddrOf(w.pageable), 64, abi.MemcpyHostToDevice, w.s)
	if err == nil || err.Code != abi.ErrRTSysDma || err.API != "aclrtMemcpyAsync" {
		t.Errorf("got %v", err)
	}
	must(t, w.th.SynchronizeStream(w.s))
}

// TestBlockingOverUB: a batch on the 950, which is queued as a whole, waits as well.
func TestBlockingOverUB(t *testing.T) {
	w := newBlocking(t, "950")
	w.drv.Fail(faulty.Task, 1, driver.ErrFault)
	if err := w.launches()["MemcpyBatchAsync"](); err == nil || err.Code != abi.ErrRTSysDma {
		t.Errorf("got %v", err)
	}
}

// TestBlockingLetsEventsPass: records, waits and functions for report threads return while their stream is held; else
// a program that submits them before what lets them go on would hang.
func TestBlockingLetsEventsPass(t *testing.T) {
	w := newBlocking(t, "A2")
	var event, other core.Handle
	must(t, w.th.CreateEvent(&event))
	must(t, w.th.CreateStream(&other))
	open := w.gate()
	must(t, w.th.RecordEvent(event, w.s))
	must(t, w.th.StreamWaitEvent(other, event))
	var status abi.StreamStatus
	if must(t, w.th.StreamQuery(other, &status)); status != abi.StreamStatusNotReady {
		t.Error("the wait is over before the record")
	}
	open()
	must(t, w.th.SynchronizeStream(other))

	w.th.SetPthread(7)
	must(t, w.th.SubscribeReport(7, other))
	ran := false
	must(t, w.th.LaunchCallback(func(core.Addr) { ran = true }, 0, abi.CallbackBlock, other))
	if ran {
		t.Error("the callback ran before its thread asked for it")
	}
	must(t, w.th.ProcessReport(-1))
	if !ran {
		t.Error("the callback did not run")
	}
	must(t, w.th.UnSubscribeReport(7, other))
}

// TestBlockingSkipsPersistentStreams: no call waits for streams that only a model runs.
func TestBlockingSkipsPersistentStreams(t *testing.T) {
	w := newBlocking(t, "A2")
	var s core.Handle
	must(t, w.th.CreateStreamWithConfig(&s, 0, abi.StreamPersistent))
	must(t, transfer.MemcpyAsync(w.th, w.dev, blockingBytes, w.host, 64, abi.MemcpyHostToDevice, s))
	must(t, w.th.DestroyStreamForce(s))
}
