package conformance

import (
	"math"
	"strings"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver/faulty"
)

const (
	gib = 1 << 30
	tib = 1 << 40
)

// rcForm has no virtual memory.
var rcForm = machine{product: "310B", form: "RC"}

// virtual skips the proof on a driver without virtual memory.
func virtual(p proof) proof {
	return func(e *env) *core.Error { e.Helper(); needsMapper(e); return p(e) }
}

func needsMapper(e *env) {
	e.Helper()
	if e.faults.Caps().Map == nil {
		e.Skip("the driver has no virtual memory")
	}
}

// memProp is 2 MiB pages of device 0.
func memProp() *abi.PhysicalMemProp {
	return &abi.PhysicalMemProp{MemAttr: abi.MemAttrHBMMemHuge,
		Location: abi.MemLocation{Type: abi.MemLocationTypeDevice}}
}

// on device and on host make properties.
func deviceProp(id uint32, a abi.MemAttr) *abi.PhysicalMemProp {
	return &abi.PhysicalMemProp{MemAttr: a, Location: abi.MemLocation{Type: abi.MemLocationTypeDevice, ID: id}}
}

func hostProp(a abi.MemAttr) *abi.PhysicalMemProp {
	return &abi.PhysicalMemProp{MemAttr: a, Location: abi.MemLocation{Type: abi.MemLocationTypeHost}}
}

// reserved is n bytes of addresses; physical is memory; mapped is memory behind a part of addresses.
func reserved(e *env, n uint64) core.Addr {
	e.Helper()
	var p core.Addr
	e.ok(memory.ReserveMemAddress(e.th, &p, n, 0, 0, 0))
	return p
}

func physical(e *env, n uint64, prop *abi.PhysicalMemProp) core.Handle {
	e.Helper()
	var h core.Handle
	e.ok(memory.MallocPhysical(e.th, &h, n, prop, 0))
	return h
}

func mapped(e *env, at core.Addr, n uint64, prop *abi.PhysicalMemProp) core.Handle {
	e.Helper()
	h := physical(e, n, prop)
	e.ok(memory.MapMem(e.th, at, n, 0, h, 0))
	return h
}

// freedPhysical is the handle of memory that was freed.
func freedPhysical(e *env) core.Handle {
	e.Helper()
	h := physical(e, 2*mib, memProp())
	e.ok(memory.FreePhysical(e.th, h))
	return h
}

// freeMemory is how much device 0 has left.
func freeMemory(e *env) uint64 {
	e.Helper()
	n, _ := e.memInfo(abi.MemAttrHBMMem)
	return n
}

func init() {
	prove("aclrtReserveMemAddress", "not-offered", func(e *env) *core.Error {
		return memory.ReserveMemAddress(e.on(rcForm).th,
			new(core.Addr), 1, 1, 1, 1)
	})
	prove("aclrtReserveMemAddress", "driver-refuses", virtual(func(e *env) *core.Error {
		p := core.Addr(7)
		for _, c := range []struct {
			size uint64
			at   core.Addr
		}{
			{2 * mib, 2 * mib}, {2 * mib, 16*tib - 2*mib}, {2 * mib, 24 * tib}, {4 * mib,
				24*tib - 2*mib}, {math.MaxUint64, 16 * tib},
			{2 * mib, 16*tib + 4096}, {gib + 1, 16*tib + 2*mib},
		} {
			e.want(memory.ReserveMemAddress(e.th, &p, c.size, 0, c.at, 0), abi.ErrRTParamInvalid)
		}
		o := e.on(machine{product: "950"})
		o.want(memory.ReserveMemAddress(o.th, &p, 2*mib, 0, 18*tib, 0), abi.ErrRTParamInvalid)
		if !onGPU { // CUDA takes an address for a hint
			var q core.Addr
			e.ok(memory.ReserveMemAddress(e.th, &q, 4*mib, 0, 18*tib, 0))
			e.want(memory.ReserveMemAddress(e.th, &p, 2*mib, 0, q+2*mib, 0), abi.ErrRTParamInvalid) // it is not free
		}
		taken(e, func(th *core.Thread, at core.Addr) *core.Error {
			return memory.ReserveMemAddress(th, &p, 2*mib, 0, at, 0)
		}, 21*tib)
		if p != 7 {
			e.Error("the pointer was written")
		}
		return memory.ReserveMemAddress(e.th, &p, 2*mib, 64, 0, 0)
	}))
	prove("aclrtReserveMemAddress", "no-address-space", virtual(func(e *env) *core.Error {
		e.want(memory.ReserveMemAddress(e.th, new(core.Addr), math.MaxUint64, 0, 0, 0), abi.ErrRTMemoryAllocation)
		return memory.ReserveMemAddress(e.th, new(core.Addr), 1<<62, 0, 0, 0)
	}))
	behaves("aclrtReserveMemAddress", func(e *env) {
		needsMapper(e)
		for _, m := range []machine{{}, {product: "950"}, {product: "310P"}} {
			o := e.on(m)
			for _, size := range []uint64{1, 2 * mib, 3 * mib, gib + 1, tib} {
				var p core.Addr
				o.ok(memory.ReserveMemAddress(o.stranger(), &p, size, 0, 0, size%2)) // no context, flags 0 and 1
				if p == 0 || p%(2*mib) != 0 {
					e.Errorf("%d bytes at %#x", size, p)
				}
				if !onGPU {
					again(o, p, size)
				}
				o.at(p, abi.MemLocationTypeUnregistered, 0, smallPage)
				o.want(transfer.Memset(o.th, p, 64, 0, 64), abi.ErrRTParamInvalid) // there is nothing behind it
				o.ok(memory.ReleaseMemAddress(o.stranger(), p))
			}
		}
		if checked || onGPU { // CUDA takes an address for a hint
			return
		}
		var p core.Addr // a place of the program's choice
		for range 3 {
			e.ok(memory.ReserveMemAddress(e.th, &p, 3*gib, 0, 20*tib, 0))
			if p != 20*tib {
				e.Errorf("%#x, want 20 TiB", p)
			}
			e.ok(memory.ReleaseMemAddress(e.th, p))
		}
	})

	const noUC = 64 * tib
	prove("aclrtReserveMemAddressNoUCMemory", "not-offered", func(e *env) *core.Error {
		return memory.ReserveMemAddressNoUCMemory(e.on(rcForm).th, new(core.Addr), 1, 1, 0, 1)
	})
	prove("aclrtReserveMemAddressNoUCMemory", "driver-refuses", virtual(func(e *env) *core.Error {
		// it does not choose
		e.want(memory.ReserveMemAddressNoUCMemory(e.th, new(core.Addr), gib, 0, 0, 0), abi.ErrRTParamInvalid)
		e.want(memory.ReserveMemAddressNoUCMemory(e.th, new(core.Addr), gib+2*mib, 0, noUC, 0), abi.ErrRTParamInvalid)
		e.want(memory.ReserveMemAddressNoUCMemory(e.th, new(core.Addr), gib, 0, noUC+64, 0), abi.ErrRTParamInvalid)
		e.want(memory.ReserveMemAddressNoUCMemory(e.th, new(core.Addr), 1<<60, 0, noUC, 0), abi.ErrRTParamInvalid)
		p := core.Addr(7)
		taken(e, func(th *core.Thread, at core.Addr) *core.Error {
			return memory.ReserveMemAddressNoUCMemory(th, &p, gib, 0, at, 0)
		}, noUC)
		// more than machines have
		e.want(memory.ReserveMemAddressNoUCMemory(e.th, &p, gib, 0, 1<<56-gib, 0), abi.ErrRTParamInvalid)
		if p != 7 {
			e.Error("the pointer was written")
		}
		return memory.ReserveMemAddressNoUCMemory(e.th, new(core.Addr), gib, 1, noUC, 0)
	}))
	behaves("aclrtReserveMemAddressNoUCMemory", func(e *env) {
		needsMapper(e)
		if onGPU { // CUDA takes an address for a hint
			return
		}
		var p core.Addr
		e.ok(memory.ReserveMemAddressNoUCMemory(e.stranger(), &p, 2*gib, 0, noUC, 0))
		if p != noUC {
			e.Errorf("%#x, want %#x", p, uint64(noUC))
		}
		mapped(e, p+2*mib, 4*mib, memProp())
		e.write(p+2*mib, noise(4*mib, 1))
		e.holds(p+2*mib, noise(4*mib, 1))
		e.ok(memory.UnmapMem(e.th, p+2*mib))
		e.ok(memory.ReleaseMemAddress(e.th, p))
	})

	prove("aclrtReleaseMemAddress", "not-offered", func(e *env) *core.Error {
		return memory.ReleaseMemAddress(e.on(rcForm).th, 7)
	})
	prove("aclrtReleaseMemAddress", "not-reserved", virtual(func(e *env) *core.Error {
		for _, p := range []core.Addr{7, e.device(4096), e.pinned(64)} {
			e.want(memory.ReleaseMemAddress(e.th, p), abi.ErrRTParamInvalid)
		}
		p := reserved(e, 8*mib)
		e.want(memory.ReleaseMemAddress(e.th, p+2*mib), abi.ErrRTParamInvalid)
		h := mapped(e, p+4*mib, 2*mib, memProp())
		err := memory.ReleaseMemAddress(e.th, p)
		e.want(err, abi.ErrRTParamInvalid)
		if !strings.Contains(err.Text, "aclrtUnmapMem") {
			e.Errorf("%q does not say what to do", err.Text)
		}
		e.ok(memory.FreePhysical(e.th, h)) // mapped it is, all the same
		e.want(memory.ReleaseMemAddress(e.th, p), abi.ErrRTParamInvalid)
		e.ok(memory.UnmapMem(e.th, p+4*mib))
		e.ok(memory.MemMapNoAccess(e.th, p, 2*mib, 0, physical(e, 2*mib, memProp()), 0))
		e.want(memory.ReleaseMemAddress(e.th, p), abi.ErrRTParamInvalid)
		e.ok(memory.UnmapMem(e.th, p))
		e.ok(memory.ReleaseMemAddress(e.th, p))
		return memory.ReleaseMemAddress(e.th, p)
	}))
	behaves("aclrtReleaseMemAddress", func(e *env) {
		needsMapper(e)
		p := reserved(e, 2*mib)
		e.ok(memory.ReleaseMemAddress(e.th, p))
		e.want(memory.MapMem(e.th, p, 2*mib, 0, physical(e, 2*mib, memProp()), 0), abi.ErrRTParamInvalid)
	})

	mapRules := func(call func(*core.Thread, core.Addr, uint64, uint64, core.Handle, uint64) *core.Error) [6]proof {
		return [6]proof{
			func(e *env) *core.Error { return call(e.th, 0, 0, 1, 0, 1) },
			func(e *env) *core.Error { return call(e.th, 7, 0, 1, 0, 1) },
			func(e *env) *core.Error { return call(e.th, 7, 0, 1, garbage, 1) },
			func(e *env) *core.Error { return call(e.on(rcForm).th, 7, 1, 1, garbage, 1) },
			func(e *env) *core.Error { return call(e.on(rcForm).th, 7, 1, 1, garbage, 0) },
			virtual(func(e *env) *core.Error {
				p, h := reserved(e, 8*mib), physical(e, 4*mib, memProp())
				refuse := func(at core.Addr, size, offset uint64, h core.Handle) {
					e.Helper()
					e.want(call(e.th, at, size, offset, h, 0), abi.ErrRTParamInvalid)
				}
				refuse(p, 4*mib, 0, garbage)
				refuse(p, 2*mib, 0, freedPhysical(e))
				refuse(p, 2*mib, 0, h)            // a part
				refuse(p, 6*mib, 0, h)            // more than there is
				refuse(p, 4*mib, 2*mib, h)        // from the middle
				refuse(p+6*mib, 4*mib, 0, h)      // past the end
				refuse(p-2*mib, 4*mib, 0, h)      // before the beginning
				refuse(p+4096, 4*mib, 0, h)       // between pages
				refuse(e.device(64), 4*mib, 0, h) // device memory is no reservation
				refuse(e.pinned(64), 4*mib, 0, h)
				o := reserved(e, 2*mib)
				refuse(o, 4*mib, 0, h)
				e.ok(call(e.th, p+2*mib, 4*mib, 0, h, 0))
				small := physical(e, 2*mib, memProp())
				refuse(p+4*mib, 2*mib, 0, small) // taken
				e.ok(memory.MapMem(e.th, p+6*mib, 2*mib, 0, small, 0))
				return call(e.th, p+2*mib, 4*mib, 0, h, 0)
			}),
		}
	}
	r := mapRules(memory.MapMem)
	prove("aclrtMapMem", "not-offered", r[4])
	prove("aclrtMapMem", "driver-refuses", r[5])
	behaves("aclrtMapMem", mapsMemory)
	r = mapRules(memory.MemMapNoAccess)
	prove("aclrtMemMapNoAccess", "not-offered", r[4])
	prove("aclrtMemMapNoAccess", "driver-refuses", r[5])
	behaves("aclrtMemMapNoAccess", func(e *env) {
		needsMapper(e)
		p, h := reserved(e, 8*mib), physical(e, 4*mib, memProp())
		e.ok(memory.MemMapNoAccess(e.stranger(), p, 4*mib, 0, h, 0))
		host := e.pinned(64)
		refused := func() {
			e.Helper()
			e.want(transfer.Memcpy(e.th, p, 64, host, 64, dflt), abi.ErrRTParamInvalid)
			e.want(transfer.MemcpyAsync(e.th, host, 64, p, 64, dflt, 0), abi.ErrRTParamInvalid)
			e.want(transfer.Memset(e.th, p, 64, 0, 64), abi.ErrRTParamInvalid)
			hasAccess(e, p, abi.MemLocationTypeDevice, 0, abi.MemAccessFlagsNone)
		}
		refused()
		e.ok(memory.MemSetAccess(e.th, p, 4*mib, readWrite(abi.MemLocationTypeDevice, 0), 1))
		hasAccess(e, p, abi.MemLocationTypeDevice, 0, abi.MemAccessFlagsReadwrite)
		e.write(p, noise(4*mib, 1))
		e.holds(p, noise(4*mib, 1))
		e.ok(memory.UnmapMem(e.th, p))
		e.ok(memory.MemMapNoAccess(e.th, p+4*mib, 4*mib, 0, h, 0)) // the bytes are still there
		e.ok(memory.MemSetAccess(e.th, p+4*mib, 4*mib, readWrite(abi.MemLocationTypeDevice, 0), 1))
		e.holds(p+4*mib, noise(4*mib, 1))
		e.ok(memory.UnmapMem(e.th, p+4*mib))
		e.ok(memory.MemMapNoAccess(e.th, p, 4*mib, 0, h, 0)) // what nobody could use is unmapped as well
		e.ok(memory.UnmapMem(e.th, p))
	})

	prove("aclrtUnmapMem", "not-offered", func(e *env) *core.Error { return memory.UnmapMem(e.on(rcForm).th, 7) })
	prove("aclrtUnmapMem", "not-mapped", virtual(func(e *env) *core.Error {
		p := reserved(e, 8*mib)
		mapped(e, p+2*mib, 4*mib, memProp())
		for _, a := range []core.Addr{7, p, p + 4*mib, p + 6*mib, e.device(64)} {
			e.want(memory.UnmapMem(e.th, a), abi.ErrRTParamInvalid)
		}
		e.ok(memory.UnmapMem(e.th, p+2*mib))
		return memory.UnmapMem(e.th, p+2*mib)
	}))
	behaves("aclrtUnmapMem", func(e *env) {
		needsMapper(e)
		free := freeMemory(e)
		p := reserved(e, 8*mib)
		h := mapped(e, p, 4*mib, memProp())
		e.ok(memory.MapMem(e.th, p+4*mib, 4*mib, 0, h, 0)) // the same memory twice
		e.write(p, noise(4*mib, 1))
		e.holds(p+4*mib, noise(4*mib, 1))
		e.ok(memory.UnmapMem(e.stranger(), p))
		e.at(p, abi.MemLocationTypeUnregistered, 0, smallPage)
		e.want(transfer.Memset(e.th, p, 64, 0, 64), abi.ErrRTParamInvalid)
		e.holds(p+4*mib, noise(4*mib, 1))
		e.ok(memory.FreePhysical(e.th, h)) // deferred
		e.holds(p+4*mib, noise(4*mib, 1))
		if free-freeMemory(e) != 4*mib {
			e.Error("memory that is mapped went with its handle")
		}
		e.ok(memory.UnmapMem(e.th, p+4*mib))
		if freeMemory(e) != free {
			e.Error("memory that nobody has is still taken")
		}
		// It waits for nothing: work that comes too late fails.
		mapped(e, p, 2*mib, memProp())
		s, release := e.blocked()
		e.ok(transfer.MemsetAsync(e.th, p, 2*mib, 1, 2*mib, s))
		if !checked {
			e.ok(memory.UnmapMem(e.th, p))
			release()
			e.want(e.th.SynchronizeStream(s), abi.ErrRTSysDma)
		}
	})
}

// mapsMemory: memory of devices and of the host, at any place, in every kind of copy; a buffer that grows while it is
// used.
func mapsMemory(e *env) {
	needsMapper(e)
	p := reserved(e, 64*mib)
	mapped(e, p+2*mib, 2*mib, memProp())
	e.at(p+2*mib+123, abi.MemLocationTypeDevice, 0, 2*mib)
	e.at(p, abi.MemLocationTypeUnregistered, 0, smallPage)
	e.want(transfer.Memset(e.th, p+2*mib, 2*mib+1, 0, 2*mib+1), abi.ErrRTParamInvalid) // a hole behind it
	e.want(memory.Free(e.th, p+2*mib), abi.ErrRTParamInvalid)
	// What touches is one range.
	mapped(e, p+4*mib, 4*mib, memProp())
	want := noise(6*mib, 1)
	e.write(p+2*mib, want)
	e.holds(p+2*mib, want)
	e.holds(p+4*mib-100, want[2*mib-100:2*mib+100])
	host, dev, s := e.pinned(6*mib), e.device(6*mib), e.stream()
	e.ok(transfer.MemcpyAsync(e.th, host, 6*mib, p+2*mib, 6*mib, abi.MemcpyDeviceToHost, s))
	e.ok(transfer.MemcpyAsync(e.th, dev, 6*mib, p+2*mib, 6*mib, abi.MemcpyDeviceToDevice, s))
	e.ok(e.th.SynchronizeStream(s))
	e.holds(host, want)
	e.holds(dev, want)
	e.ok(transfer.Memcpy2d(e.th, host, 100, p+4*mib-50, 100, 100, 3, abi.MemcpyDeviceToHost))
	e.holds(host, want[2*mib-50:2*mib+250])
	e.ok(transfer.MemsetAsync(e.th, p+4*mib-50, 100, 7, 100, s))
	e.ok(e.th.SynchronizeStream(s))
	e.holds(p+4*mib-50, []byte(strings.Repeat("\x07", 100)))

	// On the host, under addresses that the program can use.
	q := reserved(e, 8*mib)
	mapped(e, q+2*mib, 4*mib, hostProp(abi.MemAttrDDRMemHuge))
	e.at(q+2*mib, abi.MemLocationTypeHost, 0, e.attributes(q+2*mib).PageSize)
	copy(bytes(q+2*mib, 4*mib), noise(4*mib, 3))
	e.ok(transfer.MemcpyAsync(e.th, dev, 4*mib, q+2*mib, 4*mib, abi.MemcpyHostToDevice, s))
	e.ok(e.th.SynchronizeStream(s))
	e.holds(dev, noise(4*mib, 3))

	// A size between pages is that of whole pages, and either can be named.
	odd := physical(e, 3*mib, memProp())
	e.ok(memory.MapMem(e.th, p+8*mib, 3*mib, 0, odd, 0))
	e.write(p+8*mib, noise(4*mib, 4))
	e.ok(memory.UnmapMem(e.th, p+8*mib))
	e.ok(memory.MapMem(e.th, p+8*mib, 4*mib, 0, odd, 0))
	e.holds(p+8*mib, noise(4*mib, 4))
}

// TestGrowingBuffer maps more and more memory behind a buffer while copies run on what it has.
func TestGrowingBuffer(t *testing.T) {
	e := newEnv(t, machine{})
	needsMapper(e)
	const step, steps = 2 * mib, 24
	p, s := reserved(e, step*steps), e.stream()
	src := e.pinned(step)
	copy(bytes(src, step), noise(step, 5))
	for i := range core.Addr(steps) {
		mapped(e, p+i*step, step, memProp())
		for j := range i + 1 { // copies of earlier rounds may still run
			e.ok(transfer.MemcpyAsync(e.th, p+j*step, step, src, step, abi.MemcpyHostToDevice, s))
		}
	}
	// across all of them
	e.ok(transfer.MemcpyAsync(e.th, p+step/2, step*(steps-1), p, step*(steps-1), abi.MemcpyDeviceToDevice, s))
	e.ok(e.th.SynchronizeStream(s))
	want := noise(step, 5)
	e.holds(p, want[:step/2])
	e.holds(p+step*5+step/2, want)
	for i := range core.Addr(steps) {
		e.ok(memory.UnmapMem(e.th, p+i*step))
	}
	e.ok(memory.ReleaseMemAddress(e.th, p))
}

// TestMapAcrossReset: memory of a device goes with it, and what is left of it can be freed.
func TestMapAcrossReset(t *testing.T) {
	e := newEnv(t, machine{})
	needsMapper(e)
	p := reserved(e, 8*mib)
	h := mapped(e, p, 2*mib, memProp())
	onHost := mapped(e, p+2*mib, 2*mib, hostProp(abi.MemAttrMemHuge))
	bytes(p+2*mib, 1)[0] = 5
	e.ok(e.th.ResetDevice(0))
	e.at(p, abi.MemLocationTypeUnregistered, 0, smallPage)
	if bytes(p+2*mib, 1)[0] != 5 {
		e.Error("memory of the host went with the device")
	}
	e.ok(e.th.SetDevice(0))
	e.want(transfer.Memset(e.th, p, 64, 0, 64), abi.ErrRTParamInvalid)
	e.want(memory.MapMem(e.th, p+4*mib, 2*mib, 0, h, 0), abi.ErrRTParamInvalid)
	e.ok(memory.UnmapMem(e.th, p))
	e.ok(memory.UnmapMem(e.th, p+2*mib))
	e.ok(memory.FreePhysical(e.th, h))
	e.ok(memory.FreePhysical(e.th, onHost))
	mapped(e, p, 8*mib, memProp())
	e.write(p, noise(8*mib, 1))
	e.holds(p, noise(8*mib, 1))
	e.ok(memory.UnmapMem(e.th, p))
	e.ok(memory.ReleaseMemAddress(e.th, p))
}

// taken checks that a place which something else in the process has is refused: another runtime has it here, of which
// this one does not know, as of a sanitizer.
func taken(e *env, reserve func(*core.Thread, core.Addr) *core.Error, at core.Addr) {
	e.Helper()
	if onGPU {
		return
	}
	var p core.Addr
	other := core.New(core.Options{Driver: faulty.Wrap(e.faults), Product: e.rt.Product}).NewThread(1)
	e.ok(memory.ReserveMemAddressNoUCMemory(other, &p, gib, 0, at, 0))
	e.want(reserve(e.th, at), abi.ErrRTParamInvalid)
	e.ok(memory.ReleaseMemAddress(other, p))
}

// again checks that what was chosen for a reservation of size bytes, at p, is a choice that the program may make, and
// reserves it again in the same place.
func again(e *env, p core.Addr, size uint64) {
	e.Helper()
	if size >= gib && p%gib != 0 {
		e.Errorf("%d bytes at %#x, which is not a multiple of 1 GiB", size, p)
	}
	if e.rt.Product.Name == "950" || size > 8*tib {
		return
	}
	q := p
	e.ok(memory.ReleaseMemAddress(e.th, p))
	e.ok(memory.ReserveMemAddress(e.th, &q, size, 0, p, 0))
	if q != p {
		e.Errorf("%#x, want %#x again", q, p)
	}
}
