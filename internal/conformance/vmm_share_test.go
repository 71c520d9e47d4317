package conformance

import (
	"os"
	"testing"
	"unsafe"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/process"
	"ropeway/internal/core/transfer"
)

// shares skips the proof on a driver that cannot share memory.
func shares(p proof) proof {
	return func(e *env) *core.Error { e.Helper(); needsSharer(e); return p(e) }
}

func needsSharer(e *env) {
	e.Helper()
	needsMapper(e)
	if e.faults.Caps().Share == nil {
		e.Skip("the driver cannot share memory")
	}
}

// shareable is memory with 4 MiB of noise and its shareable handle, with or without a white list.
func shareable(e *env, prop *abi.PhysicalMemProp, flags uint64) (core.Handle, uint64) {
	e.Helper()
	p := reserved(e, 4*mib)
	h := mapped(e, p, 4*mib, prop)
	e.write(p, noise(4*mib, 1))
	var n uint64
	e.ok(memory.MemExportToShareableHandle(e.th, h, abi.MemHandleTypeNone, flags, &n))
	return h, n
}

// opens maps memory of another process and checks its 4 MiB of noise.
func opens(e *env, h core.Handle) core.Addr {
	e.Helper()
	p := reserved(e, 4*mib)
	e.ok(memory.MapMem(e.th, p, 4*mib, 0, h, 0))
	e.holds(p, noise(4*mib, 1))
	return p
}

// neighbour is another runtime, which is to this one as one of another process.
func neighbour(e *env, m machine) *env {
	e.Helper()
	if onGPU && m.form == "RC" {
		e.Skip("RC form is on the software device, which takes no memory of a GPU")
	}
	return e.on(m)
}

func thisPid() *int32 { pid := int32(os.Getpid()); return &pid }

func at[T any](p *T) core.Addr { return core.Addr(unsafe.Pointer(p)) }

func init() {
	const plain, fabric = abi.MemShareHandleTypeDefault, abi.MemShareHandleTypeFabric
	a3 := machine{product: "A3"}

	prove("aclrtMemExportToShareableHandle", "not-offered", func(e *env) *core.Error {
		return memory.MemExportToShareableHandle(e.on(rcForm).th, garbage, 0, 1, new(uint64))
	})
	prove("aclrtMemExportToShareableHandle", "exported-already", shares(func(e *env) *core.Error {
		e.want(memory.MemExportToShareableHandle(e.th, freedPhysical(e), 0, 0, new(uint64)), abi.ErrRTParamInvalid)
		h, n := shareable(e, memProp(), 0)
		again := uint64(7)
		e.want(memory.MemExportToShareableHandleV2(e.th, h, 0, plain, at(&again)), abi.ErrRTDrvInternalError)
		onHost, _ := shareable(e, hostProp(abi.MemAttrMemHuge), 1)
		e.want(memory.MemExportToShareableHandle(e.th, onHost, 0, 0, &again), abi.ErrRTDrvInternalError)
		_, open := shareable(e, memProp(), 1)
		o := neighbour(e, machine{})
		var in core.Handle
		o.ok(memory.MemImportFromShareableHandle(o.th, open, 0, &in))
		e.want(memory.MemExportToShareableHandle(o.th, in, 0, 0, &again), abi.ErrRTDrvInternalError) // imported
		err := memory.MemExportToShareableHandle(e.th, h, 0, 0, &again)
		if again != 7 || n == 0 {
			e.Errorf("%d, then %d", n, again)
		}
		return err
	}))
	behaves("aclrtMemExportToShareableHandle", func(e *env) {
		needsSharer(e)
		for _, prop := range []*abi.PhysicalMemProp{memProp(), hostProp(abi.MemAttrMemHuge)} {
			h, n := shareable(e, prop, 1)
			o := neighbour(e, machine{})
			var in core.Handle
			o.ok(memory.MemImportFromShareableHandle(o.th, n, 0, &in))
			p := opens(o, in)
			// It is the same memory.
			q := reserved(e, 4*mib)
			e.ok(memory.MapMem(e.th, q, 4*mib, 0, h, 0))
			o.write(p+mib, noise(100, 5))
			e.holds(q+mib, noise(100, 5))
			e.write(q, noise(100, 6))
			o.holds(p, noise(100, 6))
			// When the exporter has freed it, nobody else gets it; an importer keeps it.
			e.ok(memory.FreePhysical(e.th, h))
			e.ok(memory.UnmapMem(e.th, q))
			o.holds(p, noise(100, 6))
		}
		// An importer maps what the exporter asked for, or all of it, as the exporter does.
		var n uint64
		var in core.Handle
		e.ok(memory.MemExportToShareableHandle(e.th, physical(e, 3*mib, memProp()), 0, 1, &n))
		o := neighbour(e, machine{})
		o.ok(memory.MemImportFromShareableHandle(o.th, n, 0, &in))
		for _, size := range []uint64{3 * mib, 4 * mib} {
			p := reserved(o, 4*mib)
			o.ok(memory.MapMem(o.th, p, size, 0, in, 0))
			o.ok(memory.MemSetAccess(o.th, p, size, &abi.MemAccessDesc{Flags: abi.MemAccessFlagsReadwrite,
				Location: abi.MemLocation{Type: abi.MemLocationTypeDevice}}, 1))
		}
		o.want(memory.MapMem(o.th, reserved(o, 4*mib), 2*mib, 0, in, 0), abi.ErrRTParamInvalid)
	})

	prove("aclrtMemExportToShareableHandleV2", "shareType-unknown", func(e *env) *core.Error {
		e.want(memory.MemExportToShareableHandleV2(e.th, garbage, 2, 0, at(new(uint64))), abi.ErrRTParamInvalid)
		return memory.MemExportToShareableHandleV2(e.th, garbage, 2, 3, at(new(uint64)))
	})
	prove("aclrtMemExportToShareableHandleV2", "fabric-without-context", func(e *env) *core.Error {
		return memory.MemExportToShareableHandleV2(e.stranger(), garbage, 1, fabric, at(new(abi.MemFabricHandle)))
	})
	prove("aclrtMemExportToShareableHandleV2", "no-fabric", func(e *env) (err *core.Error) {
		for _, m := range []machine{{}, {product: "950"}, {product: "310P"}, {product: "910"}, rcForm} {
			err = memory.MemExportToShareableHandleV2(e.on(m).th, garbage, 1, fabric, at(new(abi.MemFabricHandle)))
			e.want(err, abi.ErrRTFeatureNotSupport)
		}
		return err
	})
	prove("aclrtMemExportToShareableHandleV2", "not-offered", func(e *env) *core.Error {
		return memory.MemExportToShareableHandleV2(e.on(rcForm).th, garbage, 1, plain, at(new(uint64)))
	})
	prove("aclrtMemExportToShareableHandleV2", "exported-already", shares(func(e *env) *core.Error {
		o := e.on(a3)
		h := physical(o, 2*mib, memProp())
		o.ok(memory.MemExportToShareableHandleV2(o.th, h, 0, fabric, at(new(abi.MemFabricHandle))))
		o.want(memory.MemExportToShareableHandleV2(o.th, h, 0, fabric, at(new(abi.MemFabricHandle))),
			abi.ErrRTDrvInternalError)
		return memory.MemExportToShareableHandleV2(o.th, h, 0, plain, at(new(uint64)))
	}))
	behaves("aclrtMemExportToShareableHandleV2", func(e *env) {
		needsSharer(e)
		o := e.on(a3)
		for i := range 2 {
			p := reserved(o, 4*mib)
			h := mapped(o, p, 4*mib, memProp())
			o.write(p, noise(4*mib, 1))
			var in core.Handle
			n := neighbour(o, a3)
			if i == 0 {
				var f abi.MemFabricHandle
				o.ok(memory.MemExportToShareableHandleV2(o.th, h, 1, fabric, at(&f)))
				n.ok(memory.MemImportFromShareableHandleV2(n.th, at(&f), fabric, 0, &in))
			} else {
				var u uint64
				o.ok(memory.MemExportToShareableHandleV2(o.stranger(), h, 1, plain, at(&u))) // no context
				n.ok(memory.MemImportFromShareableHandleV2(n.th, at(&u), plain, 0, &in))
			}
			opens(n, in)
		}
	})

	prove("aclrtMemSetPidToShareableHandle", "not-offered",
		func(e *env) *core.Error { return memory.MemSetPidToShareableHandle(e.on(rcForm).th, 7, thisPid(), 1) })
	many := make([]int32, 65536)
	for i := range many {
		many[i] = 1<<30 + int32(i) // processes that do not run
	}
	prove("aclrtMemSetPidToShareableHandle", "no-exporter", shares(func(e *env) *core.Error {
		h := physical(e, 2*mib, memProp())
		var n uint64
		e.ok(memory.MemExportToShareableHandle(e.th, h, 0, 0, &n))
		e.want(memory.MemSetPidToShareableHandle(e.th, n^1, new(int32), 1), abi.ErrRTInvalidHandle)
		e.ok(memory.MemSetPidToShareableHandle(e.th, n, thisPid(), 1))
		e.ok(memory.FreePhysical(e.th, h))
		return memory.MemSetPidToShareableHandle(e.th, n, new(int32), 1) // it has gone
	}))
	prove("aclrtMemSetPidToShareableHandle", "other-exporter", shares(func(e *env) *core.Error {
		_, n := shareable(e, memProp(), 1)
		other := neighbour(e, machine{})
		e.want(memory.MemSetPidToShareableHandle(other.th, n, thisPid(), 1), abi.ErrRTDrvInternalError)
		_, n = shareable(e, memProp(), 0)
		return memory.MemSetPidToShareableHandle(neighbour(e, machine{}).th, n, thisPid(), 1)
	}))
	prove("aclrtMemSetPidToShareableHandle", "exported-for-all", shares(func(e *env) *core.Error {
		_, n := shareable(e, memProp(), 1)
		return memory.MemSetPidToShareableHandle(e.th, n, new(int32), 1)
	}))
	prove("aclrtMemSetPidToShareableHandle", "pids", shares(func(e *env) *core.Error {
		_, n := shareable(e, memProp(), 0)
		e.ok(memory.MemSetPidToShareableHandle(e.th, n, &many[0], 65535))
		e.ok(memory.MemSetPidToShareableHandle(e.th, n, &many[0], 65535)) // the same once more
		e.want(memory.MemSetPidToShareableHandle(e.th, n, &many[65535], 1), abi.ErrRTDrvInternalError)
		_, n = shareable(e, memProp(), 0)
		return memory.MemSetPidToShareableHandle(e.th, n, &make([]int32, 3)[0], 3)
	}))
	behaves("aclrtMemSetPidToShareableHandle", func(e *env) {
		needsSharer(e)
		_, n := shareable(e, memProp(), 0)
		o := neighbour(e, machine{})
		var in core.Handle
		o.want(memory.MemImportFromShareableHandle(o.th, n, 0, &in), abi.ErrRTDrvInternalError)
		pids := []int32{int32(os.Getppid()), 0, 1 << 30, -5, int32(os.Getpid())} // some are nobody's
		e.ok(memory.MemSetPidToShareableHandle(e.stranger(), n, &pids[0], 4))
		o.want(memory.MemImportFromShareableHandle(o.th, n, 0, &in), abi.ErrRTDrvInternalError)
		e.ok(memory.MemSetPidToShareableHandle(e.stranger(), n, &pids[0], 5))
		o.ok(memory.MemImportFromShareableHandle(o.th, n, 0, &in))
		opens(o, in)
	})

	prove("aclrtMemSetPidToShareableHandleV2", "shareType-unknown", blames("shareType", func(e *env) *core.Error {
		return memory.MemSetPidToShareableHandleV2(e.on(rcForm).th, at(new(uint64)), 9, thisPid(), 1)
	}))
	prove("aclrtMemSetPidToShareableHandleV2", "not-offered", func(e *env) *core.Error {
		return memory.MemSetPidToShareableHandleV2(e.on(rcForm).th, at(new(uint64)), plain, thisPid(), 1)
	})
	prove("aclrtMemSetPidToShareableHandleV2", "not-a-fabric-handle", shares(func(e *env) *core.Error {
		return e.blames("shareableHandle", memory.MemSetPidToShareableHandleV2(e.th, at(new(abi.MemFabricHandle)),
			fabric, new(int32), 1))
	}))
	prove("aclrtMemSetPidToShareableHandleV2", "no-exporter", shares(func(e *env) *core.Error {
		return memory.MemSetPidToShareableHandleV2(e.th, at(new(uint64)), plain, new(int32), 1)
	}))
	prove("aclrtMemSetPidToShareableHandleV2", "other-exporter", shares(func(e *env) *core.Error {
		_, n := shareable(e, memProp(), 0)
		return memory.MemSetPidToShareableHandleV2(neighbour(e, machine{}).th, at(&n), plain, new(int32), 1)
	}))
	prove("aclrtMemSetPidToShareableHandleV2", "exported-for-all", shares(func(e *env) *core.Error {
		_, n := shareable(e, memProp(), 1)
		return memory.MemSetPidToShareableHandleV2(e.th, at(&n), plain, new(int32), 1)
	}))
	prove("aclrtMemSetPidToShareableHandleV2", "pids", shares(func(e *env) *core.Error {
		_, n := shareable(e, memProp(), 0)
		return memory.MemSetPidToShareableHandleV2(e.th, at(&n), plain, new(int32), 1)
	}))
	behaves("aclrtMemSetPidToShareableHandleV2", func(e *env) {
		needsSharer(e)
		o, n := e.on(a3), neighbour(e, a3)
		p := reserved(o, 4*mib)
		h := mapped(o, p, 4*mib, memProp())
		o.write(p, noise(4*mib, 1))
		var f abi.MemFabricHandle
		o.ok(memory.MemExportToShareableHandleV2(o.th, h, 0, fabric, at(&f)))
		var in core.Handle
		n.want(memory.MemImportFromShareableHandleV2(n.th, at(&f), fabric, 0, &in), abi.ErrRTDrvInternalError)
		o.ok(memory.MemSetPidToShareableHandleV2(o.stranger(), at(&f), fabric, thisPid(), 1))
		n.ok(memory.MemImportFromShareableHandleV2(n.th, at(&f), fabric, 0, &in))
		opens(n, in)
	})

	prove("aclrtMemImportFromShareableHandle", "no-exporter", shares(func(e *env) *core.Error {
		_, n := shareable(e, memProp(), 1)
		o := neighbour(e, rcForm)
		e.want(memory.MemImportFromShareableHandle(e.stranger(), 0, 0, new(core.Handle)), abi.ErrRTInvalidHandle)
		return memory.MemImportFromShareableHandle(o.stranger(), n^1, 0, new(core.Handle))
	}))
	prove("aclrtMemImportFromShareableHandle", "no-context", shares(func(e *env) *core.Error {
		_, n := shareable(e, memProp(), 0) // the white list comes last
		return memory.MemImportFromShareableHandle(neighbour(e, rcForm).stranger(), n, 0, new(core.Handle))
	}))
	prove("aclrtMemImportFromShareableHandle", "peer-access", shares(func(e *env) *core.Error {
		_, n := shareable(e, memProp(), 1)
		err := memory.MemImportFromShareableHandle(neighbour(e, rcForm).th, n, 1, new(core.Handle))
		e.want(err, abi.ErrRTFeatureNotSupport)
		if err.Quiet {
			e.Error("it is the answer of a driver without virtual memory")
		}
		return err
	}))
	prove("aclrtMemImportFromShareableHandle", "not-offered", shares(func(e *env) *core.Error {
		_, n := shareable(e, memProp(), 0)
		return memory.MemImportFromShareableHandle(neighbour(e, rcForm).th, n, 0, new(core.Handle))
	}))
	prove("aclrtMemImportFromShareableHandle", "not-for-this-process", shares(func(e *env) *core.Error {
		h := core.Handle(7)
		_, n := shareable(e, memProp(), 1)
		e.want(memory.MemImportFromShareableHandle(e.th, n, 0, &h), abi.ErrRTDrvInternalError) // it is ours
		_, n = shareable(e, memProp(), 0)
		// this process is not named either
		e.want(memory.MemImportFromShareableHandle(e.th, n, 1, &h), abi.ErrRTDrvInternalError)
		err := memory.MemImportFromShareableHandle(neighbour(e, machine{}).th, n, 0, &h)
		if h != 7 {
			e.Error("the handle was written")
		}
		return err
	}))
	prove("aclrtMemImportFromShareableHandle", "host-normal-pages", shares(func(e *env) *core.Error {
		_, n := shareable(e, hostProp(abi.MemAttrMemNormal), 1)
		return memory.MemImportFromShareableHandle(neighbour(e, machine{}).th, n, 0, new(core.Handle))
	}))
	behaves("aclrtMemImportFromShareableHandle", func(e *env) {
		importsOwn(e)
		needsSharer(e)
		_, n := shareable(e, memProp(), 1)
		o := neighbour(e, machine{})
		var in, again core.Handle
		o.ok(o.th.SetDevice(1))
		o.ok(memory.MemImportFromShareableHandle(o.th, n, 1, &in))
		o.ok(memory.MemImportFromShareableHandle(o.th, n, 0, &again))
		p := opens(o, in)
		opens(o, again)
		isProp(o, in, abi.MemAttrHBMMemHuge, abi.MemLocationTypeDevice, 0)
		o.at(p, abi.MemLocationTypeDevice, 0, o.attributes(p).PageSize)
		q := o.device(4 * mib) // of device 1, which reaches device 0 now, and the other way round
		o.ok(transfer.Memcpy(o.th, q, 4*mib, p, 4*mib, abi.MemcpyDeviceToDevice))
		o.holds(q, noise(4*mib, 1))
		for _, pair := range [][2]int32{{0, 1}, {1, 0}} {
			var status int32
			o.ok(memory.DevicePeerAccessStatus(o.th, pair[0], pair[1], &status))
			if status != 1 {
				o.Errorf("peer access %v is not enabled", pair)
			}
		}
		// for the same device it is the same handle, which is freed as often
		var third core.Handle
		o.ok(memory.MemImportFromShareableHandle(o.th, n, 1, &third))
		is(o, "a handle for the same device", third, in)
		o.ok(memory.UnmapMem(o.th, p))
		o.ok(memory.FreePhysical(o.th, in))
		opens(o, third)
		o.ok(memory.FreePhysical(o.th, third))
		o.want(memory.FreePhysical(o.th, in), abi.ErrRTParamInvalid)
	})

	prove("aclrtMemImportFromShareableHandleV2", "no-device", func(e *env) *core.Error {
		return memory.MemImportFromShareableHandleV2(e.stranger(), at(new(uint64)), 9, 0, new(core.Handle))
	})
	prove("aclrtMemImportFromShareableHandleV2", "shareType-unknown", func(e *env) *core.Error {
		return memory.MemImportFromShareableHandleV2(e.th, at(new(uint64)), 9, 0, new(core.Handle))
	})
	prove("aclrtMemImportFromShareableHandleV2", "no-fabric", func(e *env) (err *core.Error) {
		for _, m := range []machine{{}, {product: "950"}, {product: "310P"}, rcForm} {
			err = memory.MemImportFromShareableHandleV2(e.on(m).th, at(new(abi.MemFabricHandle)), fabric, 0,
				new(core.Handle))
			e.want(err, abi.ErrRTFeatureNotSupport)
		}
		return err
	})
	prove("aclrtMemImportFromShareableHandleV2", "not-a-fabric-handle", shares(func(e *env) *core.Error {
		o := e.on(a3)
		return memory.MemImportFromShareableHandleV2(o.th, at(new(abi.MemFabricHandle)), fabric, 0, new(core.Handle))
	}))
	prove("aclrtMemImportFromShareableHandleV2", "no-exporter", shares(func(e *env) *core.Error {
		return memory.MemImportFromShareableHandleV2(e.on(rcForm).th, at(new(uint64)), plain, 0, new(core.Handle))
	}))
	prove("aclrtMemImportFromShareableHandleV2", "peer-access", shares(func(e *env) *core.Error {
		_, n := shareable(e, memProp(), 1)
		o := neighbour(e, rcForm)
		o.ok(o.th.SetDevice(1))
		err := memory.MemImportFromShareableHandleV2(o.th, at(&n), plain, 0, new(core.Handle))
		e.want(err, abi.ErrRTFeatureNotSupport)
		return err
	}))
	prove("aclrtMemImportFromShareableHandleV2", "not-offered", shares(func(e *env) *core.Error {
		_, n := shareable(e, memProp(), 0)
		return memory.MemImportFromShareableHandleV2(neighbour(e, rcForm).th, at(&n), plain, 0, new(core.Handle))
	}))
	prove("aclrtMemImportFromShareableHandleV2", "not-for-this-process", shares(func(e *env) *core.Error {
		_, n := shareable(e, memProp(), 1)
		e.want(memory.MemImportFromShareableHandleV2(e.th, at(&n), plain, 0, new(core.Handle)),
			abi.ErrRTDrvInternalError)
		_, n = shareable(e, memProp(), 0)
		return memory.MemImportFromShareableHandleV2(neighbour(e, machine{}).th, at(&n), plain, 0, new(core.Handle))
	}))
	prove("aclrtMemImportFromShareableHandleV2", "host-normal-pages", shares(func(e *env) *core.Error {
		_, n := shareable(e, hostProp(abi.MemAttrMemNormal), 1)
		return memory.MemImportFromShareableHandleV2(neighbour(e, machine{}).th, at(&n), plain, 0, new(core.Handle))
	}))
	behaves("aclrtMemImportFromShareableHandleV2", func(e *env) {
		needsSharer(e)
		_, n := shareable(e, hostProp(abi.MemAttrMemHuge), 1)
		o := neighbour(e, machine{product: "310B"}) // memory of the host needs no peers
		o.ok(o.th.SetDevice(1))
		var in core.Handle
		o.ok(memory.MemImportFromShareableHandleV2(o.th, at(&n), plain, 0, &in))
		p := opens(o, in)
		bytes(p, 1)[0]++ // and has addresses for the program
		isProp(o, in, abi.MemAttrMemHuge, abi.MemLocationTypeHost, 0)
	})
}

// importsOwn imports memory for another device in the process that exports it: that of the host and of device 0 for
// device 2.
func importsOwn(e *env) {
	e.Helper()
	for _, prop := range []*abi.PhysicalMemProp{memProp(), hostProp(abi.MemAttrMemHuge)} {
		h, n := shareable(e, prop, 0)
		e.ok(memory.MemSetPidToShareableHandle(e.th, n, thisPid(), 1))
		var in core.Handle
		e.ok(memory.MemImportFromShareableHandle(e.th, n, 2, &in))
		p := opens(e, in)
		e.write(p+mib, noise(100, 5)) // it is the same memory
		q := reserved(e, 4*mib)
		e.ok(memory.MapMem(e.th, q, 4*mib, 0, h, 0))
		e.holds(q+mib, noise(100, 5))
		e.ok(memory.FreePhysical(e.th, h)) // its importers keep it
		e.ok(memory.UnmapMem(e.th, q))
		e.holds(p+mib, noise(100, 5))
		e.ok(memory.UnmapMem(e.th, p))
		e.ok(memory.FreePhysical(e.th, in))
	}
}

// TestExportEnds: an export ends with its memory, with its device, and with the process.
func TestExportEnds(t *testing.T) {
	e := newEnv(t, machine{})
	needsSharer(e)
	o := neighbour(e, machine{})
	_, n := shareable(e, memProp(), 1)
	e.ok(e.th.ResetDevice(0))
	o.want(memory.MemImportFromShareableHandle(o.th, n, 0, new(core.Handle)), abi.ErrRTInvalidHandle)

	e.ok(e.th.SetDevice(0))
	h := physical(e, 2*mib, memProp())
	e.ok(memory.MemExportToShareableHandle(e.th, h, 0, 1, &n))
	var in core.Handle
	o.ok(memory.MemImportFromShareableHandle(o.th, n, 0, &in))
	e.ok(memory.FreePhysical(e.th, h))
	o.want(memory.MemImportFromShareableHandle(o.th, n, 0, new(core.Handle)), abi.ErrRTInvalidHandle)
	o.ok(memory.FreePhysical(o.th, in))

	e.ok(process.Init(e.th, nil))
	h = physical(e, 2*mib, memProp())
	e.ok(memory.MemExportToShareableHandle(e.th, h, 0, 1, &n))
	e.ok(process.Finalize(e.th))
	o.want(memory.MemImportFromShareableHandle(o.th, n, 0, new(core.Handle)), abi.ErrRTInvalidHandle)
	e.ok(memory.FreePhysical(e.th, h))
}
