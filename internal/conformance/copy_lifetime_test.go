package conformance

import (
	"testing"

	"golang.org/x/sys/unix"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/testenv"
)

// gone accepts what may become of work whose memory goes before its turn: it fails there, or it was quick enough.
func gone(e *env, s core.Handle, must bool) {
	e.Helper()
	err := e.th.SynchronizeStream(s)
	if c := codeOf(err); c != abi.ErrRTSysDma && (must || c != abi.Success) {
		e.Errorf("got %v, want 507013", err)
	}
	e.ok(e.th.SynchronizeStream(s)) // and the stream goes on
}

// TestFreedInFlight frees the memory of all kinds of work, while it waits for its turn and while it runs.
func TestFreedInFlight(t *testing.T) {
	for _, n := range []uint64{64, 8 << 20} {
		for _, blocked := range []bool{true, false} {
			e := newEnv(t, machine{})
			type work struct{ p, q core.Addr } // device and pinned memory it uses
			for what, put := range map[string]func(w *work, s core.Handle) *core.Error{
				"up": func(w *work, s core.Handle) *core.Error {
					return transfer.MemcpyAsync(e.th, w.p, n, w.q, n,
						h2d, s)
				},
				"down": func(w *work, s core.Handle) *core.Error {
					return transfer.MemcpyAsync(e.th, w.q, n, w.p, n,
						d2h, s)
				},
				"buffered": func(w *work, s core.Handle) *core.Error {
					return transfer.MemcpyAsync(e.th, w.p, n, w.q, n, buf, s)
				},
				"plane": func(w *work, s core.Handle) *core.Error {
					return transfer.Memcpy2dAsync(e.th, w.p, 64, w.q, 64, 64, n/64, h2d, s)
				},
				"batch": func(w *work, s core.Handle) *core.Error {
					a := oneSegment(e, host, dev)
					a.dsts[0], a.srcs[0], a.sizes[0], a.destMaxs[0], a.stream = w.p, w.q, n, n, s
					return batchAsync(e, a)
				},
				"fill": func(w *work, s core.Handle) *core.Error { return transfer.MemsetAsync(e.th, w.p, n, 1, n, s) },
			} {
				for _, freeHost := range []bool{true, false} {
					w := &work{p: e.device(n), q: e.pinned(n)}
					s := e.stream()
					release := func() {}
					if blocked {
						release = e.block(s)
					}
					e.ok(put(w, s))
					must := blocked
					if freeHost {
						e.ok(memory.FreeHost(e.th, w.q))
						must = must && what != "buffered" && what != "fill" // those do not need it any more
					} else {
						e.ok(memory.Free(e.th, w.p))
					}
					release()
					gone(e, s, must)
					if freeHost {
						e.ok(memory.Free(e.th, w.p))
					} else {
						e.ok(memory.FreeHost(e.th, w.q))
					}
				}
			}
		}
	}
}

// TestClosedInFlight takes pages away from registered memory while copies of it are queued: the task fails, the process
// lives.
func TestClosedInFlight(t *testing.T) {
	countsOnHaste(t)
	for _, n := range []int{8192, 8 << 20} {
		e := newEnv(t, machine{})
		b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		testenv.OK(t, err)
		e.Cleanup(func() { unix.Munmap(b) })
		p, size := core.AddrOf(b), uint64(n)
		e.ok(memory.HostRegisterV2(e.th, p, size, abi.HostRegPinned))
		d := e.device(size)
		for _, put := range []func(s core.Handle) *core.Error{
			func(s core.Handle) *core.Error { return transfer.MemcpyAsync(e.th, d, size, p, size, h2d, s) },
			func(s core.Handle) *core.Error { return transfer.MemcpyAsync(e.th, p, size, d, size, d2h, s) },
			func(s core.Handle) *core.Error {
				return transfer.Memcpy2dAsync(e.th, d, 64, p, 64, 64, size/64, h2d, s)
			},
		} {
			s, release := e.blocked()
			e.ok(put(s))
			testenv.OK(t, unix.Mprotect(b[n/2:], unix.PROT_NONE))
			release()
			gone(e, s, true)
			// On an idle stream too, where a small copy is made by the submitter.
			e.ok(put(s))
			gone(e, s, true)
			testenv.OK(t, unix.Mprotect(b[n/2:], unix.PROT_READ|unix.PROT_WRITE))
			e.ok(put(s))
			e.ok(e.th.SynchronizeStream(s))
		}
		// What is not registered any more cannot be reached.
		s, release := e.blocked()
		e.ok(transfer.MemcpyAsync(e.th, d, size, p, size, h2d, s))
		e.ok(memory.HostUnregister(e.th, p))
		release()
		gone(e, s, true)
	}
}

// TestDestroyedInFlight ends streams, contexts and devices that have copies queued.
func TestDestroyedInFlight(t *testing.T) {
	for _, n := range []uint64{64, 8 << 20} {
		for name, end := range map[string]func(e *env, s core.Handle){
			"stream": func(e *env, s core.Handle) { e.ok(e.th.DestroyStreamForce(s)) },
			"device": func(e *env, s core.Handle) { e.ok(e.th.ResetDevice(0)) },
		} {
			e := newEnv(t, machine{})
			s, release := e.blocked()
			p, q := e.device(n), e.pinned(n)
			e.ok(transfer.MemcpyAsync(e.th, p, n, q, n, h2d, s))
			e.ok(transfer.MemcpyAsync(e.th, p, n, q, n, buf, s))
			e.ok(transfer.MemsetAsync(e.th, p, n, 0, n, s))
			done := make(chan bool)
			go func() { end(e, s); close(done) }()
			release()
			<-done
			if name == "device" {
				e.ok(e.th.SetDevice(0))
			}
			s = e.stream()
			p = e.device(n)
			e.ok(transfer.MemcpyAsync(e.th, p, n, q, n, h2d, s))
			e.ok(e.th.SynchronizeStream(s))
		}
	}
}

// TestWildInRC checks that in RC form, where the device takes every address, one that is no memory fails when the copy
// runs, and the process lives.
func TestWildInRC(t *testing.T) {
	e := newEnv(t, machine{product: "310B", form: "RC"})
	for _, n := range []uint64{8192, 1 << 20} {
		closed, err := unix.Mmap(-1, 0, int(n), unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE)
		testenv.OK(t, err)
		e.Cleanup(func() { unix.Munmap(closed) })
		d, s := e.device(n), e.stream()
		for _, kind := range []abi.MemcpyKind{h2h, d2d} {
			for _, wild := range []core.Addr{core.AddrOf(closed), 16, 1 << 60, ^core.Addr(0) - 4096} {
				e.ok(transfer.MemcpyAsync(e.th, d, n, wild, n, kind, s))
				gone(e, s, true)
				e.ok(transfer.MemcpyAsync(e.th, wild, n, d, n, kind, s))
				gone(e, s, true)
			}
		}
		p := e.hole()
		e.want(transfer.MemcpyAsync(e.th, p, 8192, d, 8192, d2h, s), abi.ErrRTParamInvalid)
		aroundHole(e, p)
	}
}
