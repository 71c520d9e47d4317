package core_test

import (
	"testing"
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
)

// TestPassIsNoFreePass changes one thing between two copies of a thread that are otherwise alike: the second must be
// answered as if there had been no first one.
func TestPassIsNoFreePass(t *testing.T) {
	const n = 4096
	type world struct {
		testing.TB
		rt              *core.Runtime
		th              *core.Thread
		s               core.Handle
		host, dev, dev2 core.Addr
	}
	copies := func(w *world, dst, src core.Addr, destMax, count uint64, kind abi.MemcpyKind, s core.Handle) abi.Code {
		return w.th.Done(transfer.MemcpyAsync(w.th, dst, destMax, src, count, kind, s))
	}
	up := func(w *world) abi.Code { return copies(w, w.dev, w.host, n, n, abi.MemcpyHostToDevice, w.s) }
	for _, tt := range []struct {
		name   string
		change func(w *world) abi.Code
		want   abi.Code
	}{
		{"nothing", up, 0},
		{"another place in the same memory", func(w *world) abi.Code {
			return copies(w, w.dev+64, w.host+128, 64, 64, abi.MemcpyHostToDevice, w.s)
		}, 0},
		{"no bytes", func(w *world) abi.Code { return copies(w, 0, 0, 0, 0, 99, 99) }, 0},
		{"no dst", func(w *world) abi.Code { return copies(w, 0, w.host, n, n, abi.MemcpyHostToDevice, w.s) },
			abi.ErrInvalidParam},
		{"no src", func(w *world) abi.Code { return copies(w, w.dev, 0, n, n, abi.MemcpyHostToDevice, w.s) },
			abi.ErrInvalidParam},
		{"kind below the range", func(w *world) abi.Code { return copies(w, w.dev, w.host, n, n, -1, w.s) },
			abi.ErrInvalidParam},
		{"kind above the range", func(w *world) abi.Code { return copies(w, w.dev, w.host, n, n, 6, w.s) },
			abi.ErrInvalidParam},
		{"count over destMax", func(w *world) abi.Code {
			return copies(w, w.dev, w.host, n-1, n, abi.MemcpyHostToDevice, w.s)
		}, abi.ErrRTParamInvalid},
		{"dst past its end", func(w *world) abi.Code {
			return copies(w, w.dev+n-64, w.host, n, n, abi.MemcpyHostToDevice, w.s)
		}, abi.ErrRTParamInvalid},
		{"src past its end", func(w *world) abi.Code {
			return copies(w, w.dev, w.host+n-63, 64, 64, abi.MemcpyHostToDevice, w.s)
		}, abi.ErrRTParamInvalid},
		{"host to host", func(w *world) abi.Code {
			return copies(w, w.host+64, w.host, 64, 64, abi.MemcpyHostToHost, w.s)
		}, abi.ErrRTFeatureNotSupport},
		{"host to host, twice", func(w *world) abi.Code {
			copies(w, w.host+64, w.host, 64, 64, abi.MemcpyHostToHost, w.s)
			return copies(w, w.host+64, w.host, 64, 64, abi.MemcpyHostToHost, w.s)
		}, abi.ErrRTFeatureNotSupport},
		{"to another device, twice", func(w *world) abi.Code {
			var there core.Addr
			must(w, w.th.SetDevice(1))
			must(w, memory.Malloc(w.th, &there, n, abi.MemMallocHugeFirst))
			must(w, w.th.SetDevice(0))
			must(w, transfer.MemcpyAsync(w.th, w.dev, n, w.dev2, n, abi.MemcpyDeviceToDevice, w.s))
			copies(w, there, w.dev, n, n, abi.MemcpyDeviceToDevice, w.s)
			return copies(w, there, w.dev, n, n, abi.MemcpyDeviceToDevice, w.s)
		}, abi.ErrRTParamInvalid},
		{"to itself", func(w *world) abi.Code {
			must(w, transfer.MemcpyAsync(w.th, w.dev, n, w.dev+64, 64, abi.MemcpyDeviceToDevice, w.s))
			return copies(w, w.dev, w.dev, n, n, abi.MemcpyDeviceToDevice, w.s)
		}, 0},
		{"a stream that is none", func(w *world) abi.Code {
			return copies(w, w.dev, w.host, n, n, abi.MemcpyHostToDevice, 12345)
		}, abi.ErrRTInvalidHandle},
		{"stream destroyed", func(w *world) abi.Code { must(w, w.th.DestroyStream(w.s)); return up(w) },
			abi.ErrRTInvalidHandle},
		{"stream destroyed, another one made", func(w *world) abi.Code {
			var other core.Handle
			must(w, w.th.DestroyStream(w.s))
			must(w, w.th.CreateStream(&other))
			return up(w)
		}, abi.ErrRTInvalidHandle},
		{"memory freed", func(w *world) abi.Code { must(w, memory.Free(w.th, w.dev)); return up(w) },
			abi.ErrRTParamInvalid},
		{"memory freed and given out again, smaller", func(w *world) abi.Code {
			must(w, memory.Free(w.th, w.dev))
			var again core.Addr
			must(w, memory.Malloc(w.th, &again, 64, abi.MemMallocHugeFirst))
			return up(w)
		}, abi.ErrRTParamInvalid},
		{"another context", func(w *world) abi.Code {
			var c core.Handle
			must(w, w.th.CreateContext(&c, 0))
			return up(w)
		}, abi.ErrRTStreamContext},
		{"no context", func(w *world) abi.Code {
			must(w, w.th.ResetDevice(0))
			return up(w)
		}, abi.ErrRTInvalidHandle}, // the stream has gone with it, and is looked at first
		{"a context that another thread destroyed", func(w *world) abi.Code {
			var c core.Handle
			must(w, w.th.CreateContext(&c, 0))
			must(w, transfer.MemcpyAsync(w.th, w.dev, n, w.host, n, abi.MemcpyHostToDevice, 0))
			other := w.rt.NewThread(2)
			must(w, other.DestroyContext(c))
			return copies(w, w.dev, w.host, n, n, abi.MemcpyHostToDevice, 0)
		}, abi.ErrRTContextNull},
		{"the default stream of the next context", func(w *world) abi.Code {
			must(w, transfer.MemcpyAsync(w.th, w.dev, n, w.host, n, abi.MemcpyHostToDevice, 0))
			var c core.Handle
			must(w, w.th.CreateContext(&c, 0))
			return copies(w, w.dev, w.host, n, n, abi.MemcpyHostToDevice, 0)
		}, 0},
		{"a context that has stopped", func(w *world) abi.Code {
			must(w, w.th.SetStreamFailureMode(w.s, 1))
			must(w, transfer.MemcpyAsync(w.th, w.dev, n, w.host, n, abi.MemcpyHostToDevice, w.s))
			// An address that is no memory, with the kind that is taken at its word, fails when it runs.
			must(w, transfer.MemcpyAsync(w.th, w.dev, n, 4096, n, abi.MemcpyDeviceToDevice, w.s))
			w.th.SynchronizeStream(w.s) //nolint:errcheck // the failure that stops it
			return up(w)
		}, abi.ErrRTSysDma},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rt, th := newRuntime(t, "A2")
			w := &world{TB: t, rt: rt, th: th}
			must(t, th.CreateStream(&w.s))
			must(t, memory.MallocHost(th, &w.host, n))
			must(t, memory.Malloc(th, &w.dev, n, abi.MemMallocHugeFirst))
			must(t, memory.Malloc(th, &w.dev2, n, abi.MemMallocHugeFirst))
			for _, dst := range []core.Addr{w.dev2, w.dev, w.dev} {
				must(t, transfer.MemcpyAsync(th, dst, n, w.host, n, abi.MemcpyHostToDevice, w.s))
			}
			if got := tt.change(w); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// TestPassOfPeers takes peer access back between two copies to another device.
func TestPassOfPeers(t *testing.T) {
	_, th := newRuntime(t, "A2")
	var here, there core.Addr
	must(t, th.SetDevice(1))
	must(t, memory.Malloc(th, &there, 64, abi.MemMallocHugeFirst))
	must(t, th.SetDevice(0))
	must(t, memory.Malloc(th, &here, 64, abi.MemMallocHugeFirst))
	must(t, memory.DeviceEnablePeerAccess(th, 1, 0))
	for range 3 {
		must(t, transfer.MemcpyAsync(th, there, 64, here, 64, abi.MemcpyDeviceToDevice, 0))
	}
	must(t, memory.DeviceDisablePeerAccess(th, 1))
	if err := transfer.MemcpyAsync(th, there, 64, here, 64, abi.MemcpyDeviceToDevice, 0); err == nil ||
		err.Code != abi.ErrRTParamInvalid {
		t.Errorf("after peer access was taken back: %v", err)
	}
}

// TestQuiet: what runs is waited for, what cannot go on is not.
func TestQuiet(t *testing.T) {
	rt, th := newRuntime(t, "A2")
	const n = 256 << 20
	var stuck, busy, behind, event, later core.Handle
	for _, s := range []*core.Handle{&stuck, &busy, &behind} {
		must(t, th.CreateStream(s))
	}
	var host, dev core.Addr
	must(t, memory.MallocHost(th, &host, n))
	must(t, memory.Malloc(th, &dev, n, abi.MemMallocHugeFirst))
	view(host, n)[n-1] = 1

	must(t, th.CreateEventWithFlag(&event, 1))
	must(t, th.StreamWaitEvent(stuck, event)) // it is never recorded
	must(t, transfer.MemcpyAsync(th, dev, 64, host, 64, abi.MemcpyHostToDevice, stuck))

	must(t, th.CreateEventWithFlag(&later, 1))
	must(t, th.StreamWaitEvent(behind, later))
	must(t, transfer.MemcpyAsync(th, host, n, dev, n, abi.MemcpyDeviceToHost, behind))
	must(t, transfer.MemcpyAsync(th, dev, n, host, n, abi.MemcpyHostToDevice, busy))
	must(t, th.RecordEvent(later, busy))

	if rt.Quiet(time.Hour, nil, true) {
		t.Error("it gave up")
	}
	for s, want := range map[core.Handle]abi.StreamStatus{
		stuck: abi.StreamStatusNotReady, busy: abi.StreamStatusComplete, behind: abi.StreamStatusComplete,
	} {
		var got abi.StreamStatus
		must(t, th.StreamQuery(s, &got))
		if got != want {
			t.Errorf("stream %#x is %v, want %v", s, got, want)
		}
	}
	must(t, th.StreamAbort(stuck))
	if got := view(host, n)[n-1]; got != 1 {
		t.Errorf("the byte that went up and down is %d", got)
	}
}
